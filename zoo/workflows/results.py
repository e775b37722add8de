"""Results in one place: ``cards/results.csv``, one row per model, task, split, seed and metric; tables from it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.core.files import csv_text, write_atomic
from zoo.errors import DataError
from zoo.specs.task import TaskSpec

COLUMNS = [
    "task",
    "model",
    "split",
    "split_seed",
    "split_sha256",
    "seed",
    "metric",
    "value",
    "rows",
    "targets_scored",
    "targets",
    "parameters",
    "seconds",
    "versions",
]
KEY = ("task", "model", "split_sha256", "seed", "metric")


def rows_of(result: Mapping[str, Any], label: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of one ``result.json``: the model's, and each baseline's.

    ``label`` names the model where the architecture alone does not (``dmpnn+descriptors``).
    """
    split = result["split"]
    versions = " ".join(f"{name}={version}" for name, version in result["packages"].items())
    rows = []
    for name, scores in result["metrics"].items():
        own = name == "model"
        for metric, score in scores.items():
            if score["value"] is None:
                continue
            rows.append(
                {
                    "task": result["task"],
                    "model": (label or result["model"]) if own else name,
                    "split": split["method"],
                    "split_seed": split["seed"],
                    "split_sha256": split["sha256"],
                    "seed": result["seed"],
                    "metric": metric,
                    "value": repr(float(score["value"])),
                    "rows": score["rows"],
                    "targets_scored": score["targets_scored"],
                    "targets": score["targets"],
                    "parameters": result["parameters"] if own else "",
                    "seconds": result["seconds"] if own else result["baseline_seconds"][name],
                    "versions": versions,
                }
            )
    return rows


def read_results(path: Path) -> list[dict[str, str]]:
    """Return all rows; a wrong header is an error."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as handle:
        reader = csv.DictReader(handle)
        if reader.fieldnames != COLUMNS:
            raise DataError(f"{path}: the header is {reader.fieldnames}, expected {COLUMNS}.")
        return list(reader)


def add_results(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add rows; a row of the same task, model, split, seed and metric is replaced. The file is sorted."""
    merged = {_key(row): row for row in read_results(path)} | {
        _key(row): {k: str(row[k]) for k in COLUMNS} for row in rows
    }
    ordered = [merged[key] for key in sorted(merged)]
    write_atomic(path, csv_text(COLUMNS, [[row[c] for c in COLUMNS] for row in ordered]).encode())


def add_run(path: Path, folder: Path, label: str | None = None) -> None:
    """Add the rows of a run folder."""
    add_results(path, rows_of(json.loads((folder / "result.json").read_text()), label))


@dataclass(frozen=True)
class Comparison:
    """A model's values of one metric over the runs it shares with a reference, paired by split and seed."""

    model: str
    values: list[float]
    difference: float | None
    standard_error: float | None

    @property
    def mean(self) -> float:
        """Mean over the runs."""
        return float(np.mean(self.values))

    @property
    def spread(self) -> float:
        """Sample standard deviation over the runs; 0 for a single one."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0


def compare(rows: list[dict[str, str]], task: str, metric: str, reference: str) -> list[Comparison]:
    """Return every model's values on a task, and the mean paired difference (model minus reference) with its error."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows:
        if row["task"] == task and row["metric"] == metric:
            found.setdefault(row["model"], {})[row["split_sha256"], row["seed"]] = float(row["value"])
    base = found.get(reference, {})
    result = []
    for model, runs in found.items():
        shared = [runs[k] - base[k] for k in runs if k in base]
        paired = model != reference and len(shared) > 1
        error = float(np.std(shared, ddof=1) / np.sqrt(len(shared))) if paired else None
        result.append(Comparison(model, list(runs.values()), float(np.mean(shared)) if paired else None, error))
    return result


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[k]) for k in KEY)


BEGIN, END = "<!-- results: written by benchmarks/readme.py -->", "<!-- results end -->"


def readme_table(rows: list[dict[str, str]], tasks: Iterable[TaskSpec]) -> str:
    """Return the README's table: a row per task and model, best first, and how far each is from the default model.

    The last column is the mean paired difference to the default model over the shared splits and seeds, with its
    standard error; where it has the sign of a better value, that model wins.
    """
    lines = [
        "| task | split | metric | model | mean ± sd | runs | labels | minus the zoo's default |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task in tasks:
        metric = task.primary
        default = task.recipe.model.architecture or task.models[0]
        found = sorted(
            compare(rows, task.name, metric.name, default),
            key=lambda c: c.mean if metric.direction == "min" else -c.mean,
        )
        for place, c in enumerate(found):
            own = [r for r in rows if (r["task"], r["model"], r["metric"]) == (task.name, c.model, metric.name)]
            unit = next((t.unit for t in task.targets if t.unit and metric.name in ("rmse", "mae")), None)
            head = [f"`{task.name}`", own[0]["split"], metric.name + (f" ({unit})" if unit else "")]
            value = f"{c.mean:.3f}" + (f" ± {c.spread:.3f}" if len(c.values) > 1 else "")
            paired = "" if c.difference is None else f"{c.difference:+.3f} ± {c.standard_error:.3f}"
            cells = [*(head if place == 0 else ["", "", ""]), c.model, f"**{value}**" if place == 0 else value]
            labels = "-".join(dict.fromkeys((min(own, key=_rows)["rows"], max(own, key=_rows)["rows"])))
            lines.append("| " + " | ".join([*cells, str(len(c.values)), labels, paired]) + " |")
    return "\n".join(lines) + "\n"


def with_table(readme: str, table: str) -> str:
    """Return a README with the text between its two markers replaced."""
    before, found, rest = readme.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise DataError(f"the README needs the lines {BEGIN!r} and {END!r}; the table goes between them.")
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"


def _rows(row: Mapping[str, str]) -> int:
    return int(row["rows"])
