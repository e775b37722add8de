"""Make a zoo model of a finished run: its bundle under a name, and a card with the curve of its validation.

    python cards/make.py RUN NAME

writes ``cards/NAME``. What no run can say (what the model is good for, and what not) stands in ``cards/NAME.md``.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from zoo.core.bundle import read_example, read_spec, read_weights, save_bundle
from zoo.workflows.cards import bundle_readme

CARDS = Path(__file__).parent


def main() -> None:
    """Read the arguments and make the card."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("name", help="name of the zoo model")
    args = parser.parse_args()
    bundle = args.run / "bundle"
    spec = read_spec(bundle).model_copy(update={"name": args.name})
    example = read_example(bundle)
    about = (CARDS / f"{args.name}.md").read_text()
    readme = bundle_readme(spec, example, more=[*about.strip().splitlines(), "", *curve(args.run / "metrics.csv")])
    save_bundle(CARDS / args.name, spec, read_weights(bundle), example, readme)


def curve(path: Path) -> list[str]:
    """Return the log of a run as a table: what was measured at each validation."""
    with path.open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    names = [name for name in rows[0] if name in ("step", "train_loss") or name.startswith("val_")]
    lines = ["## Validation while it was trained", "", f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return lines + [f"| {' | '.join(f'{float(row[n]):.5g}' for n in names)} |" for row in rows]


if __name__ == "__main__":
    main()
