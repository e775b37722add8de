"""The zoo's side of ``dmpnn_speed.py``: the real data module, module, trainer, and ``Model.predict``."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from speed_protocol import obey
from torch.utils.flop_counter import FlopCounterMode

import zoo
from zoo.core.datamodule import ZooDataModule
from zoo.core.fit import fit, make_trainer
from zoo.specs.catalog import Catalog
from zoo.specs.resolve import resolve
from zoo.workflows.build import Prepared, folder_of, prepare

TASK = "bbb-class"
SIZE = {
    "width": 300, "depth": 3, "readout": "mean", "dropout": 0.0,
    "head_width": 300, "head_layers": 1, "head_dropout": 0.0,
}  # fmt: skip
"""chemprop's defaults."""


def main(path: Path, threads: int) -> None:
    smiles = json.loads(path.read_text())["smiles"]
    settings = {
        "threads": threads,
        "device": "cpu",
        "baseline": False,
        "model.architecture": "dmpnn",
        **{f"model.hparams.{name}": value for name, value in SIZE.items()},
        "model.featuriser.descriptors": "none",
        "train.epochs": 1,
        "train.batch_size": 64,
    }
    catalog = Catalog()
    task = catalog.task(TASK)
    dataset = catalog.dataset(task.dataset)
    run = resolve(task, dataset, threads=threads, flags=settings, sets=["train.ema=null"])  # chemprop averages nothing
    prepared = prepare(run, folder=folder_of(run, catalog))
    source, module = prepared.datamodule.source, prepared.module
    everything = {"train": np.arange(len(source.items))}
    data = ZooDataModule(source, everything, module.losses, batch_size=64, microbatches=1, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        model = zoo.train(TASK, settings=settings, out=Path(folder) / "run").load()

    def train() -> int:
        fit(module, data, make_trainer(module, folder=None, device="cpu", has_val=False))
        return len(everything["train"])

    def predict() -> int:
        return len(model.predict(smiles))

    facts = {"parameters": sum(p.numel() for p in module.network.parameters()), **matrix_products(prepared, data)}
    packages = ["torch", "lightning", "rdkit", "numpy"]
    obey({"train": train, "predict": predict}, packages, zoo=zoo.__version__, **facts)


def matrix_products(prepared: Prepared, data: ZooDataModule) -> dict[str, Any]:
    """Return the floating-point operations of the matrix products per molecule, and the machine's best rate of them."""
    windows = [window for _, window in zip(range(10), data.train_loader, strict=False)]
    data.train_loader.epoch = data.train_loader.start_window = 0
    module = prepared.module
    with FlopCounterMode(display=False) as counter:
        for window in windows:
            sum(out.sum() for out in module.network(window[0]).values()).backward()
    module.network.zero_grad()
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best = float("inf")
    for _ in range(10):
        started = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - started)
    molecules = sum(len(window[0]) for window in windows)
    return {"flop_per_molecule": counter.get_total_flops() / molecules, "peak_flop_per_second": 2 * 2048**3 / best}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
