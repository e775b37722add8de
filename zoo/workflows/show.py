"""``zoo show``: one task, data set or model in full."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from zoo.specs.catalog import Catalog
from zoo.specs.dataset import DatasetSpec
from zoo.specs.model import ModelSpec
from zoo.specs.published import PublishedModel, published_models
from zoo.specs.target import TargetSpec
from zoo.specs.task import MetricSpec, SplitSpec, TaskSpec
from zoo.workflows.catalog import find, load_any, usable
from zoo.workflows.console import print_facts, print_json, print_line, print_table

_GO_ON = "Next: zoo embed {0} FILE -o OUT.npz, or zoo finetune {0} --data FILE --target COL"


def show_command(args: argparse.Namespace) -> int:
    """Print one task, data set or model in full."""
    catalog = Catalog(args.include)
    published = next((model for model in published_models() if [model.name] in (args.what, args.what[1:])), None)
    if published is not None and args.what[0] in (published.name, "model", "models"):
        _show_published(published, as_json=args.json)
        return 0
    kind, name = find(catalog, args.what)
    spec: Any = load_any(catalog, kind, name)
    if args.json:
        print_json(spec.model_dump(mode="json"))
        return 0
    if kind == "task":
        _show_task(spec, catalog)
    elif kind == "dataset":
        _show_dataset(spec, catalog)
    else:
        _show_model(spec, catalog)
    return 0


def _show_task(task: TaskSpec, catalog: Catalog) -> None:
    dataset = catalog.dataset(task.dataset)
    print_facts(
        [
            ("task", f"{task.name}: {task.title}"),
            ("about", task.description),
            ("domain", task.domain),
            ("data set", f"{dataset.name}, {dataset.n_rows} rows ({dataset.licence})"),
            ("split", _split(task.split)),
            ("metrics", ", ".join(map(_metric, task.metrics))),
            ("duplicates", task.duplicates),
            ("models", ", ".join(task.models)),
            ("default", ", ".join(f"{model} ({scale} data)" for scale, model in task.default_model.items())),
            ("baselines", ", ".join(task.baselines)),
        ]
    )
    print_line()
    _targets(task.targets)
    print_line()
    print_line(f"Next: zoo train {task.name}    (all settings: zoo train {task.name} --print-config)")


def _show_dataset(dataset: DatasetSpec, catalog: Catalog) -> None:
    folder = catalog.dataset_folder(dataset.name)
    tasks = [name for name, task in usable(catalog, "task") if getattr(task, "dataset", None) == dataset.name]
    print_facts(
        [
            ("data set", f"{dataset.name}: {dataset.title}"),
            ("about", dataset.description),
            ("domain", dataset.domain),
            ("licence", dataset.licence),
            ("source", dataset.source),
            ("cite", dataset.citation),
            *(("known issue", issue) for issue in dataset.known_issues),
            ("folder", str(folder)),
            ("tasks", ", ".join(tasks)),
        ]
    )
    print_line()
    print_table(
        ("file", "rows", "bytes", "part", "where"),
        [
            (f.member or f.name, f.rows, f.bytes, f.part, "bundled" if (folder / f.name).is_file() else f.url)
            for f in dataset.files
        ],
    )
    print_line()
    print_table(
        ("column", "role", "kind", "unit", "description"),
        [(c.name, c.role, c.kind, c.unit, c.description) for c in dataset.columns],
    )


def _show_model(model: ModelSpec, catalog: Catalog) -> None:
    made = model.provenance
    print_facts(
        [
            ("model", model.name),
            ("domain", model.domain),
            ("architecture", f"{model.architecture.name} (version {model.architecture.version})"),
            ("parameters", f"{made.parameters:,}"),
            ("trained on", f"{made.task}, data set {made.dataset} ({made.licence})"),
            ("split", f"{made.split.method}, seed {made.split.seed}, {made.split.sizes}"),
            ("folder", str(catalog.model_path(model.name))),
        ]
    )
    print_line()
    _targets(model.targets)
    print_line()
    scores = [(who, m, s.value, s.rows) for who, by in made.metrics.items() for m, s in by.items()]
    print_table(("scored", "metric", "value", "rows"), scores)
    print_line()
    if all(target.objective == "masked" for target in model.targets):
        print_line(_GO_ON.format(model.name))
    else:
        print_line(f"Next: zoo predict {model.name} FILE.csv -o OUT.csv")


def _show_published(model: PublishedModel, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(model))
        return
    print_facts(
        [
            ("model", model.name),
            ("domain", model.domain),
            ("architecture", model.architecture),
            ("parameters", f"{model.parameters:,}"),
            ("trained on", f"{model.task}, {model.dataset}"),
            ("licence", model.licence),
            ("cite", model.citation),
            ("weights", f"{model.url} (fetched when it is first used, or taken from the mirror or the cache)"),
        ]
    )
    print_line()
    print_line(_GO_ON.format(model.name))


def _split(split: SplitSpec) -> str:
    shares = ", ".join(f"{part} {share:g}" for part, share in split.fractions.items())
    return f"{split.method} ({shares})" if split.method not in ("file", "column") else split.method


def _metric(metric: MetricSpec) -> str:
    direction = "lower is better" if metric.direction == "min" else "higher is better"
    return f"{metric.name} ({direction}{', decides' if metric.primary else ''})"


def _targets(targets: Sequence[TargetSpec]) -> None:
    print_table(
        ("target", "level", "kind", "unit", "loss", "classes"),
        [(t.name, t.level, t.kind, t.unit, t.loss_name, ", ".join(t.classes or [])) for t in targets],
    )
