"""A task made from a user's own file: columns found, kinds inferred and said, everything overridable."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zoo import resources
from zoo.core.domain import DOMAINS, Domain, get_domain
from zoo.core.infer import infer_kind
from zoo.core.metrics import METRICS
from zoo.core.table import Table, read_table
from zoo.errors import DataError, InputError, did_you_mean
from zoo.specs.dataset import ColumnSpec, DatasetSpec, FileSpec
from zoo.specs.model import ModelSpec
from zoo.specs.run import RunSpec
from zoo.specs.target import TargetSpec
from zoo.specs.task import MetricSpec, Recipe, SplitSpec, TaskSpec

_METRICS: dict[str, list[str]] = {
    "regression": ["rmse", "mae", "r2", "spearman"],
    "binary": ["roc_auc", "average_precision", "accuracy", "mcc"],
    "multiclass": ["balanced_accuracy", "accuracy", "cross_entropy"],
}


def own_task(
    path: Path, targets: list[str], *, kind: str | None, input_column: str | None
) -> tuple[TaskSpec, DatasetSpec, list[str]]:
    """Return a task and a data set for a file, and what was inferred, a line each.

    Parameters
    ----------
    path
        CSV or TSV file.
    targets
        Columns to predict.
    kind
        Kind of the targets; inferred where None.
    input_column
        Column of the raw inputs; found where None.

    Raises
    ------
    DataError, InputError
        If a column is missing, or cannot be told or read.
    """
    table = read_table(path)
    doubled = sorted({name for name in targets if targets.count(name) > 1})
    if doubled:
        raise InputError(f"--target {doubled[0]} is given twice. Name each column to predict once.")
    domain, column = find_input(table, input_column)
    notes = [f"input: column {column!r} ({domain.input_kind})"]
    specs = []
    for name in targets:
        if name == column:
            raise InputError(f"--target {name}: this is the input column. Name a column to predict.")
        spec, reason = _target(table, name, kind, domain)
        specs.append(spec)
        notes.append(f"target {name!r}: {spec.kind} at {spec.level} level ({reason})")
    dataset = _dataset(table, path, column, domain, specs)
    return _task(dataset, domain, specs), dataset, notes


def find_input(table: Table, given: str | None) -> tuple[Domain, str]:
    """Return the domain and the column of the inputs: the given one, or the only one named after its kind."""
    domains = [get_domain(name) for name in DOMAINS]
    if given is not None:
        table.column(given)
        return domains[0], given
    for domain in domains:
        alike = [c for c in table.columns if domain.input_kind in c.casefold()]
        exact = [c for c in alike if c.casefold() == domain.input_kind]
        if len(exact or alike) == 1:
            return domain, (exact or alike)[0]
        if alike:
            raise DataError(f"{table.path}: several columns may be the input: {', '.join(alike)}. Use --input COL.")
    kinds = ", ".join(d.input_kind for d in domains)
    raise DataError(
        f"{table.path}: no column is named after an input ({kinds}); it has: {', '.join(table.columns)}. "
        "Name it with --input COL."
    )


def _target(table: Table, name: str, kind: str | None, domain: Domain) -> tuple[TargetSpec, str]:
    if name not in table.columns:
        raise DataError(
            f"{table.path}: no column {name!r}.{did_you_mean(name, table.columns)} It has: {', '.join(table.columns)}."
        )
    found = infer_kind(table.column(name), name, table)
    level = domain.node_levels[0] if found.nodes else domain.item_level
    chosen: Any = kind or found.kind
    reason = "asked for" if kind is not None and kind != found.kind else found.reason
    classes = found.classes
    if chosen != "regression" and classes is None:
        classes = sorted({v.strip() for v in table.column(name) if v.strip()})
        if len(classes) < 2:
            raise DataError(f"{table.path}: column {name!r} holds {len(classes)} class; two are needed.")
    if chosen == "binary" and classes is not None and len(classes) != 2:
        shown = ", ".join(classes[:6])
        raise DataError(
            f"{table.path}: column {name!r} holds {len(classes)} classes ({shown}); --kind binary needs two. "
            "Use --kind multiclass, or map the classes to two."
        )
    if chosen == "regression":
        classes = None
    positive = found.positive if chosen == "binary" and classes == found.classes else None
    spec = TargetSpec(name=name.strip(), column=name, level=level, kind=chosen, classes=classes, positive=positive)  # type: ignore[arg-type]
    return spec, reason


def _dataset(table: Table, path: Path, column: str, domain: Domain, targets: list[TargetSpec]) -> DatasetSpec:
    sources = [t.source for t in targets]
    columns = [
        ColumnSpec(
            name=name,
            role="input" if name == column else "target" if name in sources else "ignore",
            kind=domain.input_kind if name == column else "text",  # type: ignore[arg-type]
        )
        for name in table.columns
    ]
    file = FileSpec(
        name=path.name,
        sha256=resources.sha256_of(path),
        bytes=path.stat().st_size,
        rows=len(table),
        format=_format(path),
    )
    return DatasetSpec(
        name=_slug(path.name.split(".")[0]),
        title=path.name,
        domain=domain.name,  # type: ignore[arg-type]
        files=[file],
        columns=columns,
        licence="unknown",
        source=str(path),
        citation="",
    )


def labelled_file(
    path: Path, spec: ModelSpec, domain: Domain, input_column: str | None
) -> tuple[TaskSpec, DatasetSpec]:
    """Return a task and a data set that score a trained model on all rows of a file."""
    table = read_table(path)
    column = input_column or (spec.input_column if spec.input_column in table.columns else None)
    if column is None:
        column = find_input(table, None)[1]
    for target in spec.targets:
        table.column(target.source)
    dataset = _dataset(table, path, column, domain, spec.targets)
    extra = spec.features.names[spec.features.n_from_featuriser :] if spec.features else []
    columns = [
        c.model_copy(update={"role": "feature", "kind": "number"}) if c.name in extra else c for c in dataset.columns
    ]
    dataset = dataset.model_copy(update={"columns": columns})
    return _task(dataset, domain, spec.targets), dataset


def _task(dataset: DatasetSpec, domain: Domain, targets: list[TargetSpec]) -> TaskSpec:
    kinds = list(dict.fromkeys(t.kind for t in targets))
    metrics = metric_specs(dict.fromkeys(name for kind in kinds for name in _METRICS[kind]))
    baselines = [f"{domain.name}:{b}" for b in dict.fromkeys(b for k in kinds for b in domain.default_baselines[k])]
    return TaskSpec(
        name=dataset.name,
        title=f"{', '.join(t.name for t in targets)} of {dataset.title}",
        domain=dataset.domain,
        dataset=dataset.name,
        targets=targets,
        metrics=metrics,
        split=SplitSpec(method=domain.default_split),
        baselines=baselines,
        models=list(domain.architectures),
        recipe=_recipe(domain, targets),
    )


def metric_specs(names: Iterable[str]) -> list[MetricSpec]:
    """Return metrics by name with the direction each has; the first is primary."""
    return [
        MetricSpec(name=name, direction=METRICS[name].direction, primary=i == 0)  # type: ignore[arg-type]
        for i, name in enumerate(names)
    ]


def _recipe(domain: Domain, targets: list[TargetSpec]) -> Recipe:
    """Return the domain's recipe; features of whole items only where a target is of whole items."""
    recipe = domain.default_recipe
    if any(t.level == domain.item_level for t in targets):
        return recipe
    return Recipe(train=recipe.train)


def _format(path: Path) -> Any:
    return "tsv" if path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")) else "csv"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.casefold()).strip("-._") or "data"


def own_file_lost(run: RunSpec) -> str | None:
    """Return what happened to the user's own file that a run was made from, or None if it is as it was."""
    if run.data_file is None:
        return None
    path = Path(run.data_file)
    if not path.is_file():
        return "is not there any more"
    return None if resources.sha256_of(path) == run.dataset.files[0].sha256 else "has changed since"


def check_own_file(run: RunSpec, remedy: str) -> None:
    """Raise if the user's own file that a run was made from has moved or changed."""
    lost = own_file_lost(run)
    if lost is not None:
        raise DataError(f"{run.data_file}, which the model was trained on, {lost}. {remedy}")
