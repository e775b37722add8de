"""Make ``bbb.csv`` from B3DB as it stands in the qc-B3DB package.

Fetch and unpack the package, then run this script; it writes the same bytes again::

    pip download qc-B3DB==1.1.1 --no-deps
    unzip qc_b3db-1.1.1-py3-none-any.whl -d unpacked
    python datasets/bbb/build.py --source unpacked/B3DB
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from pathlib import Path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="the unpacked package's folder B3DB")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "bbb.csv")
    args = parser.parse_args()
    classified = read(args.source / "B3DB_classification.tsv")
    measured = {row["Inchi"]: row["logBB"] for row in read(args.source / "B3DB_regression.tsv")}
    with args.out.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["id", "name", "smiles", "bbb", "logbb", "evidence"])
        for row in classified:
            # the two files write a molecule differently but share its InChI
            logbb = measured.pop(row["Inchi"], "")
            if (logbb == "") != (row["logBB"] == "") or (logbb and float(logbb) != float(row["logBB"])):
                raise SystemExit(f"molecule {row['NO.']}: the two files disagree, {logbb!r} and {row['logBB']!r}")
            writer.writerow(
                [row["NO."], row["compound_name"], row["SMILES"], row["BBB+/BBB-"], logbb, row["group"]],
            )
    if measured:
        raise SystemExit(f"{len(measured)} measured molecules are not among the classified ones")
    data = args.out.read_bytes()
    print(f"{args.out}: {len(classified)} rows, {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
