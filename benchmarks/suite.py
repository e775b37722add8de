"""What ``make bench`` measures: tasks, seeds, and variants with a name and settings of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Series:
    """Runs of one variant on one task: seed ``s`` goes with split seed ``s``; ``start`` is a model to go on from."""

    task: str
    seeds: tuple[int, ...]
    label: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    baselines: bool = True
    chemprop: bool = False
    start: str | None = None


FIVE = (0, 1, 2, 3, 4)
SUITE = [
    Series("freesolv", FIVE, chemprop=True),
    Series("bbb-logbb", FIVE, chemprop=True),
    Series("bbb-class", FIVE),
    Series("esol", FIVE),
    Series("tox21", (0, 1, 2)),
    Series("solubility", FIVE),
    Series("freesolv-crippen", FIVE),
    Series("bbb", FIVE),
    Series("clintox", FIVE),
    Series("sider", FIVE),
    Series("amp", FIVE),
    Series(
        "amp",
        FIVE,
        "esm2-mini+frozen",
        start="esm2-mini",
        baselines=False,
        settings={
            "start.mode": "head",
            "start.layer": 2,
            "model.featuriser.descriptors": "none",
            "train.epochs": 30,
            "train.lr": 0.001,
        },
    ),
    *(
        Series(
            task,
            (0,),
            "esm2-mini",
            start="esm2-mini",
            settings={
                "start.layer": 2,
                "train.epochs": epochs,
                "train.lr": 0.001,
                "train.encoder_lr_scale": 1.0,
                "train.layer_decay": 1.0,
                "model.hparams.pooling": "attention",
            },
        )
        for task, epochs in (("gb1-two-vs-rest", 12), ("gb1-low-vs-high", 3))
    ),
    Series(
        "pdb-ss3",
        (0,),
        "esm2-mini",
        start="esm2-mini",
        settings={
            "train.epochs": 30,
            "train.encoder_lr_scale": 1.0,
            "train.layer_decay": 1.0,
            "model.hparams.head_dropout": 0.1,
        },
    ),
    Series("protein-mlm", (0,), "esm2-mini", settings={"devices": 2, "threads": 1}),
    Series(
        "secondary-structure",
        (0,),
        "esm2-mini",
        start="esm2-mini",
        settings={
            "train.epochs": 10,
            "train.batch_cost": 4096,
            "train.encoder_lr_scale": 1.0,
            "train.layer_decay": 1.0,
            "model.hparams.head_dropout": 0.1,
            "devices": 2,
            "threads": 1,
        },
    ),
]
