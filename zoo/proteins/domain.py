"""The domain of proteins: what the core and the workflows need to know about it, as one table."""

from __future__ import annotations

from zoo.core.domain import Domain
from zoo.proteins.featurise import NAME, OPTIONS, VERSION, featurise
from zoo.specs.task import ModelChoice, Recipe, TrainSpec

DOMAIN = Domain(
    name="proteins",
    item_level="sequence",
    node_levels=("residue", "token"),
    input_kind="sequence",
    featuriser=NAME,
    featuriser_version=VERSION,
    featuriser_options=OPTIONS,
    featurise=featurise,
    architectures={"esm2": "zoo.proteins.esm2:ESM2"},
    baselines={"mean": "zoo.proteins.baselines:mean", "majority": "zoo.proteins.baselines:majority"},
    splitters={"identity": "zoo.proteins.splits:identity"},
    default_baselines={"regression": (), "binary": (), "multiclass": ()},
    pairs="zoo.proteins.weights:add_contacts",
    published="zoo.proteins.weights:OFFICIAL",
    default_recipe=Recipe(
        model=ModelChoice(hparams={"layers": 4, "width": 128, "heads": 4, "head_width": 128}),
        train=TrainSpec(epochs=20, lr=5e-4),
    ),
)
