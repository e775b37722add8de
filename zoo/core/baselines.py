"""What the cheap models of every domain share: constants, and one estimator per target on given features.

A missing label is never filled in: each target is fitted on its own valid rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zoo.errors import DataError


def mean(
    inputs: Sequence[str],
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    seed: int = 0,
    threads: int = 1,
) -> np.ndarray:
    """Predict the mean of the training labels of each target, or the frequencies of its classes."""
    del seed, threads
    n_classes = count_classes(values, mask)
    columns = [_constant(y, kind, n_classes, len(inputs)) for _, y in _training(values, mask, train, kind)]
    return _joined(columns, kind)


majority = mean
"""Of classes the mean is their frequencies, so that the decision is always for the most frequent."""


def fitted(
    make: Callable[[], Any],
    features: Any,
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
) -> np.ndarray:
    """Fit one estimator per target on its valid training rows; return ``(n, t)`` or, for multiclass, ``(n, c)``.

    Parameters
    ----------
    make
        Returns a fresh estimator of scikit-learn's kind: a regressor, or a classifier with ``predict_proba``.
    features
        ``(n, f)``, an array or a sparse matrix.
    values, mask, train, kind
        As :class:`zoo.core.domain.Baseline` takes them.

    Raises
    ------
    DataError
        A target has no label among the training rows.
    """
    n, n_classes = features.shape[0], count_classes(values, mask)
    columns = []
    for rows, y in _training(values, mask, train, kind):
        if kind != "regression" and len(np.unique(y)) == 1:
            columns.append(_constant(y, kind, n_classes, n))
            continue
        model = make().fit(features[rows], y if kind == "regression" else y.astype(np.int64))
        if kind == "regression":
            columns.append(np.asarray(model.predict(features), dtype=np.float64).reshape(n, 1))
            continue
        spread = np.zeros((n, n_classes))
        spread[:, np.asarray(model.classes_, dtype=np.int64)] = model.predict_proba(features)
        columns.append(spread[:, 1:] if kind == "binary" else spread)
    return _joined(columns, kind)


def count_classes(values: np.ndarray, mask: np.ndarray) -> int:
    """Return one more than the largest class index among the valid labels, at least 2."""
    return max(2, int(values[mask].max(initial=1)) + 1)


def _training(
    values: np.ndarray, mask: np.ndarray, train: np.ndarray, kind: str
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return per target its valid training rows and their labels."""
    values, mask = values.reshape(len(values), -1), mask.reshape(len(mask), -1)
    if kind == "multiclass" and values.shape[1] != 1:
        raise ValueError(f"a multiclass baseline takes one target at a time, got {values.shape[1]}")
    found = []
    for t in range(values.shape[1]):
        rows = train[mask[train, t]]
        if len(rows) == 0:
            raise DataError(f"baseline: target number {t} has no label in the training part. Leave the target out.")
        found.append((rows, values[rows, t]))
    return found


def _constant(y: np.ndarray, kind: str, n_classes: int, n: int) -> np.ndarray:
    if kind == "regression":
        return np.full((n, 1), y.mean())
    share = np.bincount(y.astype(np.int64), minlength=n_classes) / len(y)
    return np.tile(share[1:] if kind == "binary" else share, (n, 1))


def _joined(columns: list[np.ndarray], kind: str) -> np.ndarray:
    return columns[0] if kind == "multiclass" else np.concatenate(columns, axis=1)
