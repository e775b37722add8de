"""Callbacks of a fit: validation scores, the run's CSV files, plain progress, a gentle interrupt."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import lightning as L
from lightning.pytorch.callbacks import Callback

from zoo.core.files import csv_text, write_atomic
from zoo.core.module import ZooModule
from zoo.core.ranks import is_main
from zoo.core.throughput import Meter

TIMING = ("seconds", "items_per_second", "size_per_second", "share_of_peak")
"""Columns of the log that are read off a clock, so that no two runs share them."""


def _is_timing(column: str) -> bool:
    """Whether a column of the log stands in ``timing.csv``: speeds, and the rate of every group of parameters."""
    return column in TIMING or column.startswith("lr/")


class ValidationScores(Callback):
    """Scores a validation pass. It must stand before weight averaging, which puts the raw weights back."""

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: ZooModule) -> None:
        """Score the pass and log it."""
        if not trainer.sanity_checking:
            pl_module.logged = pl_module.finish_validation()
            pl_module.log_dict(pl_module.logged, batch_size=1)


class RunLog(Callback):
    """Writes ``metrics.csv`` (deterministic values, one row per validation) and ``timing.csv``.

    A row of ``timing.csv`` has the seconds of training so far, the speed of the steps since the last row (see
    :class:`zoo.core.throughput.Meter`), and the last rate of every group of parameters.

    The rows live here and in the checkpoint; a resumed run goes on from those of its checkpoint. Only rank 0 writes.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.rows: list[dict[str, float]] = []
        self.meter = Meter()

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: ZooModule) -> None:  # noqa: ARG002
        """Start the clock of a lap."""
        self.meter.begin(pl_module.loader)

    def on_train_batch_end(
        self,
        trainer: L.Trainer,  # noqa: ARG002
        pl_module: ZooModule,  # noqa: ARG002
        outputs: Any,  # noqa: ARG002
        batch: Any,  # noqa: ARG002
        batch_idx: int,  # noqa: ARG002
    ) -> None:
        """Count a step."""
        self.meter.step()

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: ZooModule) -> None:
        """Add the row of the steps since the last one, and write both files."""
        steps = pl_module.step_losses
        values: dict[str, float] = {"step": pl_module.step, "epoch": pl_module.epoch}
        if trainer.enable_validation:
            values |= pl_module.logged
        if steps:
            values |= {
                "train_loss": sum(steps) / len(steps),
                "grad_norm": pl_module.grad_norm,
                "lr": pl_module.lr,
            }
            pl_module.log("train_loss", values["train_loss"], batch_size=1)
        values.pop("val_monitor", None)
        values["seconds"] = round(pl_module.elapsed(), 3)
        speed = self.meter.rates(pl_module.loader)
        pl_module.log_dict(speed, batch_size=1)
        values |= speed | {f"lr/{name}": rate for name, rate in pl_module.rates.items()}
        self.rows.append(values)
        pl_module.step_losses = []
        self.write()

    def restore(self, rows: list[dict[str, float]]) -> None:
        """Take up the rows of a checkpoint, and cut the files to them."""
        self.rows = [dict(row) for row in rows]
        self.write()

    def write(self) -> None:
        """Write both files, each whole or not at all."""
        if self.folder is None or not is_main():
            return
        for name, timed in (("metrics.csv", False), ("timing.csv", True)):
            columns = [
                k for k in dict.fromkeys(k for row in self.rows for k in row if k != "step") if _is_timing(k) == timed
            ]
            rows = [[row["step"], *[row.get(c, "") for c in columns]] for row in self.rows]
            write_atomic(self.folder / name, csv_text(["step", *columns], rows).encode())


class PlainProgress(Callback):
    """One line now and then with an estimate of the time left, where no progress bar can be drawn."""

    def __init__(self, every_seconds: float = 5.0) -> None:
        self.every = every_seconds
        self.started = self.last = time.monotonic()

    def on_train_start(self, trainer: L.Trainer, pl_module: ZooModule) -> None:  # noqa: ARG002
        """Start the clock."""
        self.started = self.last = time.monotonic()
        self.first = pl_module.step

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: ZooModule) -> None:
        """Print at most one line per interval."""
        now = time.monotonic()
        if now - self.last < self.every:
            return
        self.last = now
        done, total = pl_module.step - self.first, pl_module.total_steps - self.first
        left = (now - self.started) / max(done, 1) * (total - done)
        if pl_module.budget_seconds is not None:
            left = min(left, pl_module.budget_seconds - pl_module.elapsed())
        values = trainer.callback_metrics
        shown = [
            f"{k} {float(values[k]):.4g}" for k in ("train_loss", "val_loss", f"val_{pl_module.monitor}") if k in values
        ]
        if "items_per_second" in values:
            shown.append(f"{float(values['items_per_second']):.4g} items/s")
        if "share_of_peak" in values:
            shown.append(f"{float(values['share_of_peak']):.2%} of peak")
        at = f"epoch {pl_module.epoch + 1}/{pl_module.train_spec.epochs}"
        print(f"{at}  {'  '.join(dict.fromkeys(shown))}  {max(left, 0):.0f} s left", file=sys.stderr)  # noqa: T201


class Interrupt(Callback):
    """Turns signals into requests that are met when the window in work is closed.

    The first Ctrl-C or SIGTERM saves and stops; the same again, more than a second later, interrupts at once. SIGUSR1
    (a cluster's warning) saves and goes on. Lightning's own handlers, which act inside a window, are put aside.
    """

    def __init__(self, module: ZooModule) -> None:
        self.module = module
        self._first: dict[int, float] = {}
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGUSR1", None)):
            if number is not None:
                try:
                    self._before[number] = signal.signal(number, self._handle)
                except ValueError:  # not the main thread: a notebook's or a server's business
                    continue
        return self

    def on_train_start(self, trainer: L.Trainer, pl_module: ZooModule) -> None:  # noqa: ARG002
        """Take the signals back from Lightning, which has laid its handlers over ours by now."""
        for number in self._before:
            signal.signal(number, self._handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        name = signal.Signals(number).name
        if name == "SIGUSR1":
            self.module.request_save(name)
            return
        # Ctrl-C reaches a job's processes from the terminal and from their launcher, perhaps under another name.
        if time.monotonic() - self._first.setdefault(number, time.monotonic()) > 1.0:
            raise KeyboardInterrupt
        self.module.request_stop(name)
