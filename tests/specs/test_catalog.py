"""Names come from paths, what files say must agree, and nothing is skipped in silence."""

from __future__ import annotations

import json
import shutil

import pytest

from zoo.errors import InputError, SpecError
from zoo.specs.catalog import Catalog


def test_names_and_paths(folder):
    catalog = Catalog([folder])
    assert "mini-task" in catalog.names("task")
    assert catalog.task("mini-task").dataset == "mini"
    assert catalog.dataset("mini").files[0].rows == 4
    assert catalog.dataset_folder("mini") == folder / "datasets" / "mini"


def test_names_are_sorted_and_need_no_parsing(folder, task_file):
    task_file.with_name("aaa.yaml").write_text("not: [valid")
    names = Catalog([folder]).names("task")
    assert names == sorted(names)
    assert "aaa" in names


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("task", "mini-tusk", "unknown task 'mini-tusk'. Did you mean 'mini-task'?"),
        ("dataset", "mimi", "unknown data set 'mimi'. Did you mean 'mini'?"),
        ("model", "zzzzzz", "unknown model 'zzzzzz'."),
    ],
)
def test_unknown_names(folder, kind, name, says):
    with pytest.raises(InputError) as error:
        Catalog([folder]).path(kind, name)
    assert says in str(error.value)
    assert error.value.exit_code == 2


def test_a_name_defined_twice_names_both_paths(folder, task_file, tmp_path):
    other = tmp_path / "other" / "tasks" / "proteins"
    other.mkdir(parents=True)
    shutil.copy(task_file, other)
    catalog = Catalog([folder, tmp_path / "other"])
    with pytest.raises(SpecError, match="'mini-task' is defined twice") as error:
        catalog.names("task")
    assert str(task_file) in str(error.value)
    assert str(other / "mini-task.yaml") in str(error.value)
    assert "mini" in catalog.names("dataset"), "the other kinds are not harmed"


def test_the_same_folder_included_twice_is_one(folder):
    assert Catalog([folder, folder]).names("task").count("mini-task") == 1


def test_the_path_and_the_name_must_agree(folder, task_file):
    task_file.rename(task_file.with_name("other-name.yaml"))
    with pytest.raises(SpecError, match=r"other-name\.yaml:1: name: is 'mini-task', but the path says 'other-name'"):
        Catalog([folder]).task("other-name")


def test_the_folder_and_the_domain_must_agree(folder, task_file):
    (folder / "tasks" / "proteins").mkdir()
    task_file.rename(folder / "tasks" / "proteins" / "mini-task.yaml")
    with pytest.raises(
        SpecError, match=r"mini-task\.yaml:3: domain: is 'molecules', but the file lies in tasks/proteins/"
    ):
        Catalog([folder]).task("mini-task")


def test_a_model_card_that_is_no_bundle(folder):
    (folder / "cards" / "wrong").mkdir(parents=True)
    config = folder / "cards" / "wrong" / "config.json"
    config.write_text(json.dumps({"schema_version": 1, "name": "wrong", "domain": "molecule"}))
    catalog = Catalog([folder])
    assert catalog.model_path("wrong") == config.parent
    with pytest.raises(SpecError) as error:
        catalog.model("wrong")
    assert f"{config}: domain: must be 'molecules'" in str(error.value)
    assert f"{config}: targets: this key is missing." in str(error.value)
    config.write_text("{")
    with pytest.raises(SpecError, match="not valid JSON"):
        catalog.model("wrong")
