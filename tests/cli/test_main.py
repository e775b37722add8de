"""Exit codes, messages, and what help does not import."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import zoo as package
from zoo import cli
from zoo.errors import DownloadError, InputError, ZooError
from zoo.specs.settings import flags_from

HEAVY = {"torch", "lightning", "pydantic", "pandas", "rich", "rdkit", "numpy", "sklearn", "yaml"}


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(fresh, words):
    code = (
        "import sys\nfrom zoo.cli import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print('LOADED', *{name.split('.')[0] for name in sys.modules})\n"
    )
    text, _, loaded = fresh(code).partition("LOADED")
    assert "zoo" in text
    assert not HEAVY & set(loaded.split())


def test_list_tasks_imports_no_torch(fresh):
    code = (
        "import sys\nfrom zoo.cli import main\nassert main(['list', 'tasks']) == 0\n"
        "print('LOADED', *{name.split('.')[0] for name in sys.modules})\n"
    )
    loaded = set(fresh(code).partition("LOADED")[2].split())
    assert "zoo" in loaded
    assert not {"torch", "lightning", "pandas", "rich", "rdkit", "numpy"} & loaded


def test_help_lists_the_verbs_of_the_table(zoo):
    code, out, _ = zoo("--help")
    assert code == 0
    for name, verb in cli.VERBS.items():
        assert any(line.split()[:1] == [name] and verb.summary in line for line in out.splitlines())


@pytest.mark.parametrize("name", sorted(cli.VERBS))
def test_every_verb_has_its_function(name):
    module, _, function = cli.VERBS[name].run.partition(":")
    assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["trian", "x"], "unknown command 'trian'. Did you mean 'train'?"),
        (["list", "tasts"], "unknown value 'tasts'. Did you mean 'tasks'?"),
        (["train", "freesolv", "--epoch", "3"], "unknown argument '--epoch'. Did you mean '--epochs'?"),
        (["train", "freesolv", "--epoch=3"], "Did you mean '--epochs'?"),
        (["train", "freesolv", "--epochs", "many"], "invalid int value: 'many'"),
        (["train"], "name a task"),
        (["train", "freesolv", "--data", "x.csv"], "give a task or --data, not both"),
        (["train", "freesolv", "--target", "y"], "--target go with --data"),
        (["train", "freesolv", "--device", "gpus"], "Did you mean 'gpu'?"),
        (["predict", "model", "x.csv"], "-o/--out"),
        (["evaluate", "model", "--task", "a", "--data", "b.csv"], "not allowed with"),
        (["show", "a", "b", "c"], "show takes one name"),
        (["validate"], "validate takes names, or --all"),
        (["validate", "x", "--all"], "validate takes names, or --all"),
        ([], "COMMAND"),
    ],
)
def test_wrong_words_exit_with_2_and_a_hint(zoo, words, says):
    code, out, err = zoo(*words)
    assert (code, out) == (2, "")
    assert says in err
    assert err.startswith("zoo: ")
    assert "--help" in err.splitlines()[-1]


@pytest.fixture
def raising(monkeypatch):
    """Make the verb ``list`` raise."""

    def plant(error: BaseException) -> None:
        def fail(args: argparse.Namespace) -> int:
            raise error

        monkeypatch.setattr("zoo.workflows.catalog.list_command", fail)

    return plant


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (InputError("column 'y' is missing"), 2, "zoo: column 'y' is missing\n"),
        (DownloadError("the file\n  is nowhere"), 1, "zoo: the file\n  is nowhere\n"),
        (ZooError("it failed"), 1, "zoo: it failed\n"),
        (KeyboardInterrupt(), 130, "zoo: stopped by Ctrl-C.\n"),
        (OSError(28, "No space left on device", "runs/x"), 1, "zoo: No space left on device: runs/x.\n"),
        (ValueError("a\n  b"), 1, "zoo: ValueError: a b (an error of the zoo; run again with --debug to see where)\n"),
    ],
)
def test_errors_become_one_message_and_an_exit_code(zoo, raising, error, code, says):
    raising(error)
    assert zoo("list") == (code, "", says)


def test_debug_shows_the_traceback_before_the_message(zoo, raising):
    raising(InputError("column 'y' is missing"))
    for words in (["--debug", "list"], ["list", "--debug"]):
        code, _, err = zoo(*words)
        assert code == 2
        assert err.startswith("Traceback")
        assert err.endswith("zoo: column 'y' is missing\n")


def test_a_closed_pipe_is_quiet():
    code = "import sys\nfrom zoo.cli import main\nsys.exit(main(['list', 'tasks']))\n"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_common_flags_stand_before_or_after_the_verb(zoo, folder):
    after = zoo("list", "tasks", "--include", folder)
    assert after == zoo("--include", folder, "list", "tasks")
    assert "mini-task" in after[1]


def test_python_m_zoo_is_the_command():
    done = subprocess.run([sys.executable, "-m", "zoo", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"scizoo {package.__version__}\n"


def test_the_version_is_that_of_the_distribution():
    root = Path(package.__file__).parent.parent
    assert tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"] == package.__version__


@pytest.mark.parametrize("name", sorted(package._PUBLIC))
def test_every_public_name_is_there(name):
    assert getattr(package, name) is getattr(importlib.import_module(package._PUBLIC[name]), name)
    assert name in dir(package)


def test_an_unknown_public_name():
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        _ = package.trian


def test_every_flag_of_train_reaches_the_settings():
    words = "train freesolv --model gine --epochs 3 --batch-size 8 --seed 1 --split-seed 2 --budget 5m --threads 2"
    words += (
        " --device cpu --on-invalid error --no-baseline --split file --split-column part --split-file s.csv --devices 2"
        " --precision bf16 --compile"
    )
    args = cli._parse(words.split())
    assert flags_from(vars(args)) == {
        "model.architecture": "gine",
        "train.epochs": 3,
        "train.batch_size": 8,
        "seed": 1,
        "split_seed": 2,
        "budget_seconds": "5m",
        "train.precision": "bf16",
        "train.compile": True,
        "threads": 2,
        "device": "cpu",
        "devices": 2,
        "on_invalid": "error",
        "baseline": False,
        "split.method": "file",
        "split.column": "part",
        "split.file": str(Path("s.csv").resolve()),
    }
    others = {"task", "data", "labels", "target", "kind", "input", "out", "config", "set", "print_config", "json"}
    common = {"include", "mirror", "quiet", "debug", "help"}
    given = {word.lstrip("-").replace("-", "_") for word in words.split() if word.startswith("--")}
    assert {action.dest for action in args.parser._actions} == given | others | {"resume"} | common


@pytest.mark.parametrize("name", sorted(set(cli.VERBS) - {"train", "finetune"}))
def test_no_flag_is_taken_and_ignored(name):
    parser = argparse.ArgumentParser()
    cli.VERBS[name].arguments(parser)
    source = inspect.getsource(importlib.import_module(cli.VERBS[name].run.partition(":")[0]))
    read = {*re.findall(r"args\.(\w+)", source), *re.findall(r'getattr\(args, "(\w+)"', source)}
    unread = {action.dest for action in parser._actions} - read
    assert unread == {"help"}


def test_finetune_takes_what_train_takes_and_what_starts_from_a_model():
    train = {action.dest for action in cli._parse(["train", "freesolv"]).parser._actions}
    args = cli._parse(["finetune", "esm2-mini", "amp", "--mode", "lora", "--layer", "4", "--merge"])
    dests = {action.dest for action in args.parser._actions}
    assert dests == train - {"model"} | {"start", "mode", "layer", "merge"}
    assert args.start == "esm2-mini"
    assert flags_from(vars(args)) == {"start.mode": "lora", "start.layer": 4, "start.merge": True}


def test_set_may_be_repeated():
    args = cli._parse(["train", "freesolv", "--set", "train.lr=1e-4", "--set", "seed=3"])
    assert args.set == ["train.lr=1e-4", "seed=3"]
