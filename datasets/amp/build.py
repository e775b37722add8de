"""Make ``amp.csv`` from the peptides in the modlamp package.

Fetch and unpack the package, then run this script; it writes the same bytes again::

    pip download modlamp==4.3.3 --no-deps --no-binary modlamp
    tar -xzf modlamp-4.3.3.tar.gz
    python datasets/amp/build.py --source modlamp-4.3.3/modlamp/data/AMPvsUniProt.csv
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from pathlib import Path

CLASSES = {"0": "other", "1": "AMP"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="AMPvsUniProt.csv of the package")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "amp.csv")
    args = parser.parse_args()
    lines = args.source.read_text(encoding="utf-8").splitlines()[1:]  # the first holds counts and class names
    rows = []
    for number, line in enumerate(lines):
        sequence, label = (cell.strip() for cell in line.split(","))
        # UniProt keeps the methionine that translation begins with, collections of active peptides do not: with it,
        # the first letter alone would tell most of the classes.
        shown = sequence.removeprefix("M")
        rows.append([number, shown, CLASSES[label], int(sequence.startswith("M"))])
    with args.out.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["id", "sequence", "activity", "first_m"])
        writer.writerows(rows)
    data = args.out.read_bytes()
    print(f"{args.out}: {len(rows)} rows, {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
