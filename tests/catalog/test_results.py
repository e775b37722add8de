"""``cards/results.csv`` holds what it says, and the README's table is written from it."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from zoo.core.domain import get_domain
from zoo.core.metrics import METRICS
from zoo.specs.catalog import Catalog
from zoo.workflows.results import COLUMNS, add_results, compare, read_results, rows_of

ROOT = Path(__file__).parents[2]
ROWS = read_results(ROOT / "cards" / "results.csv")
CATALOG = Catalog()


def test_there_are_results():
    assert len(ROWS) > 100
    assert {"freesolv", "bbb-logbb", "bbb-class"} <= {row["task"] for row in ROWS}


def test_every_row_names_a_task_a_metric_of_it_and_a_known_model():
    for row in ROWS:
        task = CATALOG.task(row["task"])
        assert row["metric"] in {m.name for m in task.metrics}, row
        assert row["metric"] in METRICS
        domain = get_domain(task.domain)
        known = [f"{domain.name}:{b}" for b in (*domain.baselines, *domain.node_baselines)]
        known += CATALOG.names("model")
        base = re.split(r"[+ ]", row["model"])[0]
        assert (
            base in (*known, *domain.architectures) or row["model"] in known or row["model"].startswith("chemprop-")
        ), row
        assert int(row["rows"]) > 0
        assert re.fullmatch(r"[0-9a-f]{64}", row["split_sha256"])
        assert row["versions"]


def test_rows_are_unique_and_sorted():
    keys = [(r["task"], r["model"], r["split_sha256"], r["seed"], r["metric"]) for r in ROWS]
    assert keys == sorted(set(keys))


def test_models_of_a_task_share_their_splits():
    for name in {row["task"] for row in ROWS}:
        by_seed = {}
        for row in ROWS:
            if row["task"] == name:
                by_seed.setdefault(row["split_seed"], set()).add(row["split_sha256"])
        assert all(len(hashes) == 1 for hashes in by_seed.values()), name


def test_the_readme_is_current():
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "readme.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


RESULT = {
    "task": "t",
    "model": "dmpnn",
    "split": {"method": "random", "seed": 0, "sha256": "a" * 64},
    "seed": 0,
    "parameters": 10,
    "seconds": 1.5,
    "baseline_seconds": {"molecules:mean": 0.5},
    "packages": {"torch": "1"},
    "metrics": {
        "model": {"rmse": {"value": 1.25, "rows": 4, "targets_scored": 1, "targets": 1}},
        "molecules:mean": {
            "rmse": {"value": 2.0, "rows": 4, "targets_scored": 1, "targets": 1},
            "r2": {"value": None, "rows": 0, "targets_scored": 0, "targets": 1},
        },
    },
}


def test_rows_of_a_result_and_their_replacement(tmp_path):
    path = tmp_path / "results.csv"
    rows = rows_of(RESULT)
    assert [(r["model"], r["value"], r["parameters"], r["seconds"]) for r in rows] == [
        ("dmpnn", "1.25", 10, 1.5),
        ("molecules:mean", "2.0", "", 0.5),
    ]
    add_results(path, rows)
    changed = json.loads(json.dumps(RESULT))
    changed["metrics"]["model"]["rmse"]["value"] = 1.0
    add_results(path, rows_of(changed))
    with path.open() as handle:
        written = list(csv.DictReader(handle))
    assert list(written[0]) == COLUMNS
    assert [r["value"] for r in written] == ["1.0", "2.0"]


def test_paired_differences_by_hand(tmp_path):
    rows = []
    for seed, (a, b) in enumerate([(1.0, 1.5), (2.0, 2.1), (3.0, 3.6)]):
        for model, value in (("a", a), ("b", b)):
            rows.append(
                {
                    "task": "t",
                    "metric": "m",
                    "model": model,
                    "split_sha256": str(seed),
                    "seed": "0",
                    "value": str(value),
                }
            )
    found = {c.model: c for c in compare(rows, "t", "m", "a")}
    assert found["a"].mean == pytest.approx(2.0)
    assert found["a"].spread == pytest.approx(1.0)
    assert found["a"].difference is None
    assert found["b"].difference == pytest.approx(0.4)
    assert found["b"].standard_error == pytest.approx(0.152753, abs=1e-6)  # sd of .5 .1 .6 over sqrt 3
