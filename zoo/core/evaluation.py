"""From raw outputs to outcomes in original units, and the validation bookkeeping of a fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from zoo.core.datamodule import concatenate, ragged_index
from zoo.core.heads import Network
from zoo.core.losses import MaskedLoss
from zoo.core.metrics import Outcome, softmax
from zoo.core.reduction import step_loss
from zoo.core.scalers import unscale
from zoo.core.types import Batch, Labels, SumCount
from zoo.specs.model import ScalerSpec
from zoo.specs.target import TargetSpec


def select_labels(labels: Labels, index: np.ndarray) -> Labels:
    """Return the labels of the items ``index``, in that order."""
    weight = None if labels.weight is None else labels.weight[index]
    if labels.ptr is None:
        return Labels(labels.values[index], labels.mask[index], weight)
    where, sizes = ragged_index(labels.ptr, index)
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    return Labels(labels.values[where], labels.mask[where], weight, ptr)


def to_predictions(spec: TargetSpec, scaler: ScalerSpec, raw: np.ndarray) -> np.ndarray:
    """Return predictions of raw outputs ``(n, k)``.

    Regression and vectors: values in the target's unit, ``(n, k)``. Binary: probability of the positive class,
    ``(n, 1)``. Multiclass: probabilities ``(n, c)``.
    """
    if spec.kind == "binary":
        return softmax(np.concatenate([np.zeros_like(raw), raw], axis=1))[:, 1:]
    if spec.kind == "multiclass":
        return softmax(raw)
    return unscale(scaler, raw)


def make_outcome(spec: TargetSpec, pred: np.ndarray, labels: Labels) -> Outcome:
    """Pair predictions with labels in original units; single columns become one-dimensional."""
    true, mask = labels.values, labels.mask
    if spec.kind != "multiclass" and pred.shape[1] == 1:
        true, mask, pred = true[:, 0], mask[:, 0], pred[:, 0]
    return Outcome(spec, true, mask, pred)


@torch.inference_mode()
def raw_outputs(network: Network, batches: Iterable[Batch], device: torch.device) -> dict[str, np.ndarray]:
    """Run a network in evaluation mode and restore its mode; returns ``{target: (n, k)}`` in the order given."""
    was_training = network.training
    network.eval()
    pieces: dict[str, list[Tensor]] = {}
    try:
        for batch in batches:
            for name, output in network(batch.to(device)).items():
                pieces.setdefault(name, []).append(output.cpu())
    finally:
        network.train(was_training)
    return {name: concatenate(parts) for name, parts in pieces.items()}


class ValidationState:
    """Sums of losses and raw outputs of one pass over the validation part."""

    def __init__(self, losses: Mapping[str, MaskedLoss]) -> None:
        self.losses = losses
        self.reset()

    def reset(self) -> None:
        """Forget the last pass."""
        zero = torch.zeros((), dtype=torch.float64)
        self.sums = {name: SumCount(zero, zero) for name in self.losses}
        self.outputs: dict[str, list[Tensor]] = {name: [] for name in self.losses}

    def update(self, batch: Batch, outputs: dict[str, Tensor]) -> None:
        """Add one batch."""
        for name, loss in self.losses.items():
            part = loss(outputs[name], batch.targets[name])
            self.sums[name] = self.sums[name] + SumCount(part.total.double().cpu(), part.count.cpu())
            self.outputs[name].append(outputs[name].detach().cpu())

    def loss(self, weights: list[float], reduction: str) -> float:
        """Return the loss over the whole part, each target by its own count."""
        counts = torch.stack([s.count for s in self.sums.values()])
        return float(step_loss([s.total for s in self.sums.values()], counts, weights, reduction))

    def raw(self) -> dict[str, np.ndarray]:
        """Return the raw outputs of the pass."""
        return {name: concatenate(parts) for name, parts in self.outputs.items()}
