"""A toy domain: items are vectors, with one node per component. Small enough to train in a blink."""

from dataclasses import dataclass

import lightning as L
import numpy as np
import torch
from torch import nn

from zoo.core.datamodule import DataSource, ZooDataModule
from zoo.core.evaluation import select_labels
from zoo.core.heads import Network
from zoo.core.losses import MaskedLoss
from zoo.core.module import ZooModule
from zoo.core.scalers import fit_target_scaler, scale_labels
from zoo.core.types import Labels
from zoo.specs.target import TargetSpec
from zoo.specs.task import MetricSpec, TrainSpec


class StopAt(L.Callback):
    """Asks for a stop during a step, as a signal would."""

    def __init__(self, step):
        self.step = step

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if pl_module.step + 1 == self.step:
            pl_module.request_stop("test")


@dataclass
class Vectors:
    x: torch.Tensor

    def to(self, device=None, dtype=None):
        return Vectors(self.x.to(device, dtype))


class VectorItems:
    features = None

    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def collate(self, index, dtype):
        return Vectors(torch.from_numpy(self.x[index]).to(dtype))


class Encoder(nn.Module):
    def __init__(self, n_in, dropout=0.0):
        super().__init__()
        self.dims = {"item": 8}
        self.layer = nn.Linear(n_in, 8)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs):
        return {"item": self.dropout(torch.tanh(self.layer(inputs.x)))}


TARGETS = [
    TargetSpec(name="a", level="molecule", kind="regression", unit="m"),
    TargetSpec(name="b", level="molecule", kind="binary", weight=0.5),
]
METRICS = [
    MetricSpec(name="rmse", direction="min", primary=True),
    MetricSpec(name="roc_auc", direction="max"),
]


def toy(n=60, *, seed=0, missing=0.4, dropout=0.0, laps=1, **train):
    """Return (module, datamodule) of a small masked two-target problem."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    a = (x @ rng.normal(size=5))[:, None] * 3 + 10
    b = (x[:, :1] > 0).astype(float)
    labels = {
        "a": Labels(a, rng.random((n, 1)) >= missing),
        "b": Labels(b, rng.random((n, 1)) >= missing),
    }
    parts = {"train": np.arange(n * 2 // 3), "val": np.arange(n * 2 // 3, n)}
    spec = TrainSpec(**{"epochs": 4, "batch_size": 8, "precision": "64", "lr": 1e-2, **train})
    dtype = torch.float64 if spec.precision == "64" else torch.float32
    scalers = {t.name: fit_target_scaler(t, select_labels(labels[t.name], parts["train"])) for t in TARGETS}
    source = DataSource(
        VectorItems(x), np.arange(n), {k: scale_labels(scalers[k], v) for k, v in labels.items()}, None, dtype
    )
    head = {"head_width": 16, "head_layers": 1, "head_dropout": 0.0}
    torch.manual_seed(seed)
    targets = [t.model_copy(update={"level": "item"}) for t in TARGETS]
    network = Network(Encoder(5, dropout), targets, "item", 0, head).to(dtype)
    data = ZooDataModule(
        source,
        parts,
        {t.name: MaskedLoss(t) for t in TARGETS},
        batch_size=spec.batch_size,
        microbatches=spec.microbatches,
        seed=seed,
        laps=laps,
    )
    module = ZooModule(
        network,
        TARGETS,
        scalers,
        spec,
        total_steps=spec.epochs * data.train_loader.windows,
        seed=seed,
        metrics=METRICS,
        val_labels={k: select_labels(v, parts["val"]) for k, v in labels.items()},
    )
    return module, data
