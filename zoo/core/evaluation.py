"""From raw outputs to outcomes in original units, and the validation bookkeeping of a fit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from zoo.core.datamodule import BatchLoader
from zoo.core.heads import Network
from zoo.core.losses import MaskedLoss
from zoo.core.metrics import Outcome, softmax
from zoo.core.ragged import ragged_index
from zoo.core.ranks import gather_in_order
from zoo.core.reduction import step_loss
from zoo.core.scalers import unscale
from zoo.core.types import Batch, Labels
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
    return Outcome(spec, true, mask, pred, labels.ptr)


class Outputs:
    """Raw outputs of one pass on the host, each with the place of its item, or else the number of its batch."""

    def __init__(self) -> None:
        self.pieces: dict[str, list[Tensor]] = {}
        self.places: dict[str, list[Tensor]] = {}

    def add(self, batch: Batch, outputs: Mapping[str, Tensor]) -> None:
        """Add the outputs of one batch, ``(n, k)`` per target."""
        for name, output in outputs.items():
            self.pieces.setdefault(name, []).append(output.detach().cpu())
            place = batch.place.get(name, torch.full((len(output),), batch.key[0]))
            self.places.setdefault(name, []).append(place)

    def joined(self, *, spread: bool) -> dict[str, np.ndarray]:
        """Return ``{target: (n, k)}``, the loader's items in order: this process's, or with ``spread`` all ranks'."""
        found = {name: (torch.cat(pieces), torch.cat(self.places[name])) for name, pieces in self.pieces.items()}
        if spread:
            return {name: gather_in_order(*own) for name, own in found.items()}
        return {n: rows.index_select(0, torch.argsort(p, stable=True)).numpy() for n, (rows, p) in found.items()}


@torch.inference_mode()
def raw_outputs(network: Network, batches: BatchLoader, device: torch.device) -> dict[str, np.ndarray]:
    """Run a network in evaluation mode and restore its mode; returns ``{target: (n, k)}`` in the loader's order.

    Where the loader spreads its batches over the ranks, every rank calls this and gets all of the outputs.
    """
    was_training = network.training
    network.eval()
    outputs = Outputs()
    try:
        for batch in batches:
            outputs.add(batch, network(batch.to(device)))
    finally:
        network.train(was_training)
    return outputs.joined(spread=batches.spread)


class ValidationState:
    """Sums of losses and raw outputs of one pass over the validation part, over all ranks."""

    def __init__(self, losses: Mapping[str, MaskedLoss]) -> None:
        self.losses = losses
        self.reset()

    def reset(self) -> None:
        """Forget the last pass."""
        self.outputs = Outputs()
        self.sums: list[Tensor] = []
        self.numbers: list[int] = []

    def update(self, batch: Batch, outputs: dict[str, Tensor]) -> None:
        """Add one batch."""
        found = [loss(outputs[name], batch.targets[name]) for name, loss in self.losses.items()]
        self.sums.append(torch.stack([torch.stack([f.total.double().cpu(), f.count.cpu()]) for f in found]))
        self.numbers.append(batch.key[0])
        self.outputs.add(batch, {name: outputs[name] for name in self.losses})

    def loss(self, weights: list[float], reduction: str) -> float:
        """Return the loss over the whole part, each target by its own count; added batch by batch on any ranks."""
        by_batch = gather_in_order(torch.stack(self.sums), torch.tensor(self.numbers))
        # Summed by NumPy: `cumsum` of torch has no deterministic kernel on a GPU, and `sum` no order of its own.
        sums, counts = torch.from_numpy(by_batch.cumsum(axis=0)[-1]).unbind(1)
        return float(step_loss(list(sums), counts, weights, reduction))

    def raw(self) -> dict[str, np.ndarray]:
        """Return the raw outputs of the pass, rows in order."""
        return self.outputs.joined(spread=True)
