"""``zoo evaluate``: score a trained model on its task's part, on another task, or on a labelled file."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zoo.core.evaluation import make_outcome
from zoo.core.masking import Hiding
from zoo.core.metrics import METRICS, score
from zoo.errors import DataError, InputError
from zoo.resources import mirror_dir
from zoo.specs.catalog import Catalog
from zoo.specs.dataset import DatasetSpec
from zoo.specs.model import ModelSpec, ScoreInfo
from zoo.specs.run import RunSpec
from zoo.specs.task import MetricSpec, TaskSpec
from zoo.workflows.build import Data, asked_labels, folder_of, load_data, scaled_features, split_of
from zoo.workflows.console import print_json, print_table
from zoo.workflows.load import find_bundle, load_bundle
from zoo.workflows.model import Model
from zoo.workflows.owndata import check_own_file, labelled_file, metric_specs
from zoo.workflows.runfolder import run_beside

_log = logging.getLogger("zoo")
_BATCH = 256


def evaluate(
    model: str | Path,
    *,
    task: str | None = None,
    data: str | Path | None = None,
    labels: str | Path | None = None,
    part: str | None = None,
    input_column: str | None = None,
    includes: Sequence[Path] = (),
    mirror: Path | None = None,
    device: str = "auto",
    batch_size: int = _BATCH,
) -> dict[str, ScoreInfo]:
    """Score a model.

    Parameters
    ----------
    model
        A zoo model's name, a bundle, or a run folder.
    task
        Score on a part of this task; by default the task and the very split that the model was trained on.
    data
        Instead: score on all rows of a labelled file with the columns of the model's targets.
    labels
        With ``data``: another file in its folder with these columns, joined by ``id``.
    part
        ``train``, ``val``, ``calibration`` or ``test`` (the default); a file of one's own has no parts.

    Returns
    -------
    dict
        Scores by metric, each with the rows and targets it rests on.
    """
    folder = find_bundle(model, list(includes), mirror)
    loaded = load_bundle(folder, device=device)
    return _evaluate(
        loaded,
        folder,
        task=task,
        data=data,
        labels=labels,
        part=part,
        input_column=input_column,
        includes=includes,
        mirror=mirror,
        batch_size=batch_size,
    )


def _evaluate(
    loaded: Model,
    folder: Path,
    *,
    task: str | None,
    data: str | Path | None,
    labels: str | Path | None,
    part: str | None,
    input_column: str | None,
    includes: Sequence[Path],
    mirror: Path | None,
    batch_size: int,
) -> dict[str, ScoreInfo]:
    if data is not None and task is not None:
        raise InputError("give --task or --data, not both.")
    if data is not None and part is not None:
        raise InputError("--part goes with a task; a file given by --data is scored as a whole.")
    if labels is not None and data is None:
        raise InputError("--labels goes with --data FILE; a task has labels of its own.")
    if data is not None:
        found, index = _own(loaded, Path(data), input_column, None if labels is None else Path(labels))
        metrics = _metrics_of(loaded.spec)
    else:
        found, index, metrics = _of_task(loaded, folder, task, part or "test", includes=includes, mirror=mirror)
    return _scores(loaded, found, index, metrics, batch_size)


def _scores(
    model: Model, data: Data, index: np.ndarray, metrics: list[MetricSpec], batch_size: int
) -> dict[str, ScoreInfo]:
    records = data.records
    features = None if model.spec.features is None else scaled_features(records, model.spec.features)[index]
    items = records.items.subset(index)
    pred = model.predict_items(items, features, batch_size, Hiding.of(model.spec.targets, items, seed=0))
    labels = asked_labels(records, Hiding.of(model.spec.targets, records.items, seed=0), index)
    outcomes = [make_outcome(t, pred[t.name], labels[t.name]) for t in model.spec.targets]
    return {m.name: score(m.name, outcomes) for m in metrics}


def _own(model: Model, path: Path, input_column: str | None, labels: Path | None) -> tuple[Data, np.ndarray]:
    task, dataset = labelled_file(path, model.spec, model.domain, input_column, labels)
    data = load_data(task, dataset, model.spec.featuriser.options, folder=path.parent, mirror=None)
    for line in data.records.report.summary(data.table.names):
        _log.info("%s", line)
    return data, np.arange(len(data.records))


def _of_task(
    model: Model, folder: Path, name: str | None, part: str, *, includes: Sequence[Path], mirror: Path | None
) -> tuple[Data, np.ndarray, list[MetricSpec]]:
    catalog = Catalog(includes)
    run = run_beside(folder) if name is None else None
    task, dataset = (run.task, run.dataset) if run is not None else _named(catalog, name or model.spec.provenance.task)
    missing = sorted({t.name for t in model.spec.targets} - {t.name for t in task.targets})
    if missing:
        raise InputError(f"task {task.name!r} has no target {', '.join(missing)}, which the model predicts.")
    task = task.model_copy(update={"targets": model.spec.targets})
    made_on = model.spec.provenance
    if run is None:
        run = RunSpec(
            task=task,
            dataset=dataset,
            model=task.recipe.model,
            train=task.recipe.train,
            split_seed=made_on.split.seed,
            threads=made_on.threads,
        )
    check_own_file(run, "Score a file with --data FILE.")
    folder_of_data = folder_of(run, catalog)
    data = load_data(task, dataset, model.spec.featuriser.options, folder=folder_of_data, mirror=mirror)
    split = split_of(run.model_copy(update={"task": task}), data)
    if task.name == made_on.task and split.hash != made_on.split.sha256:
        raise DataError(
            f"the split of {task.name} here ({split.hash[:12]}) is not the one the model was trained on "
            f"({made_on.split.sha256[:12]}), so rows it has seen could be scored as unseen. Use the data and the split "
            "it was made with, or score a file with --data."
        )
    parts = {str(k): v for k, v in split.parts.items()}
    if not len(parts.get(part, ())):
        raise InputError(f"the split has no part {part!r}; it has: {', '.join(k for k, v in parts.items() if len(v))}.")
    return data, parts[part], task.metrics


def _named(catalog: Catalog, name: str) -> tuple[TaskSpec, DatasetSpec]:
    if name not in catalog.names("task"):
        raise InputError(
            f"the model was trained on {name!r}, which is no task of the zoo: score a file with --data FILE."
        )
    task = catalog.task(name)
    return task, catalog.dataset(task.dataset)


def _metrics_of(spec: ModelSpec) -> list[MetricSpec]:
    """Return the metrics the model was reported with, else all that fit its targets."""
    reported = next(iter(spec.provenance.metrics.values()), None)
    names = list(reported) if reported else [n for n, m in METRICS.items() if any(map(m.scores, spec.targets))]
    return metric_specs(names)


def evaluate_command(args: argparse.Namespace) -> int:
    """Print the scores of a model."""
    folder = find_bundle(args.bundle, args.include, args.mirror)
    loaded = load_bundle(folder)
    scores = _evaluate(
        loaded,
        folder,
        task=args.task,
        data=args.data,
        labels=args.labels,
        part=args.part,
        input_column=args.input,
        includes=args.include,
        mirror=mirror_dir(args.mirror),
        batch_size=args.batch_size or _BATCH,
    )
    if args.json:
        print_json({name: s.model_dump() for name, s in scores.items()})
        return 0
    spec = loaded.spec
    where = f"{args.data}" if args.data else f"the {args.part or 'test'} part of {args.task or spec.provenance.task}"
    rows = [[n, s.value, s.rows, f"{s.targets_scored} of {s.targets}"] for n, s in scores.items()]
    print_table(["metric", "value", "labels", "targets scored"], rows, f"{spec.name} on {where}")
    for name, found in scores.items():
        for target, why in found.skipped.items():
            sys.stdout.write(f"{name}: {target} not scored, {why}\n")
    return 0
