"""The chemprop side of ``dmpnn_speed.py``: its own data set, loader, model and Lightning trainer, with their defaults.

Runs in an environment with chemprop 2.3.1. ``train`` is one epoch on cached graphs, ``predict`` goes from SMILES
strings to an array.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from chemprop import data, featurizers, models, nn
from lightning import pytorch as pl
from speed_protocol import obey

BATCH = 64


def main(path: Path, threads: int) -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    given = json.loads(path.read_text())
    smiles, labels = given["smiles"], given["labels"]
    cached = dataset(smiles, labels)
    cached.cache = True
    loader = data.build_dataloader(cached, batch_size=BATCH, seed=0)
    model = models.MPNN(nn.BondMessagePassing(), nn.MeanAggregation(), nn.BinaryClassificationFFN())

    def train() -> int:
        trainer().fit(model, loader)
        return len(smiles)

    def predict() -> int:
        loader = data.build_dataloader(dataset(smiles, labels), batch_size=BATCH, shuffle=False)
        return len(np.concatenate([b.numpy() for b in trainer().predict(model, loader) or []]))

    parameters = sum(p.numel() for p in model.parameters())
    actions = {"train": train, "predict": predict}
    obey(actions, ["chemprop", "torch", "lightning", "rdkit", "numpy"], parameters=parameters)


def dataset(smiles: list[str], labels: list[float]) -> data.MoleculeDataset:
    points = [data.MoleculeDatapoint.from_smi(s, [y]) for s, y in zip(smiles, labels, strict=True)]
    return data.MoleculeDataset(points, featurizers.SimpleMoleculeMolGraphFeaturizer())


def trainer() -> pl.Trainer:
    return pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
