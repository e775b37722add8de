"""Element losses and their masked sums.

Every loss here is additive: it returns a sum over valid labels and their count, and nobody divides before the counts
of the whole optimiser step are known (see :mod:`zoo.core.reduction`). A label is one scalar element, or one item for
cross-entropy.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from zoo.core.types import SumCount, Target
from zoo.errors import NetworkError
from zoo.specs.target import TargetSpec

_ELEMENTWISE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": lambda pred, true: F.mse_loss(pred, true, reduction="none"),
    "mae": lambda pred, true: F.l1_loss(pred, true, reduction="none"),
    "huber": lambda pred, true: F.huber_loss(pred, true, reduction="none", delta=1.0),
}


class MaskedLoss:
    """The loss of one target.

    Parameters
    ----------
    spec
        Names the loss, the positive weight of a binary target (it scales the loss of positives and leaves the count
        alone) and the class weights of a multiclass one (the count is then the weight of the valid items' classes).

    Notes
    -----
    Values, predictions and weights in masked positions are replaced before any arithmetic, so that whatever stands
    there, NaN included, changes no bit of the sum, the count or the gradient.
    """

    additive = True

    def __init__(self, spec: TargetSpec) -> None:
        self.name = spec.loss_name
        self.target = spec.name
        self.pos_weight = spec.pos_weight
        self.class_weights = None if spec.class_weights is None else torch.tensor(spec.class_weights)

    def __call__(self, pred: Tensor, target: Target) -> SumCount:
        """Return the sum of valid element losses and the denominator of this batch.

        Parameters
        ----------
        pred
            ``(n, k)`` raw outputs (logits for the classifying losses); ``(n, c)`` for cross-entropy.
        target
            Values and mask ``(n, k)``; ``(n,)`` for cross-entropy.

        Raises
        ------
        NetworkError
            If the shapes differ: broadcasting a loss is always a mistake.
        """
        pred = pred if pred.dtype == torch.float64 else pred.float()
        if self.name == "cross_entropy":
            losses, weight = self._cross_entropy(pred, target)
        else:
            losses, weight = self._elementwise(pred, target)
        total = torch.where(target.mask, losses * weight, 0.0).sum()
        return SumCount(total, self.count(target))

    def number(self, target: Target) -> float:
        """Return :meth:`count` as a number, by the shortest way."""
        if target.weight is None and self.class_weights is None:
            return float(target.mask.count_nonzero().item())
        return float(self.count(target))

    def count(self, target: Target) -> Tensor:
        """Return the denominator of a batch: the (weighted) number of valid labels, a float64 scalar."""
        if target.weight is None and self.class_weights is None:
            return target.mask.count_nonzero().double()
        weight = torch.ones_like(target.mask, dtype=torch.float64)
        if target.weight is not None:
            weight = weight * _expand(target.weight.double(), target.mask)
        if self.class_weights is not None:
            safe = torch.where(target.mask, target.values, 0)
            weight = weight * self.class_weights.to(weight.device).double().index_select(0, safe)
        return torch.where(target.mask, weight, 0.0).sum()

    def _elementwise(self, pred: Tensor, target: Target) -> tuple[Tensor, Tensor]:
        if pred.shape != target.values.shape:
            raise NetworkError(
                f"the network's output for {self.target!r} has the shape {tuple(pred.shape)}, its labels "
                f"{tuple(target.values.shape)}: return one row per label row, and as many columns"
            )
        pred = torch.where(target.mask, pred, 0.0)
        true = torch.where(target.mask, target.values, 0.0).to(pred.dtype)
        if self.name == "bce":
            pos_weight = None if self.pos_weight is None else pred.new_tensor(self.pos_weight)
            losses = F.binary_cross_entropy_with_logits(pred, true, pos_weight=pos_weight, reduction="none")
        else:
            losses = _ELEMENTWISE[self.name](pred, true)
        return losses, _sample_weight(target, losses)

    def _cross_entropy(self, pred: Tensor, target: Target) -> tuple[Tensor, Tensor]:
        if pred.ndim != 2 or pred.shape[:1] != target.values.shape:
            raise NetworkError(
                f"the network's output for {self.target!r} has the shape {tuple(pred.shape)}, its labels "
                f"{tuple(target.values.shape)}: return one row per label, and one column per class"
            )
        pred = torch.where(target.mask.unsqueeze(1), pred, 0.0)
        true = torch.where(target.mask, target.values, 0)
        class_weights = None if self.class_weights is None else self.class_weights.to(pred)
        losses = F.cross_entropy(pred, true, weight=class_weights, reduction="none")
        return losses, _sample_weight(target, losses)


def _sample_weight(target: Target, losses: Tensor) -> Tensor:
    if target.weight is None:
        return losses.new_ones(())
    return torch.where(target.mask, _expand(target.weight.to(losses.dtype), target.mask), 0.0)


def _expand(weight: Tensor, mask: Tensor) -> Tensor:
    return weight.reshape(-1, *[1] * (mask.ndim - 1)).expand(mask.shape)
