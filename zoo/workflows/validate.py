"""``zoo validate``: does everything in the catalogue hold? It runs the very code that training and prediction run."""

from __future__ import annotations

import argparse
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from zoo.core.domain import get_domain, load_object
from zoo.core.labels import parse_labels
from zoo.core.metrics import METRICS
from zoo.core.parts import read_split_file
from zoo.core.table import Table
from zoo.errors import DataError, DownloadError, SpecError, ZooError, did_you_mean, unknown_name
from zoo.specs.catalog import KINDS, Catalog, Kind
from zoo.specs.dataset import DatasetSpec, FileSpec
from zoo.specs.target import TargetSpec
from zoo.specs.task import TaskSpec
from zoo.workflows.build import read_dataset, read_file
from zoo.workflows.catalog import find
from zoo.workflows.console import print_json, print_line, print_table
from zoo.workflows.load import check_example, load_bundle

Status = Literal["ok", "failed", "not available here"]
ABSENT: Status = "not available here"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: ``message`` says what is wrong, or what was found."""

    kind: Kind
    name: str
    what: str
    status: Status
    message: str = ""


def validate_command(args: argparse.Namespace) -> int:
    """Check what was named, or everything; print what failed. Exit code 1 if anything did."""
    catalog = Catalog(args.include)
    wanted = _everything(catalog) if args.all else [item for name in args.names for item in _called(catalog, name)]
    wanted = list(dict.fromkeys(wanted))
    checks = [check for kind, name in wanted for check in validate(catalog, kind, name, args.mirror)]
    count = Counter(check.status for check in checks)
    if args.json:
        print_json([asdict(check) for check in checks])
    else:
        _report(checks)
        print_line(
            f"{len(wanted)} checked: {count['ok']} checks ok, {count['failed']} failed, {count[ABSENT]} {ABSENT}"
        )
    return 1 if count["failed"] else 0


def _everything(catalog: Catalog) -> list[tuple[Kind, str]]:
    return [(kind, name) for kind in KINDS for name in catalog.names(kind)]


def _called(catalog: Catalog, name: str) -> list[tuple[Kind, str]]:
    """Return everything of that name, and the data set below a task: a task stands no better than its data."""
    found = [(kind, name) for kind in KINDS if name in catalog.names(kind)] or [find(catalog, [name])]
    if ("task", name) in found:
        with contextlib.suppress(ZooError):  # a task that does not load is reported by its own checks
            below = catalog.task(name).dataset
            found += [("dataset", below)] if below in catalog.names("dataset") else []
    return found


def _report(checks: list[Check]) -> None:
    notable = [check for check in checks if check.status != "ok"]
    if not notable:
        return
    print_table(("kind", "name", "check", "status"), [(c.kind, c.name, c.what, c.status) for c in notable])
    for check in notable:
        if check.status == "failed":
            print_line(f"\n{check.kind} {check.name}, {check.what}:\n{check.message}")
    print_line()


def validate(catalog: Catalog, kind: Kind, name: str, mirror: Path | None = None) -> Iterator[Check]:
    """Yield the checks of one task, data set or model; a failed one ends those that build on it."""
    steps: dict[Kind, Callable[[Catalog, str, Path | None], Iterator[tuple[str, Callable[[], str]]]]] = {
        "task": _task_steps,
        "dataset": _dataset_steps,
        "model": _model_steps,
    }
    remaining = steps[kind](catalog, name, mirror)
    while True:
        what = "definition"
        try:
            step = next(remaining, None)
            if step is None:
                return
            what, look = step
            yield Check(kind, name, what, "ok", look())
        except DownloadError as error:
            yield Check(kind, name, what, ABSENT, str(error))
        except ZooError as error:
            yield Check(kind, name, what, "failed", str(error))
        except Exception as error:  # noqa: BLE001 - a table that names missing code is a finding, not a crash
            yield Check(kind, name, what, "failed", f"{type(error).__name__}: {error}")


Steps = Iterator[tuple[str, Callable[[], str]]]


def _dataset_steps(catalog: Catalog, name: str, mirror: Path | None) -> Steps:
    dataset = catalog.dataset(name)
    folder = catalog.dataset_folder(name)
    yield "definition", lambda: dataset.title
    for file in dataset.files:
        yield f"file {file.member or file.name}", partial(_check_file, dataset, file, folder, mirror)
    if len(dataset.files) > 1:
        yield "files joined by id", partial(_check_joined, dataset, folder, mirror)
    for path in sorted(folder.glob("splits/*.csv")):
        yield f"split {path.name}", partial(_check_split, path, dataset.n_rows)


def _check_file(dataset: DatasetSpec, file: FileSpec, folder: Path, mirror: Path | None) -> str:
    table = read_file(file, folder, mirror)
    if len(table) != file.rows:
        raise DataError(
            f"{table.path}: has {len(table)} data rows, but {folder / 'dataset.yaml'} declares {file.rows}."
        )
    return f"{len(table)} rows" if len(dataset.files) > 1 else _check_declared(dataset, table)


def _check_joined(dataset: DatasetSpec, folder: Path, mirror: Path | None) -> str:
    return _check_declared(dataset, read_dataset(dataset, folder, mirror)[0])


def _check_declared(dataset: DatasetSpec, table: Table) -> str:
    for column in dataset.columns:
        table.column(column.name)
    return f"{len(table)} rows, {len(dataset.columns)} columns"


def _check_split(path: Path, n_rows: int) -> str:
    """Check a committed split by itself; training also checks that it lists just the rows that can be used."""
    found = Counter(read_split_file(path, n_rows).values())
    missing = {"train", "test"} - set(found)
    if missing:
        raise DataError(f"{path}: no row is in the part {' or '.join(sorted(missing))}.")
    return ", ".join(f"{part} {count}" for part, count in found.items())


def _task_steps(catalog: Catalog, name: str, mirror: Path | None) -> Steps:
    task = catalog.task(name)
    yield "definition", lambda: task.title
    dataset = catalog.dataset(task.dataset)
    yield "data set", partial(_check_columns, task, dataset)
    folder = catalog.dataset_folder(task.dataset)
    yield "names", partial(_check_names, task)
    yield "labels", partial(_check_labels, task, dataset, folder, mirror)
    if task.split.file:
        yield "split", partial(_check_split_file, task, folder)


def _check_columns(task: TaskSpec, dataset: DatasetSpec) -> str:
    if dataset.domain != task.domain:
        raise SpecError(
            f"the task is of the domain {task.domain!r}, its data set {dataset.name!r} of {dataset.domain!r}."
        )
    targets = [column.name for column in dataset.by_role("target")]
    for target in labelled(task):
        if target.source not in targets:
            raise SpecError(
                f"the target {target.name!r} reads the column {target.source!r}, which is no target column of the"
                f" data set {dataset.name!r}.{did_you_mean(target.source, targets)}"
                f" Target columns: {', '.join(targets)}."
            )
    return ", ".join(target.source for target in labelled(task)) or "the inputs themselves are the labels"


def labelled(task: TaskSpec) -> list[TargetSpec]:
    """Return the targets whose labels stand in a column."""
    return [target for target in task.targets if target.objective == "labels"]


def _check_names(task: TaskSpec) -> str:
    domain = get_domain(task.domain)
    for model in task.models:
        if model not in domain.architectures:
            raise unknown_name("architecture", model, domain.architectures)
        load_object(domain.architectures[model])
    for baseline in task.baselines:
        owner, _, short = baseline.partition(":")
        named = get_domain(owner)
        table = {**named.baselines, **named.node_baselines, **named.pair_baselines}
        if short not in table:
            raise unknown_name(f"baseline of {owner}", short, table)
        load_object(table[short])
    _check_metrics(task)
    methods = {*domain.splitters, "random", "column", "file"}
    if task.split.method not in methods:
        raise unknown_name("split method", task.split.method, methods)
    levels = (domain.item_level, *domain.node_levels)
    for target in task.targets:
        if target.level not in levels:
            raise unknown_name(f"level of {domain.name}", target.level, levels)
    return f"{len(task.models)} architectures, {len(task.baselines)} baselines"


def _check_metrics(task: TaskSpec) -> None:
    kinds = {target.kind for target in task.targets}
    for metric in task.metrics:
        if metric.name not in METRICS:
            raise unknown_name("metric", metric.name, METRICS)
        known = METRICS[metric.name]
        if metric.direction != known.direction:
            raise SpecError(
                f"the metric {metric.name!r} has the direction {known.direction!r}, not {metric.direction!r}."
            )
        if not any(known.scores(target) for target in task.targets):
            raise SpecError(
                f"the metric {metric.name!r} scores {', '.join(sorted(known.kinds))}; the targets are"
                f" {', '.join(sorted(kinds))}."
            )


def _check_labels(task: TaskSpec, dataset: DatasetSpec, folder: Path, mirror: Path | None) -> str:
    """Read the labels of every item-level target; a node's need the featurised inputs and are read in training."""
    domain = get_domain(task.domain)
    found = Counter[str]()
    table, _ = read_dataset(dataset, folder, mirror)
    for target in labelled(task):
        strings = table.column(target.source)
        if target.level == domain.item_level:
            found[target.name] += int(parse_labels(strings, target, table.origin(target.source)).mask.sum())
        else:
            found[target.name] += sum(bool(text) for text in strings)
    empty = [target.name for target in labelled(task) if not found[target.name]]
    if empty:
        raise DataError(f"{folder}: the target {empty[0]!r} has no label at all.")
    return ", ".join(f"{name} {count}" for name, count in found.items())


def _check_split_file(task: TaskSpec, folder: Path) -> str:
    """Look for the committed file of the task's own seed; what it holds is checked with the data set."""
    path = folder / str(task.split.file).format(seed=task.split.seed)
    if not path.is_file():
        raise SpecError(f"the split file {path} is not there. Make it with datasets/make_splits.py.")
    return str(path.name)


def _model_steps(catalog: Catalog, name: str, mirror: Path | None) -> Steps:  # noqa: ARG001 - one signature for all
    folder = catalog.model_path(name)
    spec = catalog.model(name)
    yield "definition", lambda: spec.architecture.name
    if spec.name != name:
        yield "name", partial(_raise, SpecError(f"{folder}: config.json says {spec.name!r}, the folder {name!r}."))
    # Checksums, strict loading, and the three predictions that the bundle promises.
    yield "example", lambda: f"largest difference {check_example(folder, load_bundle(folder)):.1e}"


def _raise(error: ZooError) -> str:
    raise error
