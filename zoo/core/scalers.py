"""Scalers: fitted on training rows only, plain numbers, saved in the bundle, never touched by weight averaging."""

from __future__ import annotations

import numpy as np

from zoo.core.types import Labels
from zoo.specs.model import FeatureScalerSpec, ScalerSpec
from zoo.specs.target import TargetSpec


def fit_target_scaler(spec: TargetSpec, labels: Labels) -> ScalerSpec:
    """Fit a target's scaler on the valid labels given (those of the training part).

    A spread of zero gives a scale of one. Standard deviations are those of the population (``ddof = 0``).
    """
    if spec.scaling == "none":
        return ScalerSpec()
    values = labels.values[labels.mask].astype(np.float64)
    if spec.scaling == "log10":
        values = np.log10(values)
    spread = float(values.std()) if values.size else 0.0
    mean = float(values.mean()) if values.size else 0.0
    return ScalerSpec(
        mean=mean, scale=spread if spread > 1e-12 * max(1.0, abs(mean)) else 1.0, log10=spec.scaling == "log10"
    )


def scale_labels(scaler: ScalerSpec, labels: Labels) -> Labels:
    """Return labels as the loss sees them; values in masked positions become 0."""
    if labels.values.dtype.kind in "iu":
        return labels
    values = np.where(labels.mask, labels.values, 1.0)
    values = np.log10(values) if scaler.log10 else values
    values = np.where(labels.mask, (values - scaler.mean) / scaler.scale, 0.0)
    return Labels(values, labels.mask, labels.weight, labels.ptr)


def unscale(scaler: ScalerSpec, outputs: np.ndarray) -> np.ndarray:
    """Return raw outputs in the target's own unit (float64)."""
    raw = scaler.mean + scaler.scale * outputs.astype(np.float64)
    return np.power(10.0, raw) if scaler.log10 else raw


def fit_feature_scaler(names: list[str], values: np.ndarray, n_from_featuriser: int) -> FeatureScalerSpec:
    """Fit the item-level features' scaler on ``(n_train, f)`` values; a constant feature keeps a scale of one."""
    mean, spread = values.mean(axis=0), values.std(axis=0)
    spread = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(mean)), spread, 1.0)
    return FeatureScalerSpec(
        names=names, mean=mean.tolist(), scale=spread.tolist(), n_from_featuriser=n_from_featuriser
    )


def scale_features(scaler: FeatureScalerSpec, values: np.ndarray) -> np.ndarray:
    """Return ``(n, f)`` scaled features; those far outside the training range are clipped at ``limit``."""
    scaled = (values - np.asarray(scaler.mean)) / np.asarray(scaler.scale)
    clipped: np.ndarray = np.clip(scaled, -scaler.limit, scaler.limit)
    return clipped
