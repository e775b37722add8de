"""Measures whether it pays to freeze the garbage collector's objects after the first step of a fit.

``python benchmarks/gc_freeze.py [ROUNDS]`` fits ``freesolv`` by its own recipe, in turns as it is, as it is once more
(the control: what two equal fits differ by is noise), and with everything that lives after the first step frozen
(``gc.collect``, ``gc.freeze``; thawed at the end). Written to ``benchmarks/results/gc_freeze.json``. Seconds are this
process's own CPU time; those inside the collector are taken from its callbacks, and bound what freezing itself saves.
"""

from __future__ import annotations

import gc
import itertools
import json
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import lightning as L
import torch

import zoo
from zoo.core.fit import fit, make_trainer
from zoo.specs.catalog import Catalog
from zoo.specs.resolve import resolve
from zoo.workflows.build import folder_of, prepare

TASK, EPOCHS, SEED, THREADS = "freesolv", 20, 0, 1
ARMS = ("as_it_is", "control", "frozen")
RESULT = Path(__file__).parent / "results" / "gc_freeze.json"


class Meter(L.Callback):
    """CPU seconds from the end of the first step to the end of the last one; freezes after the first if asked."""

    def __init__(self, *, freeze: bool) -> None:
        self.freeze = freeze
        self.steps = 0
        self.began = self.ended = 0.0
        self.collecting = self.started = 0.0
        self.collections = [0, 0, 0]

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Count a step."""
        self.steps += 1
        if self.steps > 1:
            self.ended = time.process_time()
            return
        if self.freeze:
            gc.collect()
            gc.freeze()
        gc.callbacks.append(self.watch)
        self.began = time.process_time()

    def watch(self, phase: str, info: dict[str, int]) -> None:
        """Add up what the collector does."""
        if phase == "start":
            self.started = time.process_time()
        else:
            self.collecting += time.process_time() - self.started
            self.collections[info["generation"]] += 1

    def close(self) -> dict[str, Any]:
        """Thaw, and return what was measured."""
        gc.callbacks.remove(self.watch)
        if self.freeze:
            gc.unfreeze()
        steps = self.steps - 1
        return {
            "steps_per_second": steps / (self.ended - self.began),
            "collector_share": self.collecting / (self.ended - self.began),
            "collections_per_100_steps": [100 * n / steps for n in self.collections],
        }


def once(*, freeze: bool) -> dict[str, Any]:
    catalog = Catalog()
    task = catalog.task(TASK)
    flags = {"train.epochs": EPOCHS, "seed": SEED, "device": "cpu"}
    run = resolve(task, catalog.dataset(task.dataset), threads=THREADS, flags=flags)
    prepared = prepare(run, folder=folder_of(run, catalog))
    meter = Meter(freeze=freeze)
    trainer = make_trainer(prepared.module, folder=None, device="cpu")
    trainer.callbacks.append(meter)
    fit(prepared.module, prepared.datamodule, trainer)
    return meter.close()


def main(rounds: int) -> None:
    once(freeze=False)  # what is done once in a process
    orders = list(itertools.permutations(ARMS))
    found: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    for number in range(rounds):
        for arm in orders[number % len(orders)]:
            found[arm].append(once(freeze=arm == "frozen"))
    result = {
        "what": "optimiser steps per CPU second with and without gc.freeze() after the first step",
        "task": TASK,
        "seed": SEED,
        "threads": THREADS,
        "epochs": EPOCHS,
        "rounds": rounds,
        **{arm: summary(runs) for arm, runs in found.items()},
        "gain_of_control": gain(found["as_it_is"], found["control"]),
        "gain_of_freezing": gain(found["as_it_is"], found["frozen"]),
        "python": platform.python_version(),
        "versions": {"scizoo": zoo.__version__, "torch": torch.__version__, "lightning": L.__version__},
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def gain(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[str, Any]:
    """Return by how much the steps per second of one arm exceed those of another in the same round."""
    gains = [b["steps_per_second"] / a["steps_per_second"] - 1 for a, b in zip(before, after, strict=True)]
    quartiles = [round(q, 4) for q in statistics.quantiles(gains, n=4)[::2]]
    return {"median": round(statistics.median(gains), 4), "quartiles": quartiles}


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians over runs."""
    by_generation = zip(*(r["collections_per_100_steps"] for r in runs), strict=True)
    return {
        "steps_per_second": round(statistics.median(r["steps_per_second"] for r in runs), 2),
        "collector_share": round(statistics.median(r["collector_share"] for r in runs), 5),
        "collections_per_100_steps": [round(statistics.median(n), 2) for n in by_generation],
    }


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 18)
