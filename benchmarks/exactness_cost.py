"""What exactness costs: seconds inside the functions that it takes beside the seconds of the steps.

    python benchmarks/exactness_cost.py

Trains ``freesolv`` by its own recipe in one process for at least 500 optimiser steps and times, in the real trainer,
every function that a careless loop would not have: counting a window's labels, sharing counts and flags, dividing by
them, seeding each microbatch, adding the losses, summing over ranks, and the checks of outputs, of unused parameters,
and of losses and gradient (all of the hook before the update but for clipping). A step runs from the start of one
window to the start of the next, with the loading of its data and without validations.

Masks cannot be told apart from the loss that they stand in, so the seconds of the whole loss function are shown beside
the others, ``loss_seconds``, and not added. Written to ``benchmarks/results/exactness_cost.json``.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import lightning as L
import torch

import zoo
from zoo.core import datamodule, module
from zoo.core.fit import fit, make_trainer
from zoo.core.losses import MaskedLoss
from zoo.core.module import ZooModule
from zoo.specs.catalog import Catalog
from zoo.specs.resolve import resolve
from zoo.workflows.build import folder_of, prepare

RESULTS = Path(__file__).parent / "results" / "exactness_cost.json"
TASK, EPOCHS, SEED, THREADS = "freesolv", 60, 0, 1
PLACES = [
    (datamodule, "with_counts"),
    (module, "exchange"),
    (module, "step_loss"),
    (module, "_total"),
    (module, "sum_gradients"),
    (ZooModule, "reseed"),
    (ZooModule, "_check_outputs"),
    (ZooModule, "_check_used"),
    (ZooModule, "on_before_optimizer_step"),
]
CLIPPING = (torch.nn.utils, "clip_grad_norm_")
LOSS = (MaskedLoss, "__call__")


class Clock(L.Callback):
    """Adds up the seconds of steps: from a window's fetch to the end of its work."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.last = 0.0

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:  # noqa: ARG002
        """Start at the fetch of the first window."""
        self.last = time.perf_counter()

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Count a step, and start the next."""
        now = time.perf_counter()
        self.seconds.append(now - self.last)
        self.last = now


def timed(owner: Any, name: str, spent: dict[str, float]) -> None:
    """Replace a function by itself with a stopwatch."""
    function: Callable[..., Any] = getattr(owner, name)
    spent[name] = 0.0

    @wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent[name] += time.perf_counter() - started

    setattr(owner, name, watched)


def main() -> None:
    catalog = Catalog()
    task = catalog.task(TASK)
    flags = {"train.epochs": EPOCHS, "seed": SEED, "device": "cpu", "baseline": False}
    run = resolve(task, catalog.dataset(task.dataset), threads=THREADS, flags=flags)
    prepared = prepare(run, folder=folder_of(run, catalog))
    spent: dict[str, float] = {}
    others: dict[str, float] = {}
    for owner, name in PLACES:
        timed(owner, name, spent)
    for owner, name in (CLIPPING, LOSS):
        timed(owner, name, others)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(prepared.module, folder=Path(folder), device="cpu")
        trainer.callbacks.insert(0, clock)
        result = fit(prepared.module, prepared.datamodule, trainer)
    spent["on_before_optimizer_step"] -= others[CLIPPING[1]]
    share = sum(spent.values()) / sum(clock.seconds)
    found = {
        "what": "seconds inside the functions that exactness takes / seconds of the optimiser steps",
        "task": TASK,
        "architecture": prepared.architecture,
        "split": prepared.split.hash,
        "seed": SEED,
        "threads": THREADS,
        "steps": result.steps,
        "step_seconds": round(sum(clock.seconds), 4),
        "function_seconds": {name: round(seconds, 5) for name, seconds in spent.items()},
        "loss_seconds": round(others[LOSS[1]], 5),
        "share": round(share, 5),
        "versions": {"scizoo": zoo.__version__, "torch": torch.__version__, "lightning": L.__version__},
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{100 * share:.2f} % of {sum(clock.seconds):.1f} s over {result.steps} steps -> {RESULTS}")


if __name__ == "__main__":
    main()
