"""Write the README's table of results from ``cards/results.csv``; ``--check`` only says whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

from zoo.specs.catalog import Catalog
from zoo.workflows.results import read_results, readme_table, with_table

ROOT = Path(__file__).parents[1]


def main() -> int:
    catalog = Catalog()
    rows = read_results(ROOT / "cards" / "results.csv")
    measured = {row["task"] for row in rows}
    tasks = [catalog.task(name) for name in catalog.names("task") if name in measured]
    readme = ROOT / "README.md"
    before = readme.read_text()
    after = with_table(before, readme_table(rows, tasks))
    if "--check" in sys.argv:
        if after != before:
            print("README.md is not current: python benchmarks/readme.py")
        return int(after != before)
    readme.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
