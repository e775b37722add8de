"""The README quotes what was measured."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_cost_of_exactness():
    found = json.loads((ROOT / "benchmarks" / "results" / "exactness_cost.json").read_text())
    assert found["steps"] >= 500
    assert found["threads"] == 1
    assert {"with_counts", "exchange", "step_loss", "reseed", "_check_used", "on_before_optimizer_step"} <= set(
        found["function_seconds"]
    )
    assert sum(found["function_seconds"].values()) / found["step_seconds"] < 0.02
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    (quoted,) = re.findall(r"seeding and checking take ([\d.]+) % of a training step", text)
    assert float(quoted) == round(100 * found["share"], 1)
