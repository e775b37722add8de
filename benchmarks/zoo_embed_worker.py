"""The zoo's side of ``esm2_speed.py``: ``zoo.embed`` of strings, into one array."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from speed_protocol import LEVELS, obey

import zoo
from zoo.workflows.embed import embed


def main(path: Path, bundle: Path, threads: int) -> None:
    torch.set_num_threads(threads)
    texts = json.loads(path.read_text())
    model = zoo.load(bundle, device="cpu")

    def run(level: str) -> int:
        return len(embed(model, texts, level=level))

    def keep(level: str) -> int:
        np.save(path.parent / f"zoo-{level}.npy", embed(model, texts, level=level).values)
        return len(texts)

    actions = {level: partial(run, level) for level in LEVELS}
    actions |= {f"keep {level}": partial(keep, level) for level in LEVELS}
    obey(actions, ["torch", "numpy"], zoo=zoo.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
