"""A task made from a user's own file: columns found, kinds inferred and said, everything overridable."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zoo import resources
from zoo.core.cache import featurise
from zoo.core.domain import DOMAINS, Domain, get_domain
from zoo.core.infer import infer_kind
from zoo.core.join import join, rename
from zoo.core.metrics import METRICS
from zoo.core.table import Table, read_table
from zoo.errors import DataError, InputError
from zoo.specs.dataset import ColumnSpec, DatasetSpec, FileSpec, Role
from zoo.specs.model import ModelSpec
from zoo.specs.run import RunSpec
from zoo.specs.target import TargetSpec
from zoo.specs.task import MetricSpec, Recipe, SplitSpec, TaskSpec
from zoo.workflows.foreign import LOOKED_AT, domain_of, foreign, warn_of_foreign

_METRICS: dict[str, list[str]] = {
    "regression": ["rmse", "mae", "r2", "spearman"],
    "binary": ["roc_auc", "average_precision", "accuracy", "mcc"],
    "multiclass": ["balanced_accuracy", "accuracy", "cross_entropy"],
    "pair": ["average_precision", "roc_auc", "precision_at_l"],
}


def own_task(
    path: Path, targets: list[str], *, kind: str | None, input_column: str | None, labels: Path | None = None
) -> tuple[TaskSpec, DatasetSpec, list[str]]:
    """Return a task and a data set for a file, and what was inferred, a line each.

    Parameters
    ----------
    path
        CSV, TSV or FASTA file.
    labels
        Another such file in the same folder, joined by the column ``id``. What stands below the headers of FASTA is
        called ``label`` there.
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
    table, files = _own_table(path, labels)
    doubled = sorted({name for name in targets if targets.count(name) > 1})
    if doubled:
        raise InputError(f"--target {doubled[0]} is given twice. Name each column to predict once.")
    domain, column = find_input(table, input_column)
    notes = [f"input: column {column!r} ({domain.input_kind})"]
    strange = foreign(table.column(column), domain)
    if strange is not None and strange.certain:
        raise DataError(
            f"{table.path}: column {column!r}: {strange.text}. Name the column after what it holds, or have it told by "
            f"the inputs: --input {column}."
        )
    if strange is not None:
        notes.append(f"note: {strange.text}. If they are {strange.name}, add --input {column}.")
    specs = []
    lengths = _node_counts(table, column, domain)
    for name in targets:
        if name == column:
            raise InputError(f"--target {name}: this is the input column. Name a column to predict.")
        spec, reason = _target(table, name, kind, domain, lengths)
        specs.append(spec)
        notes.append(f"target {name!r}: {spec.kind} at {spec.level} level ({reason})")
    dataset = _dataset(table, column, domain, specs, files)
    return _task(dataset, domain, specs), dataset, notes


def _own_table(path: Path, labels: Path | None) -> tuple[Table, list[FileSpec]]:
    """Return a user's file, joined with the file of its labels, and what the files are."""
    table = read_table(path)
    files = [_file(table)]
    if labels is None:
        return table, files
    if labels.resolve().parent != path.resolve().parent:
        raise InputError(f"--labels {labels}: put the file into the folder of {path}, so that both are found together.")
    other = read_table(labels)
    names = {"sequence": "label"} if other.names is not None else {}
    return join([table, rename(other, names)], "id"), [*files, _file(other, names)]


def _file(table: Table, names: dict[str, str] | None = None) -> FileSpec:
    return FileSpec(
        name=table.path.name,
        rename=names or {},
        sha256=table.sha256,
        bytes=table.path.stat().st_size,
        rows=len(table),
        format=_format(table),
    )


def find_input(table: Table, given: str | None) -> tuple[Domain, str]:
    """Return the domain and the column of the inputs: the given one, or the only one named after its kind."""
    domains = [get_domain(name) for name in DOMAINS]
    if given is not None:
        return domain_of(table.column(given)), given
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


def _node_counts(table: Table, column: str, domain: Domain) -> dict[int, int]:
    """Return the number of nodes of the first rows' inputs, of those that can be read."""
    some = table.column(column)[:LOOKED_AT]
    found = featurise(domain, some, {}, cache=False)
    counts = found.items.n_source(domain.node_levels[0]) if domain.node_levels and len(found.position) else []
    return {int(row): int(count) for row, count in zip(found.position, counts, strict=False)}


def _target(
    table: Table, name: str, kind: str | None, domain: Domain, lengths: dict[int, int]
) -> tuple[TargetSpec, str]:
    found = infer_kind(table.column(name), name, table.origin(name), lengths)
    if found.pairs:
        return _pair_target(table, name, kind, domain), found.reason
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


def _pair_target(table: Table, name: str, kind: str | None, domain: Domain) -> TargetSpec:
    if not domain.paired or kind not in (None, "binary"):
        why = f"--kind {kind} has no place there" if domain.paired else f"{domain.name} have no such level"
        raise DataError(f"{table.path}: column {name!r} lists pairs [i, j] of nodes in contact, and {why}.")
    return TargetSpec(name=name.strip(), column=name, level="pair", kind="binary")


def _dataset(
    table: Table, column: str, domain: Domain, targets: list[TargetSpec], files: list[FileSpec]
) -> DatasetSpec:
    sources = [t.source for t in targets]
    columns = [
        ColumnSpec(
            name=name,
            role=_role(name, column, sources, joined=len(files) > 1),
            kind=domain.input_kind if name == column else "text",  # type: ignore[arg-type]
        )
        for name in table.columns
    ]
    return DatasetSpec(
        name=_slug(table.path.name.split(".")[0]),
        title=table.path.name,
        domain=domain.name,  # type: ignore[arg-type]
        files=files,
        columns=columns,
        licence="unknown",
        source=str(table.path),
        citation="",
    )


def _role(name: str, column: str, targets: list[str], *, joined: bool) -> Role:
    if name == column:
        return "input"
    if name in targets:
        return "target"
    return "id" if joined and name == "id" else "ignore"


def labelled_file(
    path: Path, spec: ModelSpec, domain: Domain, input_column: str | None, labels: Path | None = None
) -> tuple[TaskSpec, DatasetSpec]:
    """Return a task and a data set that score a trained model on all rows of a file (see :func:`own_task`).

    Censored labels cannot be scored: they are masked, and counted.
    """
    table, files = _own_table(path, labels)
    column = input_column or (spec.input_column if spec.input_column in table.columns else None)
    if column is None:
        column = find_input(table, None)[1]
    warn_of_foreign(path, table.column(column), domain)
    for target in spec.targets:
        if target.objective != "masked":
            table.column(target.source)
    dataset = _dataset(table, column, domain, spec.targets, files)
    extra = spec.features.names[spec.features.n_from_featuriser :] if spec.features else []
    columns = [
        c.model_copy(update={"role": "feature", "kind": "number"}) if c.name in extra else c for c in dataset.columns
    ]
    dataset = dataset.model_copy(update={"columns": columns})
    targets = [t.model_copy(update={"censoring": "mask"}) for t in spec.targets]
    return _task(dataset, domain, targets), dataset


def _task(dataset: DatasetSpec, domain: Domain, targets: list[TargetSpec]) -> TaskSpec:
    kinds = list(dict.fromkeys(t.kind for t in targets))
    reported = dict.fromkeys("pair" if t.level == "pair" else t.kind for t in targets)
    metrics = metric_specs(dict.fromkeys(name for group in reported for name in _METRICS[group]))
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


def _format(table: Table) -> Any:
    """Return the format under which the file is read again as it was."""
    if table.names is not None:
        return "fasta"
    return "tsv" if {suffix.lower() for suffix in table.path.suffixes[-2:]} & {".tsv", ".tab"} else "csv"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.casefold()).strip("-._") or "data"


def own_file_lost(run: RunSpec) -> str | None:
    """Return what happened to the user's own files that a run was made from, or None if they are as they were."""
    if run.data_file is None:
        return None
    for file in run.dataset.files:
        path = Path(run.data_file).parent / file.name
        if not path.is_file() or resources.sha256_of(path) != file.sha256:
            what = "has changed since" if path.is_file() else "is not there any more"
            return f"{path}, which the model was trained on, {what}"
    return None


def check_own_file(run: RunSpec, remedy: str) -> None:
    """Raise if the user's own file that a run was made from has moved or changed."""
    lost = own_file_lost(run)
    if lost is not None:
        raise DataError(f"{lost}. {remedy}")
