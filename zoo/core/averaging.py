"""Exponential moving average of the weights, by torch's own ``AveragedModel``."""

from __future__ import annotations

from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from zoo.core.faults import fault
from zoo.core.module import ZooModule


class Averaging(Callback):
    """Averages the weights after every step, and puts the average in place while a validation runs.

    Buffers are not averaged: they are constants (scalers), and averaging would make them drift.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.averaged: AveragedModel | None = None

    def on_train_start(self, trainer: L.Trainer, pl_module: ZooModule) -> None:  # noqa: ARG002
        """Start with a copy; the first step overwrites it."""
        average = get_ema_multi_avg_fn(self.decay)  # type: ignore[no-untyped-call]
        self.averaged = AveragedModel(pl_module.network, multi_avg_fn=average, use_buffers=False)

    def on_train_batch_end(
        self,
        trainer: L.Trainer,  # noqa: ARG002
        pl_module: ZooModule,
        outputs: Any,  # noqa: ARG002
        batch: Any,  # noqa: ARG002
        batch_idx: int,  # noqa: ARG002
    ) -> None:
        """Add the step's weights."""
        fault("before-averaging")
        if self.averaged is not None:
            self.averaged.update_parameters(pl_module.network)

    def on_validation_epoch_start(self, trainer: L.Trainer, pl_module: ZooModule) -> None:  # noqa: ARG002
        """Put the average in place."""
        self._swap(pl_module)

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: ZooModule) -> None:  # noqa: ARG002
        """Put the raw weights back."""
        self._swap(pl_module)

    @torch.no_grad()
    def _swap(self, module: ZooModule) -> None:
        if self.averaged is None:
            return
        for ours, theirs in zip(self.averaged.module.parameters(), module.network.parameters(), strict=True):
            kept = theirs.detach().clone()
            theirs.copy_(ours)
            ours.copy_(kept)

    def weights(self) -> dict[str, Tensor] | None:
        """Return the averaged network's state, or None before the first step."""
        return None if self.averaged is None else self.averaged.module.state_dict()

    def state(self) -> dict[str, Any] | None:
        """Return what a resumed run needs."""
        return None if self.averaged is None else self.averaged.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state`."""
        if self.averaged is not None:
            self.averaged.load_state_dict(state)
