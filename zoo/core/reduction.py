r"""From sums and counts to the loss of one optimiser step.

One step minimises :math:`\sum_t w_t\, S_t / D_t` over the targets with :math:`D_t > 0`, where the sum :math:`S_t` and
the denominator :math:`D_t` run over all ranks and all accumulated microbatches of the step. Because
:math:`S_t = \sum_{r,m} S_{t,r,m}`, each microbatch may be differentiated alone, provided that :math:`D_t` is known
before its backward: the loader counts the labels of a whole window, :func:`zoo.core.ranks.exchange` adds the
ranks' counts, and the gradients of all microbatches and ranks are then summed.

Worked example: rank 0 has element losses 1, 2, 3 and rank 1 has 10. The mean of the ranks' means is 6; the loss of the
step is 16 / 4 = 4, to which the ranks contribute 6 / 4 and 10 / 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from zoo.core.losses import MaskedLoss
from zoo.core.types import Target


def local_counts(losses: dict[str, MaskedLoss], microbatches: Sequence[dict[str, Target]]) -> Tensor:
    """Return ``(t,)`` float64: the denominators of one rank's window, in the order of ``losses``."""
    counts = [sum(loss.number(targets[name]) for targets in microbatches) for name, loss in losses.items()]
    return torch.from_numpy(np.array(counts, np.float64))  # `torch.tensor` takes four times as long


def step_loss(sums: Sequence[Tensor], counts: Tensor, weights: Sequence[float], reduction: str) -> Tensor:
    """Return one microbatch's share of the step's loss.

    Parameters
    ----------
    sums
        Per target, the sum of this microbatch's valid element losses.
    counts
        ``(t,)`` denominators of the whole step, over all ranks.
    weights
        Weight of each target.
    reduction
        ``per_target``: every target is divided by its own count; ``pooled``: all by the sum of the counts.
    """
    denominators = counts.sum().expand(len(sums)) if reduction == "pooled" else counts
    loss: Tensor | None = None
    for total, denominator, weight in zip(sums, denominators.tolist(), weights, strict=True):
        # A target without a label in the whole step has sum 0; dividing by 1 keeps it in the graph and adds nothing.
        share = total * (weight / (denominator if denominator > 0 else 1.0))
        loss = share if loss is None else loss + share
    if loss is None:
        raise ValueError("a loss needs at least one target")
    return loss
