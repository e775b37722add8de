"""Cheap models to be compared with: the mean, the majority, and trees on fingerprints with descriptors.

Each is a :class:`zoo.core.domain.Baseline`: it takes ``n`` SMILES, labels and mask ``(n, t)`` and the positions to fit
on, and returns predictions for all ``n``. A missing label is never filled in: each target is fitted on its own valid
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from zoo.core.baselines import fitted
from zoo.core.trees import boosted_trees
from zoo.molecules.descriptors import DescriptorError, describe, descriptor_names
from zoo.molecules.splits import standardised

THREADS = 2
"""Threads of the trees where the caller does not say."""
TREES = 500
"""Trees of a forest, and rounds of boosting."""
BITS, RADIUS = 2048, 2


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

    return fitted(make, fingerprint_features(tuple(inputs)), values, mask, train, kind=kind)


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
        return boosted_trees(kind, rounds=TREES, seed=seed, threads=threads)

    return fitted(make, fingerprint_features(tuple(inputs)), values, mask, train, kind=kind)


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
