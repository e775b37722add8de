"""Fit a module with Lightning's trainer, set up so that nothing it does is inexact."""

from __future__ import annotations

import logging
import sys
import warnings
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import (
    Callback,
    EarlyStopping,
    EMAWeightAveraging,
    RichProgressBar,
    Timer,
)

from zoo.core.callbacks import Interrupt, PlainProgress, RunLogger, TrainLoss, ValidationScores
from zoo.core.datamodule import ZooDataModule
from zoo.core.module import ZooModule

_PRECISION: dict[str, Any] = {"32": "32-true", "64": "64-true", "bf16": "bf16-mixed"}


@dataclass(frozen=True)
class FitResult:
    """How a fit ended: optimiser steps done, the weights chosen, and why it stopped."""

    steps: int
    epochs: int
    selected: str
    stopped: str
    """``finished``, ``early``, ``budget``, or the name of the signal that interrupted it."""


def make_trainer(
    module: ZooModule, *, folder: Path | None, device: str = "auto", progress: bool = False, has_val: bool = True
) -> L.Trainer:
    """Return the trainer for a module, with the callbacks of its ``TrainSpec`` and no checkpoints of its own."""
    train = module.train_spec
    quiet()
    accelerator = {"auto": "auto", "cpu": "cpu", "gpu": "gpu"}[device]
    on_cpu = accelerator == "cpu" or not torch.cuda.is_available()
    return L.Trainer(
        accelerator="cpu" if on_cpu else accelerator,
        devices=1,
        max_epochs=train.epochs,
        precision=_PRECISION[train.precision],
        callbacks=_callbacks(module, progress=progress, has_val=has_val),
        logger=False if folder is None else RunLogger(folder),
        enable_checkpointing=False,
        enable_progress_bar=progress and sys.stderr.isatty(),
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        deterministic=True if on_cpu else None,
        default_root_dir=folder,
        log_every_n_steps=10_000_000,
        limit_val_batches=None if has_val else 0,
    )


def _callbacks(module: ZooModule, *, progress: bool, has_val: bool) -> list[Callback]:
    train = module.train_spec
    callbacks: list[Callback] = [ValidationScores(), TrainLoss()]
    if train.ema is not None:
        callbacks.append(EMAWeightAveraging(decay=train.ema, use_buffers=False))
    if train.patience is not None and has_val:
        # It looks when a validation ends, so its patience counts validations.
        mode = module.direction
        callbacks.append(EarlyStopping("val_monitor", mode=mode, patience=train.patience, check_finite=False))
    if module.budget_seconds is not None:
        callbacks.append(Timer(timedelta(seconds=module.budget_seconds), interval="step", verbose=False))
    if progress:
        callbacks.append(RichProgressBar(leave=False) if sys.stderr.isatty() else PlainProgress())
    return callbacks


def fit(module: ZooModule, data: ZooDataModule, trainer: L.Trainer) -> FitResult:
    """Fit, and leave the selected weights in the module's network.

    Raises
    ------
    DivergenceError
        If a loss or gradient is not finite, or a loss explodes; the rows of the batch are named.
    """
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        with Interrupt() as interrupt, warnings.catch_warnings():
            interrupt.trainer = trainer
            _ignore_known_warnings()
            trainer.fit(module, datamodule=data)
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
        torch.use_deterministic_algorithms(mode=False)
    timer = next((c for c in trainer.callbacks if isinstance(c, Timer)), None)
    if interrupt.received:
        stopped = interrupt.received
    elif timer is not None and (timer.time_remaining() or 0) <= 0:
        stopped = "budget"
    else:
        stopped = "finished" if trainer.current_epoch >= module.train_spec.epochs else "early"
    return FitResult(trainer.global_step, trainer.current_epoch, select_weights(module), stopped)


def select_weights(module: ZooModule) -> str:
    """Load the best validated weights into the network where the run asks for them; return what was chosen."""
    best = module.best
    if module.train_spec.select == "best" and best["weights"] is not None:
        module.network.load_state_dict(best["weights"])
        return f"best (epoch {best['epoch'] + 1}, val_{module.monitor} {best['value']:.4g})"
    return "last"


def quiet() -> None:
    """Keep Lightning's own notices (devices, tips) out of the output; its warnings stay."""
    for name in ("lightning.pytorch.utilities.rank_zero", "lightning.pytorch.accelerators.cuda", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _ignore_known_warnings() -> None:
    # Each names a choice made on purpose: our loaders need no worker processes and log by epoch.
    for message in (
        ".*does not have many workers.*",
        ".*number of training batches.*smaller than the logging interval.*",
        ".*You defined a `validation_step` but have no `val_dataloader`.*",
        ".*You have overridden `transfer_batch_to_device`.*",
        ".*GPU available but not used.*",
        ".*`isinstance\\(treespec, LeafSpec\\)` is deprecated.*",
        ".*Detected call of `lr_scheduler.step\\(\\)` before `optimizer.step\\(\\)`.*",
    ):
        warnings.filterwarnings("ignore", message=message)
