"""The fair-esm side of ``esm2_speed.py``: the loop of its ``extract.py``, into arrays by protein."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from esm import FastaBatchedDataset
from esm.pretrained import load_model_and_alphabet_core
from speed_protocol import LEVELS, obey

TOKENS = 4096


def main(path: Path, weights: Path, threads: int) -> None:
    torch.set_num_threads(threads)
    texts = json.loads(path.read_text())
    with torch.serialization.safe_globals([argparse.Namespace]):
        files = [weights, weights.with_name(f"{weights.stem}-contact-regression.pt")]
        model, alphabet = load_model_and_alphabet_core(weights.stem, *(torch.load(file) for file in files))
    model.eval()
    last = model.num_layers

    def embed(level: str) -> list[np.ndarray]:
        found: list[np.ndarray | None] = [None] * len(texts)
        dataset = FastaBatchedDataset([str(i) for i in range(len(texts))], texts)
        loader = torch.utils.data.DataLoader(
            dataset,
            collate_fn=alphabet.get_batch_converter(),
            batch_sampler=dataset.get_batch_indices(TOKENS, extra_toks_per_seq=1),
        )
        with torch.no_grad():
            for labels, strings, tokens in loader:
                states = model(tokens, repr_layers=[last], return_contacts=False)["representations"][last]
                for i, (label, text) in enumerate(zip(labels, strings, strict=True)):
                    own = states[i, 1 : len(text) + 1]
                    found[int(label)] = (own.mean(0) if level == "sequence" else own.clone()).numpy()
        return [values for values in found if values is not None]

    def run(level: str) -> int:
        return len(embed(level))

    def keep(level: str) -> int:
        np.save(path.parent / f"fair-esm-{level}.npy", np.concatenate([np.atleast_2d(v) for v in embed(level)]))
        return len(texts)

    actions = {level: partial(run, level) for level in LEVELS}
    actions |= {f"keep {level}": partial(keep, level) for level in LEVELS}
    obey(actions, ["fair-esm", "torch", "numpy"], parameters=sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
