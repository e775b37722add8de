"""The one Lightning module: it trains any network on windows of masked targets.

One Lightning batch is one optimiser window, a list of microbatches that carry the denominators of the whole window
(see :mod:`zoo.core.reduction`). The window is worked off inside the optimiser's closure, so that every hook of
Lightning, and every checkpoint, sees closed windows only. On several ranks each works off its own pieces of the
window: one small collective before the first forward adds the counts and shares what the ranks were asked to do, one
sum after the last backward adds the gradients (see :mod:`zoo.core.ranks`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import lightning as L
import torch
from torch import Tensor

from zoo.core.datamodule import WindowLoader, move_window, random_key
from zoo.core.divergence import Watch
from zoo.core.evaluation import ValidationState, make_outcome, to_predictions
from zoo.core.faults import fault
from zoo.core.heads import Network
from zoo.core.losses import MaskedLoss
from zoo.core.metrics import score
from zoo.core.optim import make_optimizer
from zoo.core.precision import SMALLEST_SCALE, autocast, full
from zoo.core.ranks import Signals, exchange, rank, sum_gradients, values_from_main
from zoo.core.reduction import step_loss
from zoo.core.schedule import lr_factor, timed_step
from zoo.core.types import Batch, Labels
from zoo.specs.model import ScalerSpec, ScoreInfo
from zoo.specs.target import TargetSpec
from zoo.specs.task import MetricSpec, TrainSpec


class ZooModule(L.LightningModule):
    """Train a network on masked targets, exactly.

    Parameters
    ----------
    network
        Encoder and heads.
    targets, scalers
        The targets in order, and the scaler of each by name.
    train
        Optimiser, schedule, clipping, reduction.
    total_steps
        Optimiser steps of the whole run, after accumulation.
    seed
        Of the random keys of dropout and augmentation.
    metrics
        Metrics reported on validation; the primary one selects the best weights, unless ``monitor_loss``.
    val_labels
        Labels of the validation part in original units, in the order of its loader.
    budget_seconds
        Wall-clock budget that the schedule follows.
    """

    def __init__(
        self,
        network: Network,
        targets: list[TargetSpec],
        scalers: Mapping[str, ScalerSpec],
        train: TrainSpec,
        *,
        total_steps: int,
        seed: int,
        metrics: list[MetricSpec],
        val_labels: Mapping[str, Labels],
        monitor_loss: bool = False,
        budget_seconds: float | None = None,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network = network
        self.targets, self.scalers, self.train_spec = targets, scalers, train
        self.total_steps, self.seed, self.budget_seconds = total_steps, seed, budget_seconds
        self.metrics, self.val_labels = metrics, val_labels
        primary = next(m for m in metrics if m.primary)
        self.monitor, self.direction = ("loss", "min") if monitor_loss else (primary.name, primary.direction)
        self.losses = {t.name: MaskedLoss(t) for t in targets}
        self.weights = [t.weight for t in targets]
        self.validation = ValidationState(self.losses)
        self.scores: dict[str, ScoreInfo] = {}
        self.logged: dict[str, float] = {}
        self.best: dict[str, Any] = {"value": None, "epoch": None, "step": None, "weights": None}
        self.step_losses: list[float] = []
        self.grad_norm = self.lr = 0.0
        self.rates: dict[str, float] = {}
        self.step = self.epoch = 0
        self.loader: WindowLoader | None = None
        self.lap_done = False
        self.asked = {"stop": "", "save": ""}
        self.signals: Signals | None = None
        self.elapsed_before = 0.0
        self.watch = Watch(train)
        self.sizes: dict[str, Any] = {}
        # Bound methods: a module as an attribute would be registered, and stand in the state twice.
        self.run: Callable[[Batch], dict[str, Tensor]] = network.__call__
        self._started = time.monotonic()
        self._window: list[Batch] = []
        self._losses: list[Tensor] = []

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return raw outputs per target, in float32 or wider."""
        with autocast(self.train_spec.precision, self.device):
            outputs = self.run(batch)
        return full(outputs)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:  # noqa: ARG002
        """Move a window or a batch."""
        return move_window(batch, device)

    def configure_optimizers(self) -> dict[str, Any]:
        """Return the optimiser of ``train.optimizer`` and a schedule that is a function of the step (or of time used)."""
        optimizer = make_optimizer(self.network, self.train_spec)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self._lr_factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _lr_factor(self, step: int) -> float:
        # Before the first exchange every rank takes the same number, never its own clock.
        elapsed = self.elapsed_before if self.signals is None else self.signals.elapsed
        at = timed_step(step, self.total_steps, elapsed, self.budget_seconds)
        return lr_factor(at, self.total_steps, self.train_spec)

    def on_train_start(self) -> None:
        """Start the clock of a budget."""
        self._started = time.monotonic()

    def elapsed(self) -> float:
        """Return the seconds of training so far, those before a resume included."""
        return self.elapsed_before + time.monotonic() - self._started

    def request_stop(self, why: str = "asked to") -> None:
        """Ask for a checkpoint and the end of the fit when the window in work is closed; safe in a signal handler."""
        self.asked["stop"] = why

    def request_save(self, why: str = "asked to") -> None:
        """Ask for a checkpoint when the window in work is closed; safe in a signal handler."""
        self.asked["save"] = why

    @property
    def out_of_time(self) -> bool:
        """Whether the budget is spent, by the clock that all ranks share."""
        if self.budget_seconds is None or self.signals is None:
            return False
        return self.signals.elapsed >= self.budget_seconds

    def training_step(self, window: list[Batch], batch_idx: int) -> None:  # noqa: ARG002
        """Work off one optimiser window."""
        self._window = window
        self.epoch = window[0].key[0]
        fault("before-step")
        self.optimizers().step(closure=self._closure)
        self.lr_schedulers().step()
        self._window = []
        self.step += 1
        self.lap_done = self.loader.advance() if self.loader is not None else False
        fault("after-step")

    def _closure(self) -> None:
        """Accumulate the gradient of the step's loss over the window's microbatches and the ranks."""
        optimizer = self.optimizers()
        optimizer.zero_grad(set_to_none=True)
        counts = self._window[0].counts
        if counts is None:
            raise ValueError("training batches carry the counts of their window; use ZooDataModule's loader")
        stop, save = bool(self.asked["stop"]), bool(self.asked["save"])
        self.signals = exchange(counts, stop=stop, save=save, elapsed=self.elapsed())
        losses = []
        for batch in self._window:
            self.reseed(batch)
            loss = self.microbatch_loss(batch, self.signals.counts)
            self.manual_backward(loss)
            losses.append(loss.detach())
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._losses = [*losses, sum_gradients(parameters, _total(losses))]
        if self.step == 0:
            self._check_used()

    def _check_used(self) -> None:
        """Raise if a trainable parameter takes no part in the loss: it would be decayed and never learn."""
        unused = [n for n, p in self.network.named_parameters() if p.requires_grad and p.grad is None]
        if unused:
            raise ValueError(f"no gradient reaches {', '.join(unused)}: build only what the loss uses")

    def reseed(self, batch: Batch) -> None:
        """Let dropout and augmentation draw from (seed, epoch, window, microbatch, rank), so that none needs saving."""
        key = random_key(self.seed, *batch.key, rank())
        # The generators themselves: torch.manual_seed formats three stack traces a call for devices not there.
        torch.default_generator.manual_seed(key)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index or 0].manual_seed(key)

    def microbatch_loss(self, batch: Batch, counts: Tensor) -> Tensor:
        """Return a microbatch's share of the loss of the step whose denominators are ``counts``."""
        outputs = self(batch)
        sums = [loss(outputs[name], batch.targets[name]).total for name, loss in self.losses.items()]
        return step_loss(sums, counts, self.weights, self.train_spec.reduction)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Clip the gradient, unscaled and summed over the window; stop if it or a loss has diverged."""
        self.rates = {str(group.get("name", i)): float(group["lr"]) for i, group in enumerate(optimizer.param_groups)}
        self.lr = next(iter(self.rates.values()))
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        limit = self.train_spec.clip
        norm = torch.nn.utils.clip_grad_norm_(parameters, float("inf") if limit is None else limit)
        # All of a step's numbers at once: each question to a GPU waits until it has done everything before.
        *losses, total, size = torch.stack([v.double() for v in (*self._losses, norm)]).tolist()
        self.watch.check_losses(losses, total, self._window, self.step)
        if math.isfinite(size) or not self._may_skip():
            self.watch.check_gradient(size, self._window, self.step)
            self.grad_norm = size
        self.step_losses.append(total)

    def _may_skip(self) -> bool:
        """Whether a gradient that is not finite leads to a skipped step and a smaller scale of the loss (float16)."""
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        return scaler is not None and scaler.get_scale() > SMALLEST_SCALE

    def on_validation_epoch_start(self) -> None:
        """Start a pass."""
        fault("validation")
        self.validation.reset()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:  # noqa: ARG002
        """Add one batch to the pass."""
        self.validation.update(batch, self(batch))

    def finish_validation(self) -> dict[str, float]:
        """Score the pass, keep the weights if they are the best so far, and return what to log.

        Called while averaged weights, where there are such, stand in the module.
        """
        logged = {"val_loss": self.validation.loss(self.weights, self.train_spec.reduction)}
        raw = self.validation.raw()
        outcomes = [
            make_outcome(t, to_predictions(t, self.scalers[t.name], raw[t.name]), self.val_labels[t.name])
            for t in self.targets
        ]
        self.scores = {m.name: score(m.name, outcomes) for m in self.metrics}
        logged |= {f"val_{name}": s.value for name, s in self.scores.items() if s.value is not None}
        logged = values_from_main(logged)
        value = logged.get(f"val_{self.monitor}", float("nan"))
        logged["val_monitor"] = value
        self._keep_best(value)
        return logged

    def _keep_best(self, value: float) -> None:
        best = self.best["value"]
        better = best is None or (value < best if self.direction == "min" else value > best)
        if better and not math.isnan(value):
            weights = {k: v.detach().cpu().clone() for k, v in self.network.state_dict().items()}
            self.best = {"value": value, "epoch": self.epoch, "step": self.step, "weights": weights}


def _total(losses: list[Tensor]) -> Tensor:
    """Return the sum of scalars, added in float64 from the first to the last.

    Neither ``sum``, whose order is torch's choice, nor ``cumsum``, which has no deterministic kernel on a GPU.
    """
    total = losses[0].double()
    for loss in losses[1:]:
        total = total + loss
    return total.to(losses[0])
