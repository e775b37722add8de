"""``zoo list``, ``zoo show`` and ``zoo validate``."""

from __future__ import annotations

import hashlib
import json

import pytest

import zoo as package


def test_list_all_kinds(zoo, folder):
    code, out, err = zoo("list", "--include", folder)
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert ["mini-task", "molecules", "mini", "y", "rmse", "scaffold", "A", "tiny", "task"] in rows
    assert ["mini", "molecules", "4", "bundled", "CC0-1.0", "Four", "molecules"] in rows
    assert ["far", "molecules", "4", "by", "url", "CC0-1.0", "Four", "molecules"] in rows


def test_list_json_and_domain(zoo, folder):
    code, out, _ = zoo("list", "datasets", "--json", "--domain", "molecules", "--include", folder)
    assert code == 0
    listed = {row["dataset"]: row for row in json.loads(out)["datasets"]}
    assert listed["mini"] == {
        "dataset": "mini",
        "domain": "molecules",
        "rows": 4,
        "data": "bundled",
        "licence": "CC0-1.0",
        "title": "Four molecules",
    }
    code, _, err = zoo("list", "--domain", "molecule", "--include", folder)
    assert code == 2
    assert "unknown domain 'molecule'. Did you mean 'molecules'?" in err


def test_a_broken_file_is_a_note_in_list_and_a_failure_in_validate(zoo, folder):
    file = folder / "tasks" / "molecules" / "mini-task.yaml"
    file.write_text(file.read_text().replace("dataset:", "datset:"))
    code, out, err = zoo("list", "tasks", "--include", folder)
    assert code == 0
    assert "far-task" in out
    assert "mini-task" not in out
    (note,) = err.splitlines()
    assert note.startswith(f"note: the task mini-task cannot be used: {file}:4: datset: unknown key 'datset'.")
    code, out, _ = zoo("validate", "mini-task", "--include", folder)
    assert code == 1
    assert f"{file}:4: datset: unknown key 'datset'. Did you mean 'dataset'?" in out


def test_quiet_keeps_the_note(zoo, folder):
    """A file that cannot be used is a warning, not progress."""
    (folder / "tasks" / "molecules" / "bad.yaml").write_text("name: [")
    assert "note: the task bad cannot be used" in zoo("list", "tasks", "--quiet", "--include", folder)[2]


def test_python_names(folder):
    assert {"mini-task", "far-task"} <= set(package.list_tasks(include=[folder]))
    assert {"mini-task", "far-task"} <= set(package.list_tasks("molecules", include=[folder]))
    assert package.list_tasks("equivariant", include=[folder]) == []
    assert "mini" in package.list_datasets(include=[folder])


def test_show_finds_the_kind(zoo, folder):
    code, out, _ = zoo("show", "mini-task", "--include", folder)
    assert code == 0
    assert "rmse (lower is better, decides)" in out
    assert "Next: zoo train mini-task" in out
    code, out, _ = zoo("show", "mini", "--include", folder)
    assert code == 0
    assert "mini-task" in out.split("tasks", 1)[1]
    assert out == zoo("show", "dataset", "mini", "--include", folder)[1]


def test_show_json(zoo, folder):
    shown = json.loads(zoo("show", "task", "mini-task", "--json", "--include", folder)[1])
    assert shown["dataset"] == "mini"
    assert shown["split"]["fractions"] == {"train": 0.8, "val": 0.1, "test": 0.1}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["mini-tusk"], "Did you mean 'mini-task'?"),
        (["task", "mini"], "unknown task 'mini'"),
        (["taks", "mini"], "unknown kind 'taks'. Did you mean 'task'?"),
    ],
)
def test_show_unknown(zoo, folder, words, says):
    code, _, err = zoo("show", *words, "--include", folder)
    assert code == 2
    assert says in err


def test_validate_passes_what_is_right(zoo, folder):
    code, out, err = zoo("validate", "mini-task", "--include", folder)
    assert (code, err) == (0, "")
    assert out == "2 checked: 8 checks ok, 0 failed, 0 not available here\n", "the task and the data set below it"


def test_validate_json(zoo, folder):
    checks = json.loads(zoo("validate", "mini", "--json", "--include", folder)[1])
    assert [(c["what"], c["status"], c["message"]) for c in checks] == [
        ("definition", "ok", "Four molecules"),
        ("file mini.csv", "ok", "4 rows, 2 columns"),
        ("split scaffold_0.csv", "ok", "train 2, val 1, test 1"),
    ]


def test_a_file_off_the_net_is_not_a_failure(zoo, folder, tmp_path):
    code, out, _ = zoo("validate", "far-task", "--include", folder)
    assert code == 0
    assert "0 failed, 2 not available here" in out
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "far.csv").write_bytes((folder / "datasets" / "mini" / "mini.csv").read_bytes())
    code, out, _ = zoo("validate", "far-task", "--include", folder, "--mirror", tmp_path / "mirror")
    assert code == 0
    assert "0 failed, 0 not available here" in out


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("datasets/mini/mini.csv", "CCO,1.0", "CCO,1.1", "is not the file that the data set declares"),
        ("datasets/mini/dataset.yaml", "rows: 4", "rows: 5", "has 4 data rows, but"),
        ("datasets/mini/dataset.yaml", "name: y,", "name: z,", "'z'"),
        ("datasets/mini/splits/scaffold_0.csv", "3,test", "4,test", "'4' is not a row of the data"),
        ("datasets/mini/splits/scaffold_0.csv", "3,test", "2,test", "row 2 stands twice"),
        ("datasets/mini/splits/scaffold_0.csv", "3,test", "3,tset", "'tset' is not a part. Did you mean 'test'?"),
        ("tasks/molecules/mini-task.yaml", "dataset: mini", "dataset: mimi", "unknown data set 'mimi'. Did you mean"),
        (
            "tasks/molecules/mini-task.yaml",
            "{name: y,",
            "{name: yy, column: smile,",
            "no target column of the data set",
        ),
        ("tasks/molecules/mini-task.yaml", "[dmpnn]", "[dmpn]", "unknown architecture 'dmpn'. Did you mean 'dmpnn'?"),
        ("tasks/molecules/mini-task.yaml", ":random-forest", ":forest", "unknown baseline of molecules 'forest'"),
        ("tasks/molecules/mini-task.yaml", "name: rmse", "name: rmsd", "unknown metric 'rmsd'. Did you mean 'rmse'?"),
        ("tasks/molecules/mini-task.yaml", "direction: min", "direction: max", "has the direction 'min', not 'max'"),
        ("tasks/molecules/mini-task.yaml", "name: rmse, direction: min", "name: mcc, direction: max", "scores binary"),
        ("tasks/molecules/mini-task.yaml", "scaffold,", "skaffold,", "unknown split method 'skaffold'. Did you mean"),
        ("tasks/molecules/mini-task.yaml", "level: molecule", "level: residue", "unknown level of molecules 'residue'"),
        ("tasks/molecules/mini-task.yaml", "scaffold_{seed}", "absent_{seed}", "absent_0.csv is not there"),
    ],
)
def test_validate_finds_what_is_wrong(zoo, folder, file, old, new, says):
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    code, out, _ = zoo("validate", "mini-task", "mini", "--include", folder)
    assert code == 1
    assert says in out


def test_validate_reads_every_label(zoo, folder):
    data = folder / "datasets" / "mini" / "mini.csv"
    before = hashlib.sha256(data.read_bytes()).hexdigest()
    data.write_text(data.read_text().replace("3.5", "abc"))
    yaml = folder / "datasets" / "mini" / "dataset.yaml"
    yaml.write_text(yaml.read_text().replace(before, hashlib.sha256(data.read_bytes()).hexdigest()))
    code, out, _ = zoo("validate", "mini-task", "--include", folder)
    assert code == 1
    assert "abc" in out
    assert "row 2 (line 4)" in out


def test_validate_an_unknown_name(zoo, folder):
    code, _, err = zoo("validate", "mini-tusk", "--include", folder)
    assert code == 2
    assert "Did you mean 'mini-task'?" in err
