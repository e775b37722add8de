"""Checkpoints from which a run goes on to the same bits, and weights to finish from.

A checkpoint is taken only when an optimiser window is closed and the validation due after it is done, so that it holds
no gradient and no half-finished pass; random numbers are drawn from (seed, epoch, window, microbatch, rank), so none
needs saving. The file is written whole or not at all and read with ``weights_only=True``: nothing in it runs code.
"""

from __future__ import annotations

import io
import pickle
import time
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping

from zoo.core.averaging import Averaging
from zoo.core.callbacks import RunLog
from zoo.core.faults import fault
from zoo.core.files import write_atomic
from zoo.core.module import ZooModule
from zoo.core.ranks import is_main
from zoo.errors import BundleError

VERSION = 1
NAME = "last.ckpt"


@dataclass(frozen=True)
class SaveEvery:
    """How often a checkpoint is written beside those at a signal and at the end; None means not."""

    steps: int | None = None
    minutes: float | None = 5.0


class StopFitError(Exception):
    """The fit was asked to stop; everything is saved."""


class Checkpoints(Callback):
    """Saves ``last.ckpt`` when it is due, restores a run from one, and ends a run that was asked to stop.

    It must stand last among the callbacks, so that what it saves is what the others have finished.

    Parameters
    ----------
    folder
        Run folder, or None to keep the last state in memory only.
    every
        How often to save.
    tag
        What the run is, by name; a checkpoint carries it.
    """

    def __init__(self, folder: Path | None, every: SaveEvery | None = None, tag: dict[str, str] | None = None) -> None:
        self.path = None if folder is None else folder / NAME
        self.every = every or SaveEvery()
        self.tag = tag or {}
        self.resume: dict[str, Any] | None = None
        self.state: dict[str, Any] = {}
        self.last_lap = 0
        self.saved_at = time.monotonic()

    def on_train_start(self, trainer: L.Trainer, pl_module: ZooModule) -> None:
        """Put optimiser, schedule, averages and patience where the checkpoint left them."""
        self.saved_at = time.monotonic()
        if self.resume is None:
            return
        state = self.resume
        trainer.optimizers[0].load_state_dict(state["optimizer"])
        scheduler = trainer.lr_scheduler_configs[0].scheduler
        scheduler.load_state_dict(state["scheduler"])
        # The same rate to the bit, unless the run was made longer.
        for group, factor in zip(trainer.optimizers[0].param_groups, scheduler.lr_lambdas, strict=True):
            group["lr"] = group["initial_lr"] * factor(scheduler.last_epoch)
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is not None and state["scaler"] is not None:
            scaler.load_state_dict(state["scaler"])
        averaging = _find(trainer, Averaging)
        if averaging is not None and state["averaged"] is not None:
            averaging.restore(state["averaged"])
        stopping = _find(trainer, EarlyStopping)
        if stopping is not None and state["stopping"] is not None:
            stopping.load_state_dict(state["stopping"])
            stopping.patience = pl_module.train_spec.patience or stopping.patience
        log = _find(trainer, RunLog)
        if log is not None:
            log.restore(state["rows"])

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: ZooModule,
        outputs: Any,  # noqa: ARG002
        batch: Any,  # noqa: ARG002
        batch_idx: int,  # noqa: ARG002
    ) -> None:
        """Save if it is due and no validation is; stop if asked to."""
        if self.every.minutes is not None and time.monotonic() - self.saved_at >= 60 * self.every.minutes:
            pl_module.request_save("time")
        if pl_module.lap_done:
            return
        if pl_module.out_of_time:
            trainer.should_stop = True  # Lightning validates once more, and the end of the lap saves
            return
        signals = pl_module.signals
        if signals is not None and (signals.stop or self._due(pl_module)):
            self._save(trainer, pl_module, "fit")
            self._end_if_asked(pl_module)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: ZooModule) -> None:
        """Save at the end of a lap if it is due, and always at the end of the run."""
        fault("lap-end")
        stopped = "finished" if self._at_end(pl_module) else "early" if trainer.should_stop else ""
        if pl_module.out_of_time and stopped != "finished":
            stopped = "budget"
            trainer.should_stop = True
        if stopped == "early":
            fault("early-stopped")
        signals = pl_module.signals
        if stopped or self._due(pl_module) or (signals is not None and signals.stop):
            self._save(trainer, pl_module, "finalise" if stopped else "fit", stopped)
        self._end_if_asked(pl_module)

    def _at_end(self, module: ZooModule) -> bool:
        return module.loader is not None and module.loader.epoch >= module.train_spec.epochs

    def _due(self, module: ZooModule) -> bool:
        by_step = self.every.steps is not None and module.step % self.every.steps == 0
        return by_step or (module.signals is not None and module.signals.save)

    def _end_if_asked(self, module: ZooModule) -> None:
        if module.signals is not None and module.signals.stop:
            raise StopFitError(module.asked["stop"] or "another process was asked to")

    def _save(self, trainer: L.Trainer, module: ZooModule, phase: str, stopped: str = "") -> None:
        self.state = capture(trainer, module, phase=phase, stopped=stopped, tag=self.tag)
        module.asked["save"] = ""
        self.saved_at = time.monotonic()
        if self.path is not None and is_main():
            write_checkpoint(self.path, self.state)
            fault("checkpoint-written")


def capture(trainer: L.Trainer, module: ZooModule, *, phase: str, stopped: str, tag: dict[str, str]) -> dict[str, Any]:
    """Return everything that a run needs to go on, as plain values and tensors."""
    averaging, stopping, log = _find(trainer, Averaging), _find(trainer, EarlyStopping), _find(trainer, RunLog)
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    loader = module.loader
    return {
        "version": VERSION,
        "phase": phase,
        "stopped": stopped,
        "tag": tag,
        "step": module.step,
        "place": None if loader is None else [loader.epoch, loader.start_window],
        "sizes": module.sizes,
        "network": module.network.state_dict(),
        "optimizer": trainer.optimizers[0].state_dict(),
        "scheduler": trainer.lr_scheduler_configs[0].scheduler.state_dict(),
        "scaler": None if scaler is None else scaler.state_dict(),
        "averaged": None if averaging is None else averaging.state(),
        "averaged_weights": None if averaging is None else averaging.weights(),
        "best": module.best,
        "reference": module.watch.reference,
        "step_losses": module.step_losses,
        "last": {"grad_norm": module.grad_norm, "lr": module.lr, "epoch": module.epoch},
        # Lightning's count of epochs starts anew with every process, and nothing reads it.
        "stopping": None if stopping is None else {**stopping.state_dict(), "stopped_epoch": 0},
        "rows": [] if log is None else log.rows,
        "elapsed": module.elapsed(),
    }


def restore(module: ZooModule, state: dict[str, Any]) -> None:
    """Put a module, but for what its trainer holds, where a checkpoint left it."""
    module.network.load_state_dict(state["network"])
    module.step = state["step"]
    module.sizes = state["sizes"]
    module.best = state["best"]
    module.watch.reference = list(state["reference"])
    module.step_losses = list(state["step_losses"])
    module.grad_norm, module.lr = state["last"]["grad_norm"], state["last"]["lr"]
    module.epoch = state["last"]["epoch"]
    module.elapsed_before = state["elapsed"]
    if module.loader is not None and state["place"] is not None:
        module.loader.epoch, module.loader.start_window = state["place"]


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint whole or not at all."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomic(path, buffer.getvalue())


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return the state in a checkpoint; no code in it is run.

    Raises
    ------
    BundleError
        If the file is cut short, holds anything but tensors and plain values, or is of another version.
    """
    data = io.BytesIO(path.read_bytes())
    if not data.getbuffer().nbytes:
        raise BundleError(f"{path} is empty. Remove it to start the run anew.")
    try:
        _check_bytes(data)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*pickle protocol.*")
            state = torch.load(data, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise BundleError(
            f"{path} holds something that is neither a tensor nor a plain value, so it was not loaded and none of its "
            "code was run. It is no checkpoint of scizoo: take a copy of the run from a source you trust."
        ) from error
    except Exception as error:
        raise BundleError(
            f"{path} is damaged or cut short: {_first_line(error)}. Remove it to start the run anew."
        ) from error
    if not isinstance(state, dict) or state.get("version") != VERSION:
        found = state.get("version") if isinstance(state, dict) else None
        raise BundleError(f"{path} is a checkpoint of version {found}; this version of scizoo reads {VERSION}.")
    return state


def _first_line(error: Exception) -> str:
    """Return what a reader says before it goes into its own insides."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].partition(". ")[0].rstrip(".")


def _check_bytes(data: io.BytesIO) -> None:
    """Raise if the checksum of a part of the file, a zip archive, is wrong; torch itself does not look at them."""
    if zipfile.is_zipfile(data):
        data.seek(0)
        with zipfile.ZipFile(data) as archive:
            wrong = archive.testzip()
        if wrong is not None:
            raise ValueError(f"the checksum of {wrong} is wrong")
    data.seek(0)


def _find(trainer: L.Trainer, kind: type[Any]) -> Any:
    return next((c for c in trainer.callbacks if isinstance(c, kind)), None)
