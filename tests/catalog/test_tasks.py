"""One matrix over every task: its data, labels, splits, names."""

import os

import numpy as np
import pytest

from zoo.core.domain import get_domain, load_object
from zoo.core.metrics import METRICS
from zoo.core.records import NODE_LEVELS, assemble
from zoo.core.splits import make_split
from zoo.core.table import read_table
from zoo.errors import DownloadError
from zoo.resources import bundled_root, locate
from zoo.specs.catalog import Catalog

CATALOG = Catalog()
SEEDS = range(5)
ALL = CATALOG.names("task")
COMMITTED = [name for name in ALL if CATALOG.task(name).split.file]
_featurised = {}


def records_of(task):
    """Return the records of a task; a data set is featurised once for all of its tasks."""
    dataset, folder = CATALOG.dataset(task.dataset), CATALOG.dataset_folder(task.dataset)
    beside = bundled_root().parent / "shared" / "mirror"
    mirror = None if os.environ.get("ZOO_MIRROR") or not beside.is_dir() else beside
    offline = pytest.MonkeyPatch()
    offline.setenv("ZOO_OFFLINE", "1")
    try:
        path = locate(dataset.files[0], folder, mirror)
    except DownloadError:
        pytest.skip(f"{dataset.files[0].name} is not here")
    finally:
        offline.undo()
    table = read_table(path, dataset.files[0].format, dataset.files[0].member)
    domain = get_domain(task.domain)
    if dataset.name not in _featurised:
        column = table.column(dataset.by_role("input")[0].name)
        _featurised[dataset.name] = domain.featurise(column, domain.featuriser_options)
    return assemble(table, dataset, task.targets, _featurised[dataset.name], duplicates=task.duplicates)


@pytest.fixture(params=ALL)
def task(request):
    return CATALOG.task(request.param)


def test_the_bundled_ones_are_here():
    expected = {"freesolv", "freesolv-crippen", "bbb-class", "bbb-logbb", "bbb", "solubility"}
    assert expected | {"esol", "tox21", "clintox", "sider"} <= set(ALL)


def test_names_stand_for_something(task):
    domain = get_domain(task.domain)
    dataset = CATALOG.dataset(task.dataset)
    assert dataset.domain == task.domain
    columns = {column.name: column for column in dataset.by_role("target")}
    for target in task.targets:
        if target.objective == "labels":
            assert columns[target.source].unit in (target.unit, None)
        assert target.level in (domain.item_level, *domain.node_levels)
    for name in task.models:
        assert load_object(domain.architectures[name]).VERSION >= 1
    for name in task.baselines:
        owner, _, short = name.partition(":")
        assert owner == task.domain
        assert callable(load_object(domain.baselines[short]))
    kinds = {target.kind for target in task.targets}
    for metric in task.metrics:
        assert METRICS[metric.name].direction == metric.direction
        assert METRICS[metric.name].kinds & kinds
    assert task.description


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_splits_fit_the_data(name):
    task = CATALOG.task(name)
    records = records_of(task)
    folder = CATALOG.dataset_folder(task.dataset)
    domain = get_domain(task.domain)
    hashes = set()
    for seed in SEEDS:
        assert (folder / task.split.file.replace("{seed}", str(seed))).is_file()
        split = make_split(task.split, seed, records, records.keys, domain=domain, folder=folder)
        hashes.add(split.hash)
        assert split.sizes["train"] / len(records) == pytest.approx(task.split.fractions["train"], abs=0.02)
        assert split.sizes["val"] / len(records) == pytest.approx(task.split.fractions["val"], abs=0.02)
        assert sum(split.sizes.values()) == len(records)
    assert len(hashes) == len(SEEDS)


@pytest.mark.parametrize("name", [n for n in COMMITTED if CATALOG.task(n).dataset in {"freesolv", "solubility"}])
def test_committed_splits_are_what_the_method_makes(name):
    task = CATALOG.task(name)
    records = records_of(task)
    folder = CATALOG.dataset_folder(task.dataset)
    domain = get_domain(task.domain)
    plain = task.split.model_copy(update={"file": None})
    scaffolds = load_object(domain.splitters["scaffold"])(records.keys, seed=0, options={})
    for seed in SEEDS:
        read = make_split(task.split, seed, records, records.keys, domain=domain, folder=folder)
        assert read.hash == make_split(plain, seed, records, records.keys, domain=domain).hash
        held = [{scaffolds[i] for i in index} for index in read.parts.values()]
        assert sum(map(len, held)) == len(set(scaffolds))  # no scaffold in two parts


def test_every_target_can_be_learnt_and_scored(task):
    records = records_of(task)
    domain = get_domain(task.domain)
    folder = CATALOG.dataset_folder(task.dataset)
    split = make_split(task.split, 0, records, records.keys, domain=domain, folder=folder)
    for target in task.targets:
        labels = records.labels[target.name]
        assert np.isfinite(labels.values).all()
        assert (labels.values[~labels.mask] == 0).all()
        if target.level in NODE_LEVELS:
            assert 0.4 < 1 - labels.mask.mean() < 0.6
            continue
        for part in ("train", "test"):
            own = labels.values[split.parts[part]][labels.mask[split.parts[part]]]
            assert len(own) > 1
            assert part == "test" or len(np.unique(own)) > 1
    assert sum(len(r) for r in records.rows) + len({p.row for p in records.report.dropped}) == records.n_rows
