"""How fast ESM-2 embeds proteins beside fair-esm: architecture of 8M, the same random weights in both, CPU, float32.

    python benchmarks/esm2_speed.py [--n 500]

The proteins are pieces of the bundled ``uniprot-sample``, 50 to 1,000 residues long. fair-esm's side is the loop of
its own ``extract.py``: ``FastaBatchedDataset.get_batch_indices`` of 4,096 tokens, its ``BatchConverter`` and its model,
which computes logits whether or not they are asked for. The zoo's side is ``zoo.embed``. Both go from strings to
arrays in memory, each in a process of its own, and take turns. The first, unmeasured run of each keeps its values in a
file, and all values of the two are compared.
The results go to ``benchmarks/results/esm2_speed.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import esm
import numpy as np
import torch
from speed_protocol import LEVELS
from speed_sides import HERE, Worker, measure, summarise

from zoo.core.table import read_table
from zoo.workflows.published import published_bundle

RESULTS = HERE / "results" / "esm2_speed.json"
DATA = HERE.parent / "datasets" / "uniprot-sample" / "uniprot-sample.fasta.xz"
LAYERS, WIDTH, HEADS = 6, 320, 20
SHORTEST, LONGEST = 50, 1000
TOLERANCE = 1e-5


def proteins(n: int, seed: int) -> list[str]:
    """Return pieces of natural proteins, their lengths drawn evenly from the whole range."""
    rng = np.random.default_rng(seed)
    natural = [text for text in read_table(DATA).column("sequence") if len(text) >= SHORTEST]
    found = []
    for length in rng.integers(SHORTEST, LONGEST, n, endpoint=True).tolist():
        enough = [text for text in natural if len(text) >= length]
        text = enough[rng.integers(len(enough))]
        start = int(rng.integers(len(text) - length + 1))
        found.append(text[start : start + length])
    return found


def write_weights(path: Path) -> None:
    """Write a file in the published format with random weights, and that of its contact head."""
    torch.manual_seed(0)
    model = esm.model.esm2.ESM2(LAYERS, WIDTH, HEADS, esm.data.Alphabet.from_architecture("ESM-1b"))
    sizes = {"encoder_layers": LAYERS, "encoder_embed_dim": WIDTH, "encoder_attention_heads": HEADS}
    contacts, tensors = {}, {}
    for name, tensor in model.state_dict().items():
        if name.startswith("contact_head"):
            contacts[name] = tensor
        else:
            tensors[f"encoder.{'' if name.startswith('lm_head') else 'sentence_encoder.'}{name}"] = tensor
    configuration = {"model": argparse.Namespace(**sizes, token_dropout=True)}
    torch.save({"cfg": configuration, "model": tensors}, path)
    torch.save({"model": contacts}, path.with_name(f"{path.stem}-contact-regression.pt"))


def most_memory_mib(worker: Worker) -> int:
    """Return the most memory that a process, which has no children, has ever held (Linux)."""
    lines = Path(f"/proc/{worker.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) // 1024


def largest_difference(folder: Path) -> dict[str, float]:
    """Return, by level, the largest difference of the two sides as a share of the tolerance (absolute and relative)."""
    found = {}
    for level in LEVELS:
        got, want = (np.load(folder / f"{side}-{level}.npy") for side in ("zoo", "fair-esm"))
        found[level] = float((np.abs(got - want) / (TOLERANCE * (1 + np.abs(want)))).max())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=500, help="how many proteins")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    given, before = proteins(args.n, args.seed), round(os.getloadavg()[0], 2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["ZOO_CACHE"] = str(folder / "cache")
        weights = folder / "esm2_t6_8M_random.pt"
        write_weights(weights)
        (folder / "proteins.json").write_text(json.dumps(given))
        scripts = {"zoo": "zoo_embed_worker.py", "fair-esm": "fair_esm_embed_worker.py"}
        models = {"zoo": published_bundle(str(weights)), "fair-esm": weights}
        workers = {
            side: Worker(
                [
                    sys.executable,
                    str(HERE / script),
                    str(folder / "proteins.json"),
                    str(models[side]),
                    str(args.threads),
                ],
                args.threads,
            )
            for side, script in scripts.items()
        }
        rates = measure(workers, LEVELS, args.repetitions, warm_up="keep {}")
        memory = {side: most_memory_mib(worker) for side, worker in workers.items()}
        for worker in workers.values():
            worker.process.terminate()
        differences = largest_difference(folder)
    result: dict[str, Any] = {
        "proteins": len(given),
        "residues": sum(map(len, given)),
        "seed": args.seed,
        "threads": args.threads,
        "load_average": {"before": before, "after": round(os.getloadavg()[0], 2)},
        **summarise(rates, "proteins"),
        "peak_memory_mib": memory,
        "largest_difference_by_tolerance_of_1e-5": {level: round(v, 3) for level, v in differences.items()},
        "sides": {side: worker.facts for side, worker in workers.items()},
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "sides"}, indent=2))
    if max(differences.values()) > 1:
        raise SystemExit("the two sides do not agree to 1e-5")


if __name__ == "__main__":
    main()
