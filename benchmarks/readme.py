"""Write the README's results from ``cards/results.csv`` and ``results/*.json``; ``--check`` says if it is current."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from zoo.specs.catalog import Catalog
from zoo.workflows.results import read_results, readme_table, with_table

ROOT = Path(__file__).parents[1]


def threads_of(found: dict[str, Any]) -> str:
    return f"{found['threads']} thread{'s' if found['threads'] > 1 else ''}"


def speed_of_embedding(found: dict[str, Any]) -> str:
    """Return the sentences about the speed of ESM-2."""
    whole, memory = found["sequence"], found["peak_memory_mib"]
    both = whole["proteins_per_second"]
    return (
        f"ESM-2 of 8M beside fair-esm on {found['proteins']:,} proteins of 50 to 1,000 residues, {threads_of(found)}, "
        f"alternating runs (`benchmarks/esm2_speed.py`): vectors of {both['zoo']:,.1f} proteins a second, "
        f"fair-esm {both['fair-esm']:,.1f}, {whole['median_of_paired_ratios']:.1f} times as many. Peak memory: "
        f"{memory['zoo']:,} MiB, fair-esm {memory['fair-esm']:,} MiB.\n"
    )


def speed(found: dict[str, Any]) -> str:
    """Return the sentences about the speed of D-MPNN."""
    train, predict, memory = found["train"], found["predict"], found["peak_memory_mib"]
    chemprop = found["sides"]["chemprop"]["packages"]["chemprop"]
    threads = threads_of(found)

    def rates(part: dict[str, Any]) -> str:
        both = part["molecules_per_second"]
        return f"{both['zoo']:,.0f} molecules a second, chemprop {both['chemprop']:,.0f}"

    return (
        f"Speed: D-MPNN at chemprop's default size beside chemprop {chemprop} on the {found['molecules']:,} "
        f"molecules of `bbb`, batches of {found['batch_size']}, {threads}, alternating runs "
        f"(`benchmarks/dmpnn_speed.py`). Training: {rates(train)}, {train['median_of_paired_ratios']:.1f} times as "
        f"many; "
        f"{100 * train['share_of_matrix_product_peak']:.0f} % of the machine's matrix-product rate. Prediction from "
        f"SMILES: {rates(predict)}, {predict['median_of_paired_ratios']:.1f} times as many. "
        f"Peak memory: {memory['zoo']:,} MiB, chemprop {memory['chemprop']:,} MiB.\n"
    )


def main() -> int:
    catalog = Catalog()
    rows = read_results(ROOT / "cards" / "results.csv")
    measured = {row["task"] for row in rows}
    tasks = [catalog.task(name) for name in catalog.names("task") if name in measured]
    readme = ROOT / "README.md"
    before = readme.read_text()
    text = readme_table(rows, tasks)
    for name, sentences in (("dmpnn_speed", speed), ("esm2_speed", speed_of_embedding)):
        measured_speed = ROOT / "benchmarks" / "results" / f"{name}.json"
        if measured_speed.is_file():
            text += "\n" + sentences(json.loads(measured_speed.read_text()))
    after = with_table(before, text)
    if "--check" in sys.argv:
        if after != before:
            print("README.md is not current: python benchmarks/readme.py")
        return int(after != before)
    readme.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
