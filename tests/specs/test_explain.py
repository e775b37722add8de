"""What is wrong in a spec is said in plain words, at its line."""

from __future__ import annotations

import pytest

from zoo.errors import SpecError
from zoo.specs.strict_yaml import load_spec
from zoo.specs.task import TaskSpec


def test_a_good_file_loads(task_file):
    task = load_spec(task_file, TaskSpec)
    assert task.recipe.train.lr == 1e-3
    assert task.split.options == {"balanced": True}
    assert task.recipe.model.hparams == {"width": 64}


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("title:", "titel:", 2, "titel: unknown key 'titel'. Did you mean 'title'? Known: name, title, domain"),
        ("    epochs: 7", "    epoch: 7", 23, "recipe.train.epoch: unknown key 'epoch'. Did you mean 'epochs'?"),
        ("    unit: mol/L", "    units: mol/L", 9, "targets[0].units: unknown key 'units'. Did you mean 'unit'?"),
        ("{name: rmse,", "{nam: rmse,", 11, "metrics[0].nam: unknown key 'nam'. Did you mean 'name'?"),
        ("    kind: regression\n", "", 6, "targets[0].kind: this key is missing."),
        ("dataset: mini\n", "", 1, "dataset: this key is missing."),
        ("epochs: 7", "epochs: seven", 23, "must be a whole number, got the text 'seven'."),
        ("epochs: 7", "epochs: 7.5", 23, "must be a whole number, got the number 7.5."),
        ("epochs: 7", "epochs: '7'", 23, "must be a whole number, got the text '7'."),
        ("epochs: 7", "epochs: 0", 23, "must be greater than or equal to 1, got the number 0."),
        ("lr: 1e-3", "lr: 1_000", 24, "must be a number, got the text '1_000'. Write digits without separators"),
        ("lr: 1e-3", "lr: 0", 24, "must be greater than 0, got the number 0."),
        ("lr: 1e-3", "lr: true", 24, "must be a number, got true."),
        ("primary: true", "primary: yes", 11, "metrics[0].primary: must be true or false, got the text 'yes'."),
        ("title: A tiny task", "title: 2024", 2, 'must be text, got the number 2024. Put it in quotes: "2024".'),
        ("title: A tiny task", "title: true", 2, 'must be text, got true. Put it in quotes: "true".'),
        ("title: A tiny task", "title:", 2, "must be text, got nothing (null)."),
        ("models: [dmpnn, gine]", "models: dmpnn", 16, "must be a list, got the text 'dmpnn'. Write [dmpnn]."),
        ("models: [dmpnn, gine]", "models: []", 16, "models: must have at least 1 item"),
        ("kind: regression", "kind: regresion", 8, "got the text 'regresion'. Did you mean 'regression'?"),
        (
            "{width: 64}",
            "{width: [64]}",
            20,
            "width: must be a whole number or a number or text or true or false, got a list",
        ),
        ("split:\n  method: scaffold\n", "split:\n", 12, "split.method: this key is missing."),
        ("name: mini-task", "name: Mini Task", 1, "must match pattern"),
        ("{small: dmpnn}", "{tiny: dmpnn}", 17, "must be 'small', 'medium' or 'large', got the text 'tiny'."),
        ("{small: dmpnn}", "{small: gin}", 1, "default_model names what `models` does not allow: gin."),
        ("method: scaffold", "method: column", 12, "split: method 'column' needs `column`."),
        ("primary: true", "primary: false", 1, "exactly one metric must be `primary: true`."),
        ("lr: 1e-3", "lr: 1e-3\n    lr: 1e-4", 25, "the key 'lr' stands twice"),
    ],
)
def test_problems(task_file, edit, old, new, line, says):
    edit(old, new)
    with pytest.raises(SpecError) as error:
        load_spec(task_file, TaskSpec)
    messages = str(error.value).splitlines()
    misspelt = old.strip(" {").partition(":")[0] in ("title", "name") and "unknown" in says
    assert len(messages) == (2 if misspelt else 1), "a misspelt key that must be there is also missing"
    assert any(m.startswith(f"{task_file}:{line}: ") and says in m for m in messages), messages


def test_every_problem_is_reported_on_its_own_line(task_file, edit):
    edit("epochs: 7", "epochs: seven")
    edit("title:", "titel:")
    with pytest.raises(SpecError) as error:
        load_spec(task_file, TaskSpec)
    lines = str(error.value).splitlines()
    assert len(lines) == 3, "the unknown key, the missing one, the wrong type"
    assert f"{task_file}:23: recipe.train.epochs: must be a whole number, got the text 'seven'." in lines
    assert any("titel: unknown key" in line for line in lines)
    assert any(line.endswith("title: this key is missing.") for line in lines)


@pytest.mark.parametrize(("text", "says"), [("", "is empty"), ("# only a remark\n", "is empty"), ("- a\n", "holds no")])
def test_a_file_without_keys(task_file, text, says):
    task_file.write_text(text)
    with pytest.raises(SpecError, match=says):
        load_spec(task_file, TaskSpec)
