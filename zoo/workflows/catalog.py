"""``zoo list``: what the catalogue holds."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from zoo.errors import SpecError, ZooError, did_you_mean, unknown_name
from zoo.specs.catalog import KINDS, Catalog, Kind
from zoo.specs.dataset import DatasetSpec
from zoo.specs.model import ModelSpec
from zoo.specs.published import PublishedModel, published_models
from zoo.specs.task import TaskSpec
from zoo.workflows.console import Cell, print_json, print_line, print_table

_log = logging.getLogger("zoo")
_PLURAL: dict[Kind, str] = {"task": "tasks", "dataset": "datasets", "model": "models"}
_COLUMNS: dict[Kind, tuple[str, ...]] = {
    "task": ("task", "domain", "data set", "targets", "metric", "split", "title"),
    "dataset": ("data set", "domain", "rows", "data", "licence", "title"),
    "model": ("model", "domain", "architecture", "parameters", "targets", "task", "weights"),
}


def list_tasks(domain: str | None = None, include: Iterable[Path | str] = ()) -> list[str]:
    """Return the names of all tasks, or of one domain's."""
    return _names("task", domain, include)


def list_datasets(domain: str | None = None, include: Iterable[Path | str] = ()) -> list[str]:
    """Return the names of all data sets, or of one domain's."""
    return _names("dataset", domain, include)


def list_models(domain: str | None = None, include: Iterable[Path | str] = ()) -> list[str]:
    """Return the names of all zoo models and of those published by others, or of one domain's."""
    return [*_names("model", domain, include), *(model.name for model in published_models(domain))]


def _names(kind: Kind, domain: str | None, include: Iterable[Path | str]) -> list[str]:
    catalog = Catalog(include)
    if domain is None:
        return catalog.names(kind)
    return [name for name, spec in usable(catalog, kind) if spec.domain == domain]


def list_command(args: argparse.Namespace) -> int:
    """Print the tables of tasks, data sets and models; a file that cannot be read is a note, not a gap."""
    catalog = Catalog(args.include)
    kinds = [kind for kind in KINDS if args.kind in (None, _PLURAL[kind])]
    found = {kind: list(usable(catalog, kind)) for kind in kinds}
    if args.domain is not None:
        domains: set[str] = {spec.domain for specs in found.values() for _, spec in specs}
        domains |= {model.domain for model in published_models()} if "model" in kinds else set()
        if args.domain not in domains:
            raise unknown_name("domain", args.domain, domains)
        found = {kind: [item for item in specs if item[1].domain == args.domain] for kind, specs in found.items()}
    tables = {kind: [_row(catalog, kind, name, spec) for name, spec in specs] for kind, specs in found.items()}
    if "model" in kinds:
        tables["model"] += [_published_row(model) for model in published_models(args.domain)]
    if args.json:
        keys = {kind: [column.replace(" ", "") for column in _COLUMNS[kind]] for kind in kinds}
        print_json({_PLURAL[k]: [dict(zip(keys[k], row, strict=True)) for row in t] for k, t in tables.items()})
        return 0
    for position, (kind, rows) in enumerate(tables.items()):
        if position:
            print_line()
        if rows:
            print_table(_COLUMNS[kind], rows)
        else:
            print_line(f"no {_PLURAL[kind]} yet")
    return 0


def load_any(catalog: Catalog, kind: Kind, name: str) -> TaskSpec | DatasetSpec | ModelSpec:
    """Return what a name stands for."""
    if kind == "task":
        return catalog.task(name)
    return catalog.dataset(name) if kind == "dataset" else catalog.model(name)


def usable(catalog: Catalog, kind: Kind) -> Iterator[tuple[str, TaskSpec | DatasetSpec | ModelSpec]]:
    """Yield every name with its spec; one that cannot be loaded is noted on stderr in one line and left out."""
    for name in catalog.names(kind):
        try:
            yield name, load_any(catalog, kind, name)
        except ZooError as error:
            first = str(error).splitlines()[0]
            _log.warning("note: the %s %s cannot be used: %s `zoo validate %s` says more.", kind, name, first, name)


def _row(catalog: Catalog, kind: Kind, name: str, spec: Any) -> list[Cell]:
    if kind == "task":
        targets = f"{len(spec.targets)} targets" if len(spec.targets) > 1 else spec.targets[0].name
        return [name, spec.domain, spec.dataset, targets, spec.primary.name, spec.split.method, spec.title]
    if kind == "dataset":
        folder = catalog.dataset_folder(name)
        where = "bundled" if all((folder / file.name).is_file() for file in spec.files) else "by url"
        return [name, spec.domain, spec.n_rows, where, spec.licence, spec.title]
    made = spec.provenance
    return [
        name,
        spec.domain,
        spec.architecture.name,
        made.parameters,
        ", ".join(t.name for t in spec.targets),
        made.task,
        "here",
    ]


def _published_row(model: PublishedModel) -> list[Cell]:
    return [model.name, model.domain, model.architecture, model.parameters, model.targets, model.task, "by url"]


def find(catalog: Catalog, words: Sequence[str]) -> tuple[Kind, str]:
    """Return the kind and the name that ``NAME`` or ``KIND NAME`` means; a task wins over what shares its name."""
    if len(words) == 2:
        singular: dict[str, Kind] = {**{kind: kind for kind in KINDS}, **{_PLURAL[kind]: kind for kind in KINDS}}
        if words[0] not in singular:
            raise unknown_name("kind", words[0], KINDS)
        catalog.path(singular[words[0]], words[1])
        return singular[words[0]], words[1]
    name = words[0]
    for kind in KINDS:
        if name in catalog.names(kind):
            return kind, name
    known = [known for kind in KINDS for known in catalog.names(kind)]
    known += [model.name for model in published_models()]
    raise SpecError(f"no task, data set or model is called {name!r}.{did_you_mean(name, known)} `zoo list` shows all.")
