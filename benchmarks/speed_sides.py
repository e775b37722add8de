"""Two sides of a comparison of speed, each in a process of its own, taking turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Worker:
    """One side: a process that is told what to do next."""

    def __init__(self, command: list[str], threads: int) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(HERE.parent)}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        self.facts = self.answer()
        self.peak_kib = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Remember the most memory that the process and its children held together (Linux)."""
        while self.process.poll() is None:
            self.peak_kib = max(self.peak_kib, sum(map(proportional_kib, family(self.process.pid))))
            time.sleep(0.1)

    def answer(self) -> dict[str, Any]:
        """Return the next line of the worker."""
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise SystemExit(f"{self.process.args!r} ended without an answer")
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, command: str) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        if self.process.stdin is None:
            raise SystemExit("the worker cannot be reached")
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(member for child in children for member in family(int(child)))]


def proportional_kib(pid: int) -> int:
    """Return a process' memory; pages that it shares count by its share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def measure(
    workers: dict[str, Worker], actions: Sequence[str], repetitions: int, *, warm_up: str = "{}"
) -> dict[str, dict[str, list[float]]]:
    """Return items per second of every action, side and repetition, after ``warm_up`` with the action in it."""
    rates: dict[str, dict[str, list[float]]] = {}
    for action in actions:
        rates[action] = {side: [] for side in workers}
        for worker in workers.values():
            worker.ask(warm_up.format(action))
        for _ in range(repetitions):
            for side, worker in workers.items():
                found = worker.ask(action)
                rates[action][side].append(found["items"] / found["seconds"])
            print(action, {side: [round(r, 1) for r in v[-1:]] for side, v in rates[action].items()}, flush=True)
    return rates


def summarise(rates: dict[str, dict[str, list[float]]], items: str) -> dict[str, dict[str, Any]]:
    """Return medians, their ratio (first side to second), and the median of the ratios of neighbouring runs."""
    found: dict[str, dict[str, Any]] = {}
    for action, sides in rates.items():
        (ours, first), (theirs, second) = sides.items()
        medians = {side: statistics.median(values) for side, values in sides.items()}
        found[action] = {
            f"{items}_per_second": {side: round(value, 1) for side, value in medians.items()},
            "ratio_of_medians": round(medians[ours] / medians[theirs], 2),
            "median_of_paired_ratios": round(statistics.median(a / b for a, b in zip(first, second, strict=True)), 2),
            "repetitions": {side: [round(r, 1) for r in values] for side, values in sides.items()},
        }
    return found
