"""A run is resolved in a fixed order, every value knows its origin, and no key is taken in silence."""

from __future__ import annotations

import itertools

import pytest

from zoo.errors import InputError, SpecError
from zoo.specs.catalog import Catalog
from zoo.specs.resolve import format_config, resolve
from zoo.specs.run import RunSpec, StartSpec
from zoo.specs.settings import CLOSED, flags_from, parse_budget
from zoo.specs.task import SplitSpec, TrainSpec


@pytest.fixture
def make(folder):
    catalog = Catalog([folder])

    def call(**kwargs) -> RunSpec:
        return resolve(catalog.task("mini-task"), catalog.dataset("mini"), **{"threads": 3, **kwargs})

    return call


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "my.yaml"

    def write(text: str):
        path.write_text(text)
        return path

    return write


def test_defaults_and_the_task(make):
    run = make()
    assert (run.train.epochs, run.origin["train.epochs"]) == (7, "task")
    assert (run.train.batch_size, run.origin["train.batch_size"]) == (TrainSpec().batch_size, "default")
    assert (run.threads, run.origin["threads"]) == (3, "default")
    assert run.model.hparams == {"width": 64}
    assert run.origin["model.hparams.width"] == "task"
    assert run.origin["model.architecture"] == "default"
    assert run.task.split.file == "splits/scaffold_{seed}.csv"
    assert (run.seed, run.split_seed, run.budget_seconds, run.data_file) == (0, 0, None, None)


def test_what_the_task_says_of_the_split_is_the_tasks(make, edit):
    origin = make().origin
    assert origin["split.method"] == origin["split.options.balanced"] == "task"
    assert origin["split.overlap"] == origin["split_seed"] == origin["duplicates"] == "default"
    edit("  method: scaffold\n", "  method: scaffold\n  seed: 3\n")
    run = make()
    assert (run.split_seed, run.origin["split_seed"]) == (3, "task")


def test_every_setting_has_an_origin(make):
    assert {key for key in CLOSED if not key.startswith("start.")} <= set(make().origin)
    start = StartSpec(model="m", config_sha256="0" * 64)
    assert set(CLOSED) <= set(make(start=start).origin)


def test_layers_in_order(make, config):
    """Each pair of layers is tried alone: the later of the two wins."""
    layers = {
        "card": {"card": {"train.epochs": 1}},
        "config": {"config": config("train:\n  epochs: 2\n")},
        "flag": {"flags": {"train.epochs": 3}},
        "set": {"sets": ["train.epochs=4"]},
    }
    for (earlier, first), (later, second) in itertools.combinations(layers.items(), 2):
        run = make(**first, **second)
        assert run.train.epochs == list(layers).index(later) + 1, (earlier, later)
        assert run.origin["train.epochs"].startswith(later)
    assert make(config=config("train: {epochs: 2}")).origin["train.epochs"].endswith("my.yaml")
    assert make(**layers["card"]).train.epochs == 1


def test_flags_that_were_not_given_change_nothing(make):
    assert make(flags={"train.epochs": None}).train.epochs == 7


def test_set_parses_yaml_scalars(make):
    run = make(
        sets=[
            "train.lr=1e-4",
            "train.clip=null",
            "baseline=false",
            "model.hparams.readout=sum",
            "model.hparams.norm=true",
            "split.fractions={train: 0.5, test: 0.5}",
            "budget_seconds=1h30m",
        ]
    )
    assert run.train.lr == 1e-4
    assert run.train.clip is None
    assert run.baseline is False
    assert run.model.hparams == {"width": 64, "readout": "sum", "norm": True}
    assert run.task.split.fractions == {"train": 0.5, "test": 0.5}
    assert run.budget_seconds == 5400


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("train.epoch=3", "--set train.epoch=3: unknown setting 'train.epoch'. Did you mean 'train.epochs'?"),
        ("lr=0.1", "unknown setting 'lr'. Did you mean 'train.lr'?"),
        ("hparams.width=0.1", "unknown setting 'hparams.width'"),
        ("model.hparams=3", "unknown setting 'model.hparams'"),
        ("split.seed=3", "The seed of the split is 'split_seed'"),
        ("task.name=x", "unknown setting 'task.name'"),
        ("train.epochs", "write --set KEY=VALUE"),
        ("=3", "write --set KEY=VALUE"),
        ("train.epochs=many", "--set train.epochs=many: train.epochs: must be a whole number, got the text 'many'."),
        ("train.lr=-1", "--set train.lr=-1: train.lr: must be greater than 0, got the number -1."),
        ("train.schedule=cosin", "Did you mean 'cosine'?"),
        ("train.lr=[1", "--set train.lr=[1:1: not valid YAML"),
        ("model.architecture=gina", "model.architecture 'gina' is not one that the task 'mini-task' allows. Did you"),
        ("split.fractions={train: 0.5, test: 0.4}", "--set split.fractions={train: 0.5, test: 0.4}: split: fractions"),
        ("model.hparams.width=[1]", "--set model.hparams.width=[1]: model.hparams.width: must be a whole number or"),
        ("budget_seconds=soon", "budget 'soon' is not a time above zero"),
        ("split_seed=-1", "--set split_seed=-1: split_seed: must be greater than or equal to 0"),
        ("duplicates=medium", "--set duplicates=medium: duplicates: must be 'mean', 'median'"),
    ],
)
def test_wrong_sets(make, text, says):
    with pytest.raises(InputError) as error:
        make(sets=[text])
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("train:\n  epochs: 3\n  lrate: 1\n", ":3: unknown setting 'train.lrate'"),
        ("seed: 1\nmodle:\n  architecture: gine\n", ":2: unknown setting 'modle'. Did you mean 'model'?"),
        ("train:\n  epochs: 3\n  lr: x\n", ":3: train.lr: must be a number, got the text 'x'."),
        ("train: 3\n", ":1: train is a section: put its keys below it, indented."),
        ("- train\n", ":1: a config file holds `key: value` lines"),
        ("seed: 1\nseed: 2\n", ":2: the key 'seed' stands twice"),
        ("model:\n  hparams: 3\n", ":2: model.hparams is a section"),
    ],
)
def test_wrong_configs_name_file_and_line(make, config, text, says):
    path = config(text)
    with pytest.raises(SpecError) as error:
        make(config=path)
    assert f"{path}{says}" in str(error.value)


def test_a_wrong_flag_is_named_as_the_flag(make):
    with pytest.raises(SpecError, match=r"--epochs: train\.epochs: must be greater than or equal to 1"):
        make(flags={"train.epochs": 0})


def test_empty_config_and_empty_sections(make, config):
    assert make(config=config("")).train.epochs == 7
    assert make(config=config("train:\nmodel:\n  hparams:\n")).model.hparams == {"width": 64}


def test_another_architecture_drops_the_hyperparameters_of_the_recipe(make):
    assert make(flags={"model.architecture": "gine"}).model.hparams == {}
    assert make(flags={"model.architecture": "dmpnn"}).model.hparams == {"width": 64}
    own = make(flags={"model.architecture": "gine"}, sets=["model.hparams.depth=2"])
    assert own.model.hparams == {"depth": 2}
    assert "model.hparams.width" not in own.origin
    assert own.model.featuriser == {"descriptors": "rdkit2d"}


def test_another_split_method_drops_the_committed_file(make):
    split = make(flags={"split.method": "random"}).task.split
    assert (split.method, split.file, split.options) == ("random", None, {})
    assert make(flags={"split.method": "scaffold"}).task.split.file == "splits/scaffold_{seed}.csv"


def test_another_column_drops_the_mark_of_validation_rows(make):
    official = {"split.method": "column", "split.column": "part", "split.val_column": "v"}
    assert make(flags=official).task.split.val_column == "v"
    assert make(flags=official, sets=["split.column=other"]).task.split.val_column is None
    assert make(flags=official, sets=["split.column=part"]).task.split.val_column == "v"
    assert make(flags=official, sets=["split.method=random"]).task.split.val_column is None


def test_one_seed_for_the_split(make):
    run = make(flags={"split_seed": 4})
    assert (run.split_seed, run.task.split.seed, run.seed) == (4, 4, 0)


def test_flags_of_the_command_line(tmp_path):
    given = {
        "epochs": 3,
        "seed": None,
        "model": "gine",
        "no_baseline": True,
        "split_file": tmp_path / "s.csv",
        "json": 1,
    }
    assert flags_from(given) == {
        "train.epochs": 3,
        "model.architecture": "gine",
        "baseline": False,
        "split.file": str(tmp_path / "s.csv"),
        "split.method": "file",
    }
    assert flags_from({"split_column": "part"}) == {"split.column": "part", "split.method": "column"}
    with pytest.raises(InputError, match="--split-file and --split scaffold contradict"):
        flags_from({"split_file": "f", "split": "scaffold"})
    assert flags_from({"no_baseline": False}) == {}


def test_printed_config_reads_back_to_the_same_run(make, config):
    run = make(
        flags={"model.architecture": "gine", "split.method": "random", "budget_seconds": 90.0},
        sets=["train.lr=1e-05", "model.hparams.note=yes", "model.hparams.text='1e-3'", "split.options.deep=false"],
    )
    text = format_config(run)
    again = make(config=config(text))
    assert again.model_dump(exclude={"origin"}) == run.model_dump(exclude={"origin"})
    lines = {line.split(":")[0].strip(): line for line in text.splitlines()}
    assert lines["architecture"].endswith("# flag")
    assert lines["lr"].endswith("# set")
    assert lines["epochs"].endswith("# task")
    assert lines["batch_size"].endswith("# default")


def test_settings_cover_the_schemas():
    """A new field of the schemas becomes a setting by itself."""
    assert {f"train.{name}" for name in TrainSpec.model_fields} <= set(CLOSED)
    assert {f"split.{name}" for name in SplitSpec.model_fields} - set(CLOSED) == {"split.seed", "split.options"}


def test_the_run_goes_through_json(make):
    run = make(sets=["train.lr=1e-05"], data_file="mine.csv")
    assert RunSpec.model_validate_json(run.model_dump_json()) == run
    assert run.data_file == "mine.csv"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("2h", 7200),
        ("90", 90),
        (90, 90),
        (0.5, 0.5),
        ("1.5m", 90),
        ("1H 1m 1s", 3661),
    ],
)
def test_budget(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-5m", "5 apples", "m", "5m3h", "nan", "inf", float("nan"), True, -1])
def test_wrong_budget(text):
    with pytest.raises(InputError, match="Write 90s, 5m or 1h30m"):
        parse_budget(text)
