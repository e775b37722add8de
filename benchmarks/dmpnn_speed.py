"""How fast D-MPNN trains and predicts beside chemprop 2.3.1, at chemprop's default size on the ``bbb`` molecules.

    python benchmarks/dmpnn_speed.py --chemprop-python PATH/TO/python    (an environment with chemprop==2.3.1)

Both sides run in a process of their own, keep their featurised molecules in memory, and take turns, so that a change
of the machine's mood meets both. Training is one epoch through each side's own loader, module and Lightning trainer;
prediction goes from SMILES strings to numbers, featurisation included. The two strings that RDKit refuses are left
out for both, since chemprop stops at them. The results go to ``benchmarks/results/dmpnn_speed.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from rdkit import Chem, rdBase
from speed_sides import Worker, measure, summarise

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "dmpnn_speed.json"
DATA = HERE.parent / "datasets" / "bbb" / "bbb.csv"


def molecules() -> dict[str, list[Any]]:
    """Return the SMILES strings that RDKit reads, and their labels as 0 and 1."""
    table = pd.read_csv(DATA)
    with rdBase.BlockLogs():
        legal = [Chem.MolFromSmiles(s) is not None for s in table["smiles"]]
    table = table[legal]
    return {"smiles": table["smiles"].tolist(), "labels": (table["bbb"] == "BBB+").astype(float).tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chemprop-python", required=True, help="python of an environment with chemprop 2.3.1")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    given, before = molecules(), round(os.getloadavg()[0], 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "molecules.json"
        path.write_text(json.dumps(given))
        tail = [str(path), str(args.threads)]
        workers = {
            "zoo": Worker([sys.executable, str(HERE / "zoo_speed_worker.py"), *tail], args.threads),
            "chemprop": Worker([args.chemprop_python, str(HERE / "chemprop_speed_worker.py"), *tail], args.threads),
        }
        rates = measure(workers, ("train", "predict"), args.repetitions)
        memory = {side: worker.peak_kib // 1024 for side, worker in workers.items()}
        for worker in workers.values():
            worker.process.terminate()
    facts = {side: worker.facts for side, worker in workers.items()}
    found = summarise(rates, "molecules")
    reached = facts["zoo"]["flop_per_molecule"] * statistics.median(rates["train"]["zoo"])
    found["train"]["share_of_matrix_product_peak"] = round(reached / facts["zoo"]["peak_flop_per_second"], 3)
    result = {
        "molecules": len(given["smiles"]),
        "batch_size": 64,
        "threads": args.threads,
        "load_average": {"before": before, "after": round(os.getloadavg()[0], 2)},
        **found,
        "peak_memory_mib": memory,
        "sides": facts,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "sides"}, indent=2))


if __name__ == "__main__":
    main()
