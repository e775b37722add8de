"""A few rows of a data set, enough to verify a model on: a sample that holds every class and a long input."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from zoo.core.files import csv_text
from zoo.core.labels import parse_labels
from zoo.core.table import Table
from zoo.resources import sha256_of
from zoo.specs.dataset import DatasetSpec, FileSpec
from zoo.specs.run import RunSpec
from zoo.specs.target import NODE_LEVELS
from zoo.specs.task import SplitSpec, TaskSpec
from zoo.workflows.build import read_dataset

ROWS = 96
"""Rows that are taken, and some more where classes are rare."""
FEWEST = 24
"""Rows that are taken where all are long."""
LETTERS = 4800
"""Letters of all inputs together, about: what a network has to do grows with them."""
LONGEST = 250
"""Letters of the longest input, if one is as short."""
FILE = "rows.csv"
_OF_CLASS = 6
_FRACTIONS = {"train": 0.7, "val": 0.15, "test": 0.15}


def few_rows(run: RunSpec, data_folder: Path, folder: Path, mirror: Path | None) -> RunSpec:
    """Write some rows of a run's data to a file, and return the run on them."""
    table, _ = read_dataset(run.dataset, data_folder, mirror)
    rows = choose(table, run.task, run.dataset)
    cells = table.frame.iloc[rows].to_numpy().tolist()
    path = folder / FILE
    path.write_text(csv_text(table.columns, cells))
    file = FileSpec(name=FILE, sha256=sha256_of(path), bytes=path.stat().st_size, rows=len(rows))
    split = SplitSpec(method="random", fractions=_FRACTIONS)  # type: ignore[arg-type]
    return run.model_copy(
        update={
            "dataset": run.dataset.model_copy(update={"files": [file]}),
            "task": run.task.model_copy(update={"split": split}),
            "data_file": None,
            "budget_seconds": None,
            "on_invalid": "skip",
        }
    )


def choose(table: Table, task: TaskSpec, dataset: DatasetSpec) -> list[int]:
    """Return some rows: a random sample of inputs that are not too long, a few of every class, and a long input."""
    lengths = np.asarray([len(text) for text in table.column(dataset.by_role("input")[0].name)])
    order = np.random.default_rng(0).permutation(_short(lengths))
    chosen = set(order[: _count(lengths[order])].tolist())
    for target in task.targets:
        if target.kind not in ("binary", "multiclass") or target.level in NODE_LEVELS or target.objective == "masked":
            continue
        parsed = parse_labels(table.column(target.source), target, table)
        values, mask = parsed.values.reshape(-1)[order], parsed.mask.reshape(-1)[order]
        for label in np.unique(values[mask]):
            chosen |= set(order[(values == label) & mask][:_OF_CLASS].tolist())
    allowed = np.where(lengths <= LONGEST, lengths, -lengths)  # else the shortest of those that are longer
    return sorted(chosen | {int(np.argmax(allowed))})


def _short(lengths: np.ndarray) -> np.ndarray:
    """Return the rows in order but for the longest ones, so that as many as are taken hold few letters."""
    shortest = np.argsort(lengths, kind="stable")
    mean = np.cumsum(lengths[shortest]) / np.arange(1, len(lengths) + 1)
    rows: np.ndarray = np.sort(shortest[: max(ROWS, int((mean <= LETTERS / ROWS).sum()))])
    return rows


def _count(lengths: np.ndarray) -> int:
    return int(np.clip(LETTERS / max(1.0, lengths.mean()), FEWEST, ROWS))
