"""Measure the numbers of the README and write them to ``cards/results.csv``.

    python benchmarks/run.py                          everything that is not there yet
    python benchmarks/run.py --task freesolv          one task
    python benchmarks/run.py --again                  measure again
    python benchmarks/run.py --chemprop-python PY     also chemprop, in an environment of its own
                                                      (pip install chemprop==2.3.1)

``ZOO_RESULTS`` names another file to write (``--merge FILE`` adds its rows to the first).
A run that is in the file already is skipped, so a stop loses at most one run. Data sets with a url are found through
``ZOO_MIRROR`` or the net.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from suite import SUITE, Series

import zoo
from zoo.core.evaluation import make_outcome
from zoo.core.metrics import score
from zoo.errors import ZooError
from zoo.resources import mirror_dir
from zoo.specs.catalog import Catalog
from zoo.specs.resolve import resolve
from zoo.workflows.build import Prepared, folder_of, prepare
from zoo.workflows.results import add_results, add_run, read_results, rows_of

RESULTS = Path(os.environ.get("ZOO_RESULTS") or Path(__file__).parents[1] / "cards" / "results.csv")
CHEMPROP_EPOCHS = 50


def has(model: str, task: str, seed: int) -> bool:
    rows = read_results(RESULTS)
    return any((r["model"], r["task"], r["seed"], r["split_seed"]) == (model, task, str(seed), str(seed)) for r in rows)


def measure(series: Series, *, again: bool) -> None:
    catalog = Catalog()
    task = catalog.task(series.task)
    label = series.label or task.recipe.model.architecture or task.models[0]
    for seed in series.seeds:
        if not again and has(label, series.task, seed):
            continue
        work = Path(tempfile.mkdtemp(prefix="zoo-bench-"))
        settings = {"seed": seed, "split_seed": seed, "baseline": series.baselines, **series.settings}
        try:
            started = time.monotonic()
            where = {"settings": settings, "out": work / "run", "mirror": mirror_dir()}
            if series.start is None:
                run = zoo.train(series.task, **where)
            else:
                run = zoo.finetune(series.start, series.task, **where)
            add_run(RESULTS, run.folder, series.label)
            shown = {n: round(s[task.primary.name].value or float("nan"), 4) for n, s in run.metrics.items()}
            print(f"{series.task} {label} seed {seed}: {shown} ({time.monotonic() - started:.0f} s)", flush=True)
        except ZooError as error:
            print(f"{series.task}: {error}", flush=True)
            return
        finally:
            shutil.rmtree(work, ignore_errors=True)


def measure_chemprop(series: Series, python: str, *, again: bool) -> None:
    """Train chemprop with its defaults on the very rows and parts of our run, and score it by our metrics."""
    catalog = Catalog()
    task = catalog.task(series.task)
    version = subprocess.run(
        [python, "-c", "from importlib.metadata import version; print(version('chemprop'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    name = f"chemprop-{version}"
    for seed in series.seeds:
        if not again and has(name, series.task, seed):
            continue
        run = resolve(
            task,
            catalog.dataset(task.dataset),
            threads=2,
            flags={"seed": seed, "split_seed": seed, "baseline": False},
        )
        prepared = prepare(run, folder=folder_of(run, catalog), mirror=mirror_dir())
        started = time.monotonic()
        work = Path(tempfile.mkdtemp(prefix="zoo-chemprop-"))
        try:
            pred = chemprop_predictions(prepared, python, seed, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        (target,) = task.targets
        outcome = make_outcome(target, pred[:, None], prepared.labels("test")[target.name])
        scores = {m.name: score(m.name, [outcome]).model_dump() for m in task.metrics}
        result = {
            "task": task.name,
            "model": name,
            "split": {"method": prepared.split.method, "seed": seed, "sha256": prepared.split.hash},
            "seed": seed,
            "parameters": "",
            "seconds": round(time.monotonic() - started, 2),
            "metrics": {"model": scores},
            "packages": {"chemprop": version},
        }
        rows = rows_of(result)
        add_results(RESULTS, rows)
        print(f"{series.task} {name} seed {seed}: {rows[0]['metric']} {rows[0]['value']}", flush=True)


def chemprop_predictions(prepared: Prepared, python: str, seed: int, work: Path) -> np.ndarray:
    records = prepared.data.records
    (target,) = prepared.run.task.targets
    labels = records.labels[target.name]
    part_of = {int(i): name for name, part in prepared.parts.items() for i in part}
    rows = [[records.inputs[i], float(labels.values[i, 0]), part] for i, part in sorted(part_of.items())]
    write_csv(work / "data.csv", ["smiles", "y", "split"], rows)
    command = [
        str(Path(python).with_name("chemprop")),
        "train",
        *("--data-path", str(work / "data.csv"), "--smiles-columns", "smiles", "--target-columns", "y"),
        *("--task-type", "regression" if target.kind == "regression" else "classification"),
        *("--splits-column", "split", "--epochs", str(CHEMPROP_EPOCHS)),
        *("--pytorch-seed", str(seed), "--data-seed", str(seed), "--output-dir", str(work / "out")),
        *("--accelerator", "cpu", "--num-workers", "0"),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"chemprop failed:\n{done.stderr[-3000:]}")
    (found,) = (work / "out").rglob("test_predictions.csv")
    with found.open(newline="") as handle:
        by_smiles = {row["smiles"]: float(row["y"]) for row in csv.DictReader(handle)}
    return np.array([by_smiles[records.inputs[i]] for i in prepared.parts["test"]])


def write_csv(path: Path, header: list[str], rows: list[list]) -> None:
    with path.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(header)
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", action="append", help="only this task; repeat for several")
    parser.add_argument("--again", action="store_true", help="measure what is in the file already")
    parser.add_argument("--chemprop-python", help="python of an environment with chemprop")
    parser.add_argument("--only-chemprop", action="store_true")
    parser.add_argument("--merge", type=Path, help="add the rows of another results file, and stop")
    args = parser.parse_args()
    if args.merge:
        add_results(RESULTS, read_results(args.merge))
        return
    for series in SUITE:
        if args.task and series.task not in args.task:
            continue
        if not args.only_chemprop:
            measure(series, again=args.again)
        if series.chemprop and args.chemprop_python:
            measure_chemprop(series, args.chemprop_python, again=args.again)
    print(json.dumps({"rows": len(read_results(RESULTS))}))


if __name__ == "__main__":
    main()
