"""Stops a run whose loss or gradient is not finite, or whose loss explodes, and names the rows of the batch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from zoo.core.ranks import barrier
from zoo.core.types import Batch
from zoo.errors import DivergenceError
from zoo.specs.task import TrainSpec

_REFERENCE_STEPS = 20


class Watch:
    """Looks at the losses and the gradient of every step before it changes a weight.

    ``reference`` holds the losses of the first steps; a checkpoint carries it.
    """

    def __init__(self, train: TrainSpec) -> None:
        self.train = train
        self.reference: list[float] = []
        self._usual: float | None = None

    def check_losses(self, losses: Sequence[float], total: float, window: Sequence[Batch], step: int) -> None:
        """Raise if the loss of a microbatch is not finite, or the step's loss is far above that of the first steps.

        Parameters
        ----------
        losses
            Of this process's microbatches.
        total
            The loss of the step over all processes.
        window, step
            What the message names.
        """
        for value, batch in zip(losses, window, strict=True):
            if not math.isfinite(value):
                raise self._error(f"the loss is {value}", [batch], step)
        if not math.isfinite(total):
            barrier()  # a process whose own rows are at fault has raised by now, and its message is the one to be seen
            raise self._error(f"the loss is {total}", window, step)
        if len(self.reference) < _REFERENCE_STEPS:
            self.reference.append(total)
            self._usual = None
            return
        if self._usual is None:
            self._usual = max(statistics.median(self.reference), 1e-6)
        if total > self.train.divergence * self._usual:
            times = f"{total / self._usual:.0f} times the median of the first {_REFERENCE_STEPS} steps"
            raise self._error(f"the loss is {total:.3g}, {times}", window, step)

    def check_gradient(self, norm: float, window: Sequence[Batch], step: int) -> None:
        """Raise if the norm of the gradient is not finite."""
        if not math.isfinite(norm):
            raise self._error("the gradient is not finite", window, step)

    def _error(self, what: str, batches: Sequence[Batch], step: int) -> DivergenceError:
        rows = ", ".join(str(r) for b in batches for r in b.rows.tolist())
        half = ", or compute in bfloat16: --set train.precision=bf16" if self.train.precision == "fp16" else ""
        return DivergenceError(
            f"training diverged at step {step}: {what}. Rows of the batch: {rows}. Look at these rows' labels and "
            f"features, or lower the rate: --set train.lr={self.train.lr / 10:g}{half}"
        )
