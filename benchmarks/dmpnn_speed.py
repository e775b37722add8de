"""How fast D-MPNN trains and predicts beside chemprop 2.3.1, at chemprop's default size on the ``bbb`` molecules.

    python benchmarks/dmpnn_speed.py --chemprop-python PATH/TO/python    (an environment with chemprop==2.3.1)

Both sides run in a process of their own, keep their featurised molecules in memory, and take turns, so that a change
of the machine's mood meets both. Training is one epoch through each side's own loader, module and Lightning trainer;
prediction goes from SMILES strings to numbers, featurisation included. The two strings that RDKit refuses are left
out for both, since chemprop stops at them. The results go to ``benchmarks/results/dmpnn_speed.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
from rdkit import Chem, rdBase

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "dmpnn_speed.json"
DATA = HERE.parent / "datasets" / "bbb" / "bbb.csv"


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


def molecules() -> dict[str, list[Any]]:
    """Return the SMILES strings that RDKit reads, and their labels as 0 and 1."""
    table = pd.read_csv(DATA)
    with rdBase.BlockLogs():
        legal = [Chem.MolFromSmiles(s) is not None for s in table["smiles"]]
    table = table[legal]
    return {"smiles": table["smiles"].tolist(), "labels": (table["bbb"] == "BBB+").astype(float).tolist()}


def measure(workers: dict[str, Worker], repetitions: int) -> dict[str, dict[str, list[float]]]:
    """Return molecules per second of every action, side and repetition; the first of each, unmeasured, warms up."""
    rates: dict[str, dict[str, list[float]]] = {}
    for action in ("train", "predict"):
        rates[action] = {side: [] for side in workers}
        for repetition in range(repetitions + 1):
            for side, worker in workers.items():
                found = worker.ask(action)
                if repetition:
                    rates[action][side].append(found["molecules"] / found["seconds"])
            print(action, {side: [round(r) for r in values[-1:]] for side, values in rates[action].items()}, flush=True)
    return rates


def summarise(rates: dict[str, dict[str, list[float]]], facts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return medians, the ratio of medians, and the median of the ratios of neighbouring runs."""
    found: dict[str, Any] = {}
    for action, sides in rates.items():
        pairs = [a / b for a, b in zip(sides["zoo"], sides["chemprop"], strict=True)]
        medians = {side: statistics.median(values) for side, values in sides.items()}
        found[action] = {
            "molecules_per_second": {side: round(value, 1) for side, value in medians.items()},
            "ratio_of_medians": round(medians["zoo"] / medians["chemprop"], 2),
            "median_of_paired_ratios": round(statistics.median(pairs), 2),
            "repetitions": {side: [round(r, 1) for r in values] for side, values in sides.items()},
        }
    zoo = facts["zoo"]
    rate = zoo["flop_per_molecule"] * statistics.median(rates["train"]["zoo"])
    found["train"]["share_of_matrix_product_peak"] = round(rate / zoo["peak_flop_per_second"], 3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chemprop-python", required=True, help="python of an environment with chemprop 2.3.1")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    given, before = molecules(), round(os.getloadavg()[0], 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "molecules.json"
        path.write_text(json.dumps(given))
        tail = [str(path), str(args.threads)]
        workers = {
            "zoo": Worker([sys.executable, str(HERE / "zoo_speed_worker.py"), *tail], args.threads),
            "chemprop": Worker([args.chemprop_python, str(HERE / "chemprop_speed_worker.py"), *tail], args.threads),
        }
        rates = measure(workers, args.repetitions)
        memory = {side: worker.peak_kib // 1024 for side, worker in workers.items()}
        for worker in workers.values():
            worker.process.terminate()
    facts = {side: worker.facts for side, worker in workers.items()}
    result = {
        "molecules": len(given["smiles"]),
        "batch_size": 64,
        "threads": args.threads,
        "load_average": {"before": before, "after": round(os.getloadavg()[0], 2)},
        **summarise(rates, facts),
        "peak_memory_mib": memory,
        "sides": facts,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "sides"}, indent=2))


if __name__ == "__main__":
    main()
