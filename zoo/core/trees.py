"""Gradient-boosted trees as every domain compares them with its models."""

from __future__ import annotations

from lightgbm import LGBMClassifier, LGBMRegressor


def boosted_trees(kind: str, *, rounds: int, seed: int, threads: int) -> LGBMClassifier | LGBMRegressor:
    """Return LightGBM with its defaults but for the rounds; the same seed and threads give the same trees."""
    estimator = LGBMRegressor if kind == "regression" else LGBMClassifier
    return estimator(
        n_estimators=rounds,
        random_state=seed,
        n_jobs=threads,
        deterministic=True,
        force_row_wise=True,  # the faster of two layouts is else found by timing, which is not deterministic
        verbose=-1,
    )
