"""The end of a run: test predictions, scores, the bundle with its card, ``result.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from zoo.core.bundle import save_bundle
from zoo.core.evaluation import make_outcome, to_predictions
from zoo.core.faults import fault
from zoo.core.files import csv_text, write_atomic
from zoo.core.fit import FitResult
from zoo.core.metrics import score
from zoo.core.types import Items, Labels
from zoo.specs.model import (
    ArchitectureSpec,
    FeaturiserSpec,
    ModelSpec,
    Provenance,
    ScoreInfo,
    SplitInfo,
)
from zoo.specs.target import TargetSpec
from zoo.workflows.build import Prepared, versions
from zoo.workflows.cards import bundle_readme
from zoo.workflows.load import pick_device
from zoo.workflows.merge import merge
from zoo.workflows.model import Model, describe, in_input_order, prediction_columns
from zoo.workflows.pairs import describe_pairs, listed, pick_pairs
from zoo.workflows.pretrained import adapter_of, provenance_of


def finalise(
    prepared: Prepared,
    result: FitResult,
    raw: Mapping[str, np.ndarray],
    *,
    folder: Path,
    compared: Mapping[str, tuple[dict[str, ScoreInfo], float]],
    seconds: float,
) -> dict[str, dict[str, ScoreInfo]]:
    """Score the selected weights' raw outputs of the test part and write everything a run leaves behind.

    ``result.json`` comes last: a run that has it is finished. Returns the scores of ``model`` and of each baseline.
    """
    task = prepared.run.task
    model = Model(_spec(prepared, result), prepared.network, prepared.data.domain, pick_device("cpu"))
    test = prepared.parts["test"]
    items = prepared.data.records.items.subset(test)
    pred = {t.name: to_predictions(t, prepared.scalers[t.name], raw[t.name]) for t in task.targets}
    labels = prepared.labels("test")
    outcomes = [make_outcome(t, pred[t.name], labels[t.name]) for t in task.targets]
    metrics = {"model": {m.name: score(m.name, outcomes) for m in task.metrics}}
    metrics |= {name: scores for name, (scores, _) in compared.items()}
    fault("finalise")
    write_atomic(folder / "predictions.csv", _predictions(prepared, items, pred, labels).encode())
    provenance = model.spec.provenance.model_copy(update={"metrics": metrics})
    spec = model.spec.model_copy(update={"provenance": provenance})
    example = _example(model, [prepared.data.records.inputs[i] for i in test], prepared, test)
    state = prepared.network.state_dict()
    spec = save_bundle(folder / "bundle", spec, state, example, bundle_readme(spec, example))
    fault("bundle-written")
    if prepared.run.start is not None and prepared.run.start.merge:
        merge(folder / "bundle", folder / "merged")
    outcome = {
        "task": task.name,
        "model": prepared.architecture,
        "dataset": prepared.run.dataset.name,
        "split": spec.provenance.split.model_dump(),
        "seed": prepared.run.seed,
        "parameters": spec.provenance.parameters,
        "seconds": round(seconds, 2),
        "steps": result.steps,
        "epochs": result.epochs,
        "stopped": result.stopped,
        "selected": result.selected,
        "metrics": {name: {m: s.model_dump() for m, s in scores.items()} for name, scores in metrics.items()},
        "baseline_seconds": {name: round(s, 2) for name, (_, s) in compared.items()},
        "packages": spec.provenance.packages,
    }
    write_atomic(folder / "result.json", json.dumps(outcome, indent=1, allow_nan=False).encode())
    return metrics


def _spec(prepared: Prepared, result: FitResult) -> ModelSpec:
    """Return what the bundle says, but for the scores."""
    run, data, split = prepared.run, prepared.data, prepared.split
    domain = data.domain
    network, start = prepared.network, prepared.start
    adapter = None if run.start is None or run.start.mode != "lora" else adapter_of(network.encoder, run.start)
    return ModelSpec(
        name=f"{run.task.name}-{prepared.architecture}",
        domain=run.task.domain,
        architecture=ArchitectureSpec(
            name=prepared.architecture,
            version=type(network.encoder).VERSION,  # type: ignore[attr-defined]
            hparams=prepared.hparams,
            head=prepared.head,
            adapter=adapter,
        ),
        dtype="float64" if run.train.precision == "64" else "float32",
        featuriser=FeaturiserSpec(name=domain.featuriser, version=domain.featuriser_version, options=data.options),
        input_column=run.dataset.by_role("input")[0].name,
        targets=run.task.targets,
        scalers=prepared.scalers,
        features=prepared.feature_scaler,
        provenance=Provenance(
            task=run.task.name,
            dataset=run.dataset.name,
            licence=run.dataset.licence,
            data_sha256=data.sha256,
            split=SplitInfo(
                method=split.method,
                seed=run.split_seed,
                sha256=split.hash,
                sizes={name: len(part) for name, part in prepared.parts.items()},
            ),
            seed=run.seed,
            threads=torch.get_num_threads(),
            parameters=sum(p.numel() for p in network.parameters()),
            steps=result.steps,
            selected=result.selected,
            metrics={},
            packages=versions(domain),
            start={} if start is None or run.start is None else provenance_of(start, run.start),
        ),
    )


def _example(model: Model, inputs: list[str], prepared: Prepared, test: np.ndarray) -> dict[str, Any]:
    """Return three test inputs (with their feature columns) and what the model predicts for them."""
    chosen = range(min(3, len(inputs)))
    columns: dict[str, list[Any]] = {model.spec.input_column: [inputs[i] for i in chosen]}
    records = prepared.data.records
    if records.features is not None:
        for j, name in enumerate(records.feature_names):
            columns[name] = [float(records.features[test[i], j]) for i in chosen]
    result = model.predict(pd.DataFrame(columns), input_column=model.spec.input_column)
    names = [c for t in model.spec.targets for c in prediction_columns(t)]
    return {"inputs": columns, "outputs": {n: result[n].tolist() for n in names}}


def _predictions(prepared: Prepared, items: Items, pred: Mapping[str, np.ndarray], labels: Mapping[str, Labels]) -> str:
    """Return the test rows: row index, input, then per target the label and the prediction columns."""
    records, test = prepared.data.records, prepared.parts["test"]
    header = ["row", prepared.run.dataset.by_role("input")[0].name]
    columns: list[list[Any]] = [records.first_rows[test].tolist(), [records.inputs[i] for i in test]]
    for target in prepared.run.task.targets:
        header += [target.name, *prediction_columns(target)]
        if target.level == "pair":
            level, own = prepared.data.domain.paired, labels[target.name]
            columns.append(listed(pick_pairs(items, level, target, own.mask[:, 0] & (own.values[:, 0] > 0))))
            columns += describe_pairs(items, level, target, pred[target.name]).values()
            continue
        found = [_true_values(target, labels[target.name]), *describe(target, pred[target.name]).values()]
        hiding = prepared.datamodule.source.hiding
        if hiding is not None and target.name in hiding.targets:
            asked = hiding.draw(test, None).nodes
            found = [_among(values, asked, int(items.node_ptr(target.level)[-1])) for values in found]
        if labels[target.name].ptr is not None:
            found = [in_input_order(items, target.level, values) for values in found]
        columns += found
    return csv_text(header, [list(row) for row in zip(*columns, strict=True)])


def _among(values: list[Any], asked: np.ndarray, n: int) -> list[Any]:
    """Return values of the nodes that were asked for among those of all ``n`` nodes, None elsewhere."""
    spread: list[Any] = [None] * n
    for node, value in zip(asked.tolist(), values, strict=True):
        spread[node] = value
    return spread


def _true_values(target: TargetSpec, labels: Labels) -> list[Any]:
    missing = None if labels.ptr is not None else ""
    values = labels.values if labels.values.ndim == 1 else labels.values[:, 0]
    mask = labels.mask if labels.mask.ndim == 1 else labels.mask[:, 0]
    if target.kind in ("binary", "multiclass"):
        names = target.class_names
        return [names[int(v)] if m else missing for v, m in zip(values, mask, strict=True)]
    return [float(v) if m else missing for v, m in zip(values, mask, strict=True)]
