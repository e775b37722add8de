"""Callbacks and the logger of a fit: validation scores, the run's CSV files, plain progress, a gentle interrupt."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import lightning as L
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers.logger import Logger

from zoo.core.files import csv_text, write_atomic
from zoo.core.module import ZooModule

_TIMING = frozenset({"seconds"})


class ValidationScores(Callback):
    """Scores a validation pass. It must stand before weight averaging, which puts the raw weights back."""

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: ZooModule) -> None:
        """Score the pass and log it."""
        if not trainer.sanity_checking:
            pl_module.log_dict(pl_module.finish_validation(), batch_size=1)


class TrainLoss(Callback):
    """Logs the mean loss of an epoch's steps, the last gradient norm and the learning rate."""

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: ZooModule) -> None:  # noqa: ARG002
        """Log and forget."""
        steps = pl_module.step_losses
        if steps:
            values = {
                "train_loss": sum(steps) / len(steps),
                "grad_norm": pl_module.grad_norm,
                "lr": pl_module.lr,
            }
            pl_module.log_dict(values, batch_size=1, on_step=False, on_epoch=True)
            pl_module.step_losses = []


class RunLogger(Logger):
    """Writes ``metrics.csv`` (deterministic values, one row per step logged) and ``timing.csv``.

    Values arrive in pieces (validation, learning rate, training loss) and are joined by step.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.rows: dict[int, dict[str, Any]] = {}
        self.started = time.monotonic()

    name = "zoo"
    version = ""

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: ``run.json`` holds them."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Join the values to the row of their step."""
        row = self.rows.setdefault(int(step or 0), {})
        row.update({k: v for k, v in metrics.items() if k != "val_monitor"})
        row.setdefault("seconds", round(time.monotonic() - self.started, 3))

    def save(self) -> None:
        """Write both files, each whole or not at all."""
        for name, timed in (("metrics.csv", False), ("timing.csv", True)):
            columns = list(dict.fromkeys(k for row in self.rows.values() for k in row if (k in _TIMING) == timed))
            rows = [[step, *[row.get(c, "") for c in columns]] for step, row in sorted(self.rows.items())]
            write_atomic(self.folder / name, csv_text(["step", *columns], rows).encode())

    def finalize(self, status: str) -> None:  # noqa: ARG002
        """Write what there is."""
        self.save()


class PlainProgress(Callback):
    """One line now and then with an estimate of the time left, where no progress bar can be drawn."""

    def __init__(self, every_seconds: float = 5.0) -> None:
        self.every = every_seconds
        self.started = self.last = time.monotonic()

    def on_train_start(self, trainer: L.Trainer, pl_module: ZooModule) -> None:  # noqa: ARG002
        """Start the clock."""
        self.started = self.last = time.monotonic()

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: ZooModule) -> None:
        """Print at most one line per interval."""
        now = time.monotonic()
        if now - self.last < self.every:
            return
        self.last = now
        done, total = trainer.current_epoch + 1, trainer.max_epochs or 1
        left = (now - self.started) / done * (total - done)
        if pl_module.budget_seconds is not None:
            left = min(left, pl_module.budget_seconds - (now - self.started))
        values = trainer.callback_metrics
        shown = [
            f"{k} {float(values[k]):.4g}" for k in ("train_loss", "val_loss", f"val_{pl_module.monitor}") if k in values
        ]
        print(f"epoch {done}/{total}  {'  '.join(dict.fromkeys(shown))}  {max(left, 0):.0f} s left", file=sys.stderr)  # noqa: T201


class Interrupt:
    """Turns the first Ctrl-C (or SIGTERM) into a stop at the next closed window; a second one interrupts at once."""

    def __init__(self) -> None:
        self.received: str | None = None
        self.trainer: L.Trainer | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._handle)
            except ValueError:  # not the main thread: a notebook's or a server's business
                continue
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = signal.Signals(number).name
        if self.trainer is not None:
            self.trainer.should_stop = True
