"""Module and data of a bare network and a few labelled items, for a case that no task stands behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from zoo.core.datamodule import DataSource, ZooDataModule
from zoo.core.evaluation import select_labels
from zoo.core.losses import MaskedLoss
from zoo.core.metrics import METRICS
from zoo.core.module import ZooModule
from zoo.core.scalers import fit_target_scaler, scale_labels
from zoo.core.types import Items, Labels
from zoo.specs.target import TargetSpec
from zoo.specs.task import MetricSpec, TrainSpec

_DEFAULTS: dict[str, Any] = {"epochs": 4, "batch_size": 8, "lr": 1e-3}


def small_problem(
    network: Callable[[], nn.Module],
    items: Items,
    labels: Mapping[str, Labels],
    targets: list[TargetSpec],
    *,
    seed: int = 0,
    **train: Any,
) -> tuple[ZooModule, ZooDataModule]:
    """Return a module and its data: two thirds of the items for training, the rest for validation.

    Parameters
    ----------
    network
        Makes the network, after the random numbers are seeded. It maps a :class:`~zoo.core.types.Batch` to
        ``{target: (n, k)}``.
    items
        ``n`` items; of :class:`~zoo.core.types.Items` only ``__len__`` and ``collate`` are needed, and ``size`` if
        the largest one is to be looked at.
    labels
        Of each target for all items, in original units.
    targets
        What is predicted.
    train
        Fields of :class:`~zoo.specs.task.TrainSpec`.
    """
    spec = TrainSpec(**{**_DEFAULTS, **train})
    dtype = torch.float64 if spec.precision == "64" else torch.float32
    n = len(items)
    parts = {"train": np.arange(n * 2 // 3), "val": np.arange(n * 2 // 3, n)}
    scalers = {t.name: fit_target_scaler(t, select_labels(labels[t.name], parts["train"])) for t in targets}
    scaled = {t.name: scale_labels(scalers[t.name], labels[t.name]) for t in targets}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built: Any = network().to(dtype)
    data = ZooDataModule(
        DataSource(
            items,
            np.arange(n),
            scaled,
            None,
            dtype,
            levels={t.name: None if labels[t.name].ptr is None else t.level for t in targets},
        ),
        parts,
        {t.name: MaskedLoss(t) for t in targets},
        batch_size=spec.batch_size,
        microbatches=spec.microbatches,
        seed=seed,
        laps=spec.validations,
    )
    module = ZooModule(
        built,
        targets,
        scalers,
        spec,
        total_steps=spec.epochs * data.train_loader.windows,
        seed=seed,
        metrics=_metrics(targets),
        val_labels={t.name: select_labels(labels[t.name], parts["val"]) for t in targets},
        monitor_loss=True,
    )
    return module, data


def _metrics(targets: list[TargetSpec]) -> list[MetricSpec]:
    """Return every metric that scores one of the targets, the first as the primary one."""
    kinds = {t.kind for t in targets}
    names = [name for name, metric in METRICS.items() if metric.kinds & kinds]
    return [
        MetricSpec(name=name, direction=METRICS[name].direction, primary=i == 0)  # type: ignore[arg-type]
        for i, name in enumerate(names)
    ]
