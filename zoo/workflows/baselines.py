"""Cheap baselines on the same rows, split and metrics as the model."""

from __future__ import annotations

import time

import numpy as np

from zoo.core.domain import Domain, load_object
from zoo.core.evaluation import make_outcome
from zoo.core.metrics import Outcome, score
from zoo.core.ragged import ragged_index
from zoo.core.types import Labels
from zoo.errors import InputError, unknown_name
from zoo.specs.model import ScoreInfo
from zoo.specs.target import TargetSpec
from zoo.workflows.build import Prepared

CONSTANT = {"mean", "majority"}


def timed_baselines(prepared: Prepared, names: list[str]) -> dict[str, tuple[dict[str, ScoreInfo], float]]:
    """Return each baseline's scores and the seconds it took to fit and predict."""
    results = {}
    for name in names:
        started = time.monotonic()
        outcomes = [o for group in _by_kind(prepared.run.task.targets) for o in _outcomes(prepared, name, group)]
        if outcomes:
            scores = {m.name: score(m.name, outcomes) for m in prepared.run.task.metrics}
            results[name] = (scores, time.monotonic() - started)
    return results


def check_baselines(domain: Domain, names: list[str]) -> None:
    """Raise for a name that is no baseline of the domain."""
    for name in names:
        prefix, _, short = name.partition(":")
        if prefix != domain.name:
            raise InputError(f"baseline {name!r}: write {domain.name}:NAME.")
        known = {**domain.baselines, **domain.node_baselines, **domain.pair_baselines}
        if short not in known:
            raise unknown_name("baseline", short, known)


def _by_kind(targets: list[TargetSpec]) -> list[list[TargetSpec]]:
    groups: dict[tuple[str, str], list[TargetSpec]] = {}
    for target in targets:
        # Several classified outputs of a multiclass target fill the columns of an answer, so it stands alone.
        key = (target.level, target.name if target.kind == "multiclass" else target.kind)
        groups.setdefault(key, []).append(target)
    return list(groups.values())


def _outcomes(prepared: Prepared, name: str, targets: list[TargetSpec]) -> list[Outcome]:
    """Return what a baseline predicts for the test part; nothing where it is not made for the targets' level."""
    domain, records = prepared.data.domain, prepared.data.records
    short = name.partition(":")[2]
    test = prepared.labels("test")
    nodes = targets[0].level != domain.item_level
    if nodes and (short in CONSTANT or targets[0].objective == "masked"):
        if short not in CONSTANT:
            return []
        train = prepared.labels("train")
        return [make_outcome(t, _constant(t, train[t.name], len(test[t.name].mask)), test[t.name]) for t in targets]
    of_nodes = domain.pair_baselines if targets[0].level == "pair" else domain.node_baselines
    table = of_nodes if nodes else domain.baselines
    if short not in table:
        return []
    labels = [records.labels[t.name] for t in targets]
    values = np.stack([_column(own.values) for own in labels], axis=1)
    mask = np.stack([_column(own.mask) for own in labels], axis=1)
    ptr = labels[0].ptr
    pred = load_object(table[short])(
        records.keys,
        *(() if ptr is None else (ptr,)),
        np.where(mask, values, 0.0).astype(np.float64),
        mask,
        prepared.parts["train"],
        kind=targets[0].kind,
        seed=prepared.run.seed,
        threads=prepared.run.threads,
    )
    index = prepared.parts["test"]
    rows = pred[index if ptr is None else ragged_index(ptr, index)[0]]
    if targets[0].kind == "multiclass":
        missing = targets[0].n_outputs - rows.shape[1]  # the last classes, where no row has them
        return [make_outcome(targets[0], np.pad(rows, ((0, 0), (0, missing))), test[targets[0].name])]
    return [make_outcome(t, rows[:, i : i + 1], test[t.name]) for i, t in enumerate(targets)]


def _column(array: np.ndarray) -> np.ndarray:
    return array if array.ndim == 1 else array[:, 0]


def _constant(target: TargetSpec, train: Labels, n: int) -> np.ndarray:
    valid = train.values[train.mask]
    if target.kind == "multiclass":
        shares = np.bincount(valid, minlength=target.n_outputs) / max(1, len(valid))
        return np.tile(shares, (n, 1))
    return np.full((n, train.values.shape[1]), valid.mean() if len(valid) else 0.0)
