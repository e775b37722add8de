"""One matrix over every task: its data, labels, splits, names."""

import os
import shutil

import numpy as np
import pytest

from zoo.core.domain import get_domain, load_object
from zoo.core.metrics import METRICS
from zoo.core.parts import official_parts
from zoo.core.ragged import ragged_index
from zoo.core.records import assemble
from zoo.core.splits import make_split
from zoo.errors import DownloadError
from zoo.proteins.splits import identity
from zoo.resources import bundled_root
from zoo.specs.catalog import Catalog
from zoo.workflows.build import read_dataset

CATALOG = Catalog()
SEEDS = range(5)
ALL = CATALOG.names("task")
COMMITTED = [name for name in ALL if CATALOG.task(name).split.file]
_featurised = {}


def records_of(task):
    """Return the records of a task, and its official parts; a data set is featurised once for all of its tasks."""
    dataset, folder = CATALOG.dataset(task.dataset), CATALOG.dataset_folder(task.dataset)
    beside = bundled_root().parent / "shared" / "mirror"
    mirror = None if os.environ.get("ZOO_MIRROR") or not beside.is_dir() else beside
    offline = pytest.MonkeyPatch()
    offline.setenv("ZOO_OFFLINE", "1")
    try:
        table, _ = read_dataset(dataset, folder, mirror)
    except DownloadError:
        pytest.skip(f"{dataset.files[0].name} is not here")
    finally:
        offline.undo()
    domain = get_domain(task.domain)
    # Descriptors take long and do not change which rows can be used.
    options = {k: v for k, v in task.recipe.model.featuriser.items() if k != "descriptors"}
    key = (dataset.name, *sorted(options.items()))
    if key not in _featurised:
        column = table.column(dataset.by_role("input")[0].name)
        _featurised[key] = domain.featurise(column, {**domain.featuriser_options, **options})
    records = assemble(table, dataset, task.targets, _featurised[key], duplicates=task.duplicates)
    parts = official_parts(task.split, table) if task.split.method == "column" else None
    return records, parts


@pytest.fixture(params=ALL)
def task(request):
    return CATALOG.task(request.param)


def test_the_bundled_ones_are_here():
    expected = {"freesolv", "freesolv-crippen", "bbb-class", "bbb-logbb", "bbb", "solubility"}
    expected |= {"amp", "pdb-ss3", "protein-mlm", "secondary-structure", "gb1-two-vs-rest", "gb1-low-vs-high"}
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
        assert callable(load_object({**domain.baselines, **domain.node_baselines}[short]))
    kinds = {target.kind for target in task.targets}
    for metric in task.metrics:
        assert METRICS[metric.name].direction == metric.direction
        assert METRICS[metric.name].kinds & kinds
    assert task.description


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_splits_fit_the_data(name):
    task = CATALOG.task(name)
    records, _ = records_of(task)
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
    records, _ = records_of(task)
    folder = CATALOG.dataset_folder(task.dataset)
    domain = get_domain(task.domain)
    plain = task.split.model_copy(update={"file": None})
    scaffolds = load_object(domain.splitters["scaffold"])(records.keys, seed=0, options={})
    for seed in SEEDS:
        read = make_split(task.split, seed, records, records.keys, domain=domain, folder=folder)
        assert read.hash == make_split(plain, seed, records, records.keys, domain=domain).hash
        held = [{scaffolds[i] for i in index} for index in read.parts.values()]
        assert sum(map(len, held)) == len(set(scaffolds))  # no scaffold in two parts


@pytest.mark.skipif(shutil.which("mmseqs") is None, reason="MMseqs2 is not here")
@pytest.mark.parametrize("name", ["amp", "pdb-ss3"])
def test_no_cluster_of_proteins_stands_in_two_parts(name):
    task = CATALOG.task(name)
    records, _ = records_of(task)
    clusters = identity(records.keys, seed=0, options={**task.split.options, "tool": "mmseqs"})
    for seed in SEEDS:
        split = make_split(
            task.split, seed, records, records.keys, domain=get_domain("proteins"),
            folder=CATALOG.dataset_folder(task.dataset),
        )  # fmt: skip
        held = [{clusters[i] for i in index} for index in split.parts.values()]
        assert sum(map(len, held)) == len(set(clusters))


def test_every_target_can_be_learnt_and_scored(task):
    records, parts = records_of(task)
    domain = get_domain(task.domain)
    folder = CATALOG.dataset_folder(task.dataset)
    split = make_split(task.split, 0, records, records.keys, domain=domain, folder=folder, column=parts)
    for target in task.targets:
        labels = records.labels[target.name]
        assert np.isfinite(labels.values).all()
        if target.objective == "labels":
            assert (labels.values[~labels.mask] == 0).all()
        for part in ("train", "test"):
            index = split.parts[part]
            items = index if labels.ptr is None else ragged_index(labels.ptr, index)[0]
            own = labels.values[items][labels.mask[items]]
            assert len(own) > 1
            assert part == "test" or len(np.unique(own)) > 1
            assert (
                part == "test"
                or target.kind != "multiclass"
                or target.objective == "masked"
                or (len(np.unique(own)) == target.n_outputs)
            )
    assert sum(len(r) for r in records.rows) + len({p.row for p in records.report.dropped}) == records.n_rows


def test_half_of_the_atom_labels_are_masked():
    labels = records_of(CATALOG.task("freesolv-crippen"))[0].labels
    assert all(0.4 < 1 - own.mask.mean() < 0.6 for own in labels.values())


def test_official_parts_are_those_of_the_source():
    sizes = {
        "secondary-structure": (9712, 1080, 364),
        "gb1-two-vs-rest": (381, 43, 8309),
        "gb1-low-vs-high": (4580, 509, 3644),
    }
    for name, expected in sizes.items():
        task = CATALOG.task(name)
        records, parts = records_of(task)
        split = make_split(task.split, 0, records, records.keys, domain=get_domain("proteins"), column=parts)
        assert (split.sizes["train"], split.sizes["val"], split.sizes["test"]) == expected


def test_unresolved_residues_have_no_label():
    records, _ = records_of(CATALOG.task("secondary-structure"))
    labels = records.labels["ss3"]
    assert (len(labels.mask), int((~labels.mask).sum())) == (2_845_094, 186_876)
