"""The domain of proteins: what the core and the workflows need to know about it, as one table."""

from __future__ import annotations

from zoo.core.domain import Domain
from zoo.proteins.featurise import NAME, OPTIONS, VERSION, featurise
from zoo.specs.task import ModelChoice, Recipe, TrainSpec

DOMAIN = Domain(
    name="proteins",
    item_level="sequence",
    node_levels=("residue", "token", "pair"),
    input_kind="sequence",
    featuriser=NAME,
    featuriser_version=VERSION,
    featuriser_options=OPTIONS,
    featurise=featurise,
    architectures={"esm2": "zoo.proteins.esm2:ESM2"},
    baselines={
        "mean": "zoo.core.baselines:mean",
        "majority": "zoo.core.baselines:majority",
        "composition": "zoo.proteins.baselines:composition",
        "kmers": "zoo.proteins.baselines:kmers",
        "onehot": "zoo.proteins.baselines:onehot",
        "nearest": "zoo.proteins.baselines:nearest",
        "lightgbm": "zoo.proteins.baselines:lightgbm",
        "lightgbm-descriptors": "zoo.proteins.baselines:lightgbm_descriptors",
    },
    node_baselines={"window": "zoo.proteins.baselines:window"},
    splitters={"identity": "zoo.proteins.splits:identity"},
    default_split="identity",
    default_baselines={
        "regression": ("mean", "kmers", "nearest", "window"),
        "binary": ("majority", "kmers", "nearest", "window", "separation"),
        "multiclass": ("majority", "kmers", "nearest", "window"),
    },
    paired="residue",
    pair_baselines={"separation": "zoo.proteins.baselines:separation"},
    pairs="zoo.proteins.weights:add_contacts",
    published="zoo.proteins.weights:OFFICIAL",
    default_recipe=Recipe(
        model=ModelChoice(hparams={"layers": 4, "width": 128, "heads": 4, "head_width": 128}),
        train=TrainSpec(epochs=20, lr=5e-4),
    ),
)
