"""The domain of molecules: what the core and the workflows need to know about it, as one table."""

from __future__ import annotations

from zoo.core.domain import Domain
from zoo.molecules.featurise import NAME, OPTIONS, VERSION, featurise
from zoo.specs.task import ModelChoice, Recipe, TrainSpec

DOMAIN = Domain(
    name="molecules",
    item_level="molecule",
    node_levels=("atom", "bond"),
    input_kind="smiles",
    featuriser=NAME,
    featuriser_version=VERSION,
    featuriser_options=OPTIONS,
    featurise=featurise,
    packages=("rdkit",),
    architectures={
        "dmpnn": "zoo.molecules.dmpnn:DMPNN",
        "gine": "zoo.molecules.gine:GINE",
        "attentivefp": "zoo.molecules.attentivefp:AttentiveFP",
    },
    baselines={
        "mean": "zoo.core.baselines:mean",
        "majority": "zoo.core.baselines:majority",
        "random-forest": "zoo.molecules.baselines:random_forest",
        "lightgbm": "zoo.molecules.baselines:lightgbm",
    },
    splitters={"scaffold": "zoo.molecules.splits:scaffold", "cluster": "zoo.molecules.splits:cluster"},
    default_split="scaffold",
    default_recipe=Recipe(
        model=ModelChoice(featuriser={"descriptors": "rdkit2d"}, hparams={"head_dropout": 0.2}),
        train=TrainSpec(epochs=50, ema=0.98),
    ),
    default_baselines={
        "regression": ("mean", "lightgbm"),
        "binary": ("majority", "lightgbm"),
        "multiclass": ("majority", "lightgbm"),
    },
    equivalents={
        "input": "zoo.molecules.equivalents:random_smiles",
        "items": "zoo.molecules.equivalents:permuted",
    },
)
