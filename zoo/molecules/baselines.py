"""Cheap models to be compared with: the mean, the majority, and trees on fingerprints with descriptors.

Each is a :class:`zoo.core.domain.Baseline`: it takes ``n`` SMILES, labels and mask ``(n, t)`` and the positions to fit
on, and returns predictions for all ``n``. A missing label is never filled in: each target is fitted on its own valid
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from zoo.errors import DataError
from zoo.molecules.descriptors import DescriptorError, describe, descriptor_names
from zoo.molecules.splits import standardised

THREADS = 2
"""Threads of the trees where the caller does not say."""
TREES = 500
"""Trees of a forest, and rounds of boosting."""
BITS, RADIUS = 2048, 2


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
    n_classes = _n_classes(values, mask)
    columns = [_constant(y, kind, n_classes, len(inputs)) for _, y in _training(values, mask, train, kind)]
    return _joined(columns, kind)


majority = mean
"""Of classes the mean is their frequencies, so that the decision is always for the most frequent."""


def random_forest(
    inputs: Sequence[str],
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    seed: int,
    threads: int = THREADS,
) -> np.ndarray:
    """Fit one random forest of 500 trees per target on ECFP4 counts and RDKit descriptors."""

    def make() -> Any:
        shared = {"n_estimators": TREES, "n_jobs": threads, "random_state": seed}
        if kind == "regression":
            return RandomForestRegressor(max_features=1 / 3, **shared)
        return RandomForestClassifier(max_features="sqrt", min_samples_leaf=2, **shared)

    return _fitted(make, inputs, values, mask, train, kind=kind)


def lightgbm(
    inputs: Sequence[str],
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    seed: int,
    threads: int = THREADS,
) -> np.ndarray:
    """Fit gradient-boosted trees (LightGBM's defaults, 500 rounds) per target on ECFP4 counts and RDKit descriptors."""

    def make() -> Any:
        estimator = LGBMRegressor if kind == "regression" else LGBMClassifier
        return estimator(
            n_estimators=TREES,
            random_state=seed,
            n_jobs=threads,
            deterministic=True,
            force_row_wise=True,  # the faster of two layouts is else found by timing, which is not deterministic
            verbose=-1,
        )

    return _fitted(make, inputs, values, mask, train, kind=kind)


def _fitted(
    make: Callable[[], Any],
    inputs: Sequence[str],
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
) -> np.ndarray:
    """Fit one model per target on its valid training rows; return ``(n, t)`` or, for multiclass, ``(n, c)``."""
    features = fingerprint_features(tuple(inputs))
    n_classes = _n_classes(values, mask)
    columns = []
    for rows, y in _training(values, mask, train, kind):
        if kind != "regression" and len(np.unique(y)) == 1:
            columns.append(_constant(y, kind, n_classes, len(inputs)))
            continue
        model = make().fit(features[rows], y if kind == "regression" else y.astype(np.int64))
        if kind == "regression":
            columns.append(np.asarray(model.predict(features), dtype=np.float64)[:, None])
            continue
        spread = np.zeros((len(inputs), n_classes))
        spread[:, np.asarray(model.classes_, dtype=np.int64)] = model.predict_proba(features)
        columns.append(spread[:, 1:] if kind == "binary" else spread)
    return _joined(columns, kind)


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


def _n_classes(values: np.ndarray, mask: np.ndarray) -> int:
    """Return one more than the largest class index among the valid labels, at least 2."""
    return max(2, int(values[mask].max(initial=1)) + 1)


def _constant(y: np.ndarray, kind: str, n_classes: int, n: int) -> np.ndarray:
    if kind == "regression":
        return np.full((n, 1), y.mean())
    share = np.bincount(y.astype(np.int64), minlength=n_classes) / len(y)
    return np.tile(share[1:] if kind == "binary" else share, (n, 1))


def _joined(columns: list[np.ndarray], kind: str) -> np.ndarray:
    return columns[0] if kind == "multiclass" else np.concatenate(columns, axis=1)


@lru_cache(maxsize=2)
def fingerprint_features(inputs: tuple[str, ...]) -> np.ndarray:
    """Return ``(n, 2048 + d)`` float32: ECFP4 counts, then RDKit 2-D descriptors (NaN where there are none).

    Kept for the process, so that all trees on the same molecules share them.
    """
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    with rdBase.BlockLogs():
        mols = [standardised(text) for text in inputs]
        counts = np.stack([generator.GetCountFingerprintAsNumPy(mol) for mol in mols]).astype(np.float32)
        described = np.stack([_described(mol) for mol in mols])
    limit = np.finfo(np.float32).max
    return np.concatenate([counts, np.clip(described, -limit, limit).astype(np.float32)], axis=1)


def _described(mol: Chem.Mol) -> np.ndarray:
    try:
        return describe(mol)
    except DescriptorError:  # trees send a missing number down a branch of its own; the molecule still counts
        return np.full(len(descriptor_names("rdkit2d")), np.nan)
