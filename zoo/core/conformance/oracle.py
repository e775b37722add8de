"""The loss of one optimiser step written down once more, in NumPy and float64, with the gradient in closed form.

It shares no line with :mod:`zoo.core.losses` and :mod:`zoo.core.reduction`: it selects the valid labels instead of
replacing the others, and it sees the whole window at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from zoo.core.types import Batch, Target
from zoo.specs.target import TargetSpec


def window_loss(
    targets: Sequence[TargetSpec],
    outputs: Sequence[Mapping[str, Tensor]],
    window: Sequence[Batch],
    *,
    reduction: str,
) -> tuple[float, list[dict[str, np.ndarray]]]:
    """Return the loss of a window and, per microbatch and target, its gradient with respect to the outputs.

    The loss is the sum over targets of weight * (sum of valid element losses) / (number of valid labels), with one
    number for all targets where ``reduction`` is ``pooled``.
    """
    sums = {}
    counts = {}
    grads: list[dict[str, np.ndarray]] = [{} for _ in window]
    for target in targets:
        total = count = 0.0
        for grad, found, batch in zip(grads, outputs, window, strict=True):
            output = found[target.name].detach().double().cpu().numpy()
            losses, weights, grad[target.name] = _valid(target, output, batch.targets[target.name])
            total += float(losses.sum())
            count += float(weights.sum())
        sums[target.name], counts[target.name] = total, count
    pooled = sum(counts.values())
    loss = 0.0
    for target in targets:
        divisor = pooled if reduction == "pooled" else counts[target.name]
        factor = target.weight / divisor if divisor > 0 else 0.0
        loss += factor * sums[target.name]
        for grad in grads:
            grad[target.name] = factor * grad[target.name]
    return loss, grads


def _valid(target: TargetSpec, output: np.ndarray, labels: Target) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return losses and weights of the valid labels, and the gradient of their sum for all outputs."""
    mask = labels.mask.cpu().numpy()
    true = labels.values.cpu().numpy()[mask]
    sample = np.ones(len(mask)) if labels.weight is None else labels.weight.double().cpu().numpy()
    weight = np.broadcast_to(sample.reshape(-1, *[1] * (mask.ndim - 1)), mask.shape)[mask]
    grad = np.zeros(output.shape)
    if target.loss_name == "cross_entropy":
        if target.class_weights is not None:
            weight = weight * np.asarray(target.class_weights)[true]
        losses, slope = _cross_entropy(output[mask], true)
        grad[mask] = slope * weight[:, None]
        return losses * weight, weight, grad
    losses, slope = _element(target, output[mask], true.astype(np.float64))
    grad[mask] = slope * weight
    return losses * weight, weight, grad


def _element(target: TargetSpec, output: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return element losses ``(m,)`` and their derivatives."""
    difference = output - true
    if target.loss_name == "mse":
        return difference**2, 2 * difference
    if target.loss_name == "mae":
        return np.abs(difference), np.sign(difference)
    if target.loss_name == "huber":
        near = np.abs(difference) <= 1
        far = np.abs(difference) - 0.5
        return np.where(near, difference**2 / 2, far), np.clip(difference, -1, 1)
    positive = 1.0 if target.pos_weight is None else target.pos_weight
    probability = 1 / (1 + np.exp(-output))
    losses = positive * true * np.logaddexp(0, -output) + (1 - true) * np.logaddexp(0, output)
    return losses, -positive * true * (1 - probability) + (1 - true) * probability


def _cross_entropy(logits: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return losses ``(m,)`` and their derivatives ``(m, c)``."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    exponents = np.exp(shifted)
    total = exponents.sum(axis=1, keepdims=True)
    chosen = np.arange(len(true)), true
    slope = exponents / total
    slope[chosen] -= 1
    return np.log(total[:, 0]) - shifted[chosen], slope
