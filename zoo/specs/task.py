"""What a task is: targets of a data set, a split, metrics, baselines, allowed models and a recipe."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from zoo.specs.base import Spec
from zoo.specs.dataset import DomainName, Name, Part
from zoo.specs.target import TargetSpec

Scale = Literal["small", "medium", "large"]
"""By training rows: small below 5,000, medium below 100,000, large from there on."""


class MetricSpec(Spec):
    """A metric by name with its direction; exactly one of a task's metrics is primary."""

    name: str
    direction: Literal["min", "max"]
    primary: bool = False


class SplitSpec(Spec):
    """How rows are divided. A committed file of the asked seed wins over computing the split again."""

    method: str
    """``random``, ``column``, ``file``, or one the domain knows (molecules: ``scaffold``, ``cluster``)."""
    seed: Annotated[int, Field(ge=0)] = 0
    fractions: dict[Part, float] = {"train": 0.8, "val": 0.1, "test": 0.1}
    column: str | None = None
    val_column: str | None = None
    """With method column: another column, which says ``true`` for the rows of the part train that validate."""
    file: str | None = None
    """CSV ``row,part`` in the data set's folder, ``{seed}`` standing for the seed; or, with method file, a path."""
    options: dict[str, float | int | str | bool] = {}
    overlap: Literal["error", "allow"] = "error"
    reason: str | None = None
    """Why an official split may let duplicates straddle its parts."""

    @model_validator(mode="after")
    def _check(self) -> SplitSpec:
        if abs(sum(self.fractions.values()) - 1.0) > 1e-9 or min(self.fractions.values()) < 0:
            raise ValueError(f"fractions must be at least 0 and sum to 1, got {self.fractions}")
        if "train" not in self.fractions or "test" not in self.fractions:
            raise ValueError("fractions need at least the parts 'train' and 'test'")
        if self.method == "column" and not self.column:
            raise ValueError("method 'column' needs `column`")
        if self.val_column and self.method != "column":
            raise ValueError("`val_column` goes with method 'column'")
        if self.method == "file" and not self.file:
            raise ValueError("method 'file' needs `file`")
        if self.overlap == "allow" and not self.reason:
            raise ValueError("overlap: allow needs a `reason`")
        return self


class ModelChoice(Spec):
    """Architecture, its hyper-parameters and the features beside the graph, sequence or image."""

    architecture: str | None = None
    hparams: dict[str, int | float | str | bool] = {}
    featuriser: dict[str, int | float | str | bool] = {}
    """Options of the domain's featuriser, for example ``descriptors: rdkit2d``."""


class TrainSpec(Spec):
    """How a model is trained. Every value is in the task's unit of time or in plain numbers."""

    epochs: Annotated[int, Field(ge=1)] = 50
    batch_size: Annotated[int, Field(ge=1)] = 64
    """Items per optimiser step, over all ranks."""
    batch_cost: Annotated[float, Field(gt=0)] | None = None
    """Instead: work per optimiser step, over all ranks, where the domain knows what an item costs.

    Proteins: tokens, and what attention adds to them with the square of the length. Items of like length then stand
    together, so that little is padding, and `batch_size` means nothing.
    """
    microbatches: Annotated[int, Field(ge=1)] = 1
    """Accumulation: into how many parts a step's items are cut (per rank).

    On a GPU the heaviest step is tried before the first one, and the number is doubled until it fits.
    """
    optimizer: Literal["adamw", "muon"] = "adamw"
    """``muon``: the encoder's weight matrices by Muon, all the rest by AdamW, at the same rates and weight decay.

    Muon computes in bfloat16 at any ``precision``, so results on different numbers of ranks agree less closely. Most
    CPUs only emulate bfloat16: there its step can take longer than the gradient.
    """
    validations: Annotated[int, Field(ge=1)] = 1
    """Validations per epoch."""
    lr: Annotated[float, Field(gt=0)] = 1e-3
    """The peak learning rate. The heads have it as it is; the encoder's follows from it by the next two settings."""
    encoder_lr_scale: Annotated[float, Field(gt=0)] = 1.0
    """The encoder's rate as a multiple of ``lr``."""
    layer_decay: Annotated[float, Field(gt=0, le=1)] | None = None
    """Factor of the rate from each layer of the encoder to the one below it, or null for one rate.

    The top layer has ``lr * encoder_lr_scale * layer_decay``. Only for architectures that number their layers.
    """
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    schedule: Literal["cosine", "wsd", "constant"] = "cosine"
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.04
    """Share of all steps spent on the linear warm-up."""
    decay: Annotated[float, Field(ge=0, le=1)] = 0.2
    """WSD: share of all steps spent on the final decay; with ``warmup`` at most 1."""
    final_lr: Annotated[float, Field(ge=0, le=1)] = 0.01
    """The last learning rate as a share of ``lr``."""
    clip: Annotated[float, Field(gt=0)] | None = 1.0
    """Largest gradient norm, or null for none."""
    ema: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Decay of the averaged weights, or null for none."""
    patience: Annotated[int, Field(ge=1)] | None = None
    """Early stopping: validations without improvement, or null for none."""
    select: Literal["best", "last"] = "best"
    """Which weights the bundle holds: of the best validation, or of the last step."""
    reduction: Literal["per_target", "pooled"] = "per_target"
    precision: Literal["32", "64", "bf16", "fp16"] = "32"
    """Bits of the weights and of what is computed; losses are in float32 or wider, and weights are never below.

    ``bf16`` and ``fp16`` (GPU only) run the network's forward under autocast.
    """
    compile: bool = False
    """Whether the network is compiled for training by ``torch.compile``; where that fails, it runs as it is.

    Compiling takes up to a minute or two before the first step, and pays for large networks on a GPU.
    """
    divergence: Annotated[float, Field(gt=1)] = 1e4
    """A step whose loss exceeds this multiple of the median of the first steps stops the run."""

    @field_validator("precision", mode="before")
    @classmethod
    def _bits(cls, value: object) -> object:
        """Take a number of bits, which YAML reads without quotes as a number."""
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _check_phases(self) -> TrainSpec:
        share = self.warmup + self.decay
        if self.schedule == "wsd" and share > 1 + 1e-9:
            raise ValueError(
                f"warmup {self.warmup:g} and decay {self.decay:g} are shares of one run and sum to {share:g}; "
                f"with schedule wsd at most 1 is allowed, for example train.decay={max(0.0, 1 - self.warmup):g}"
            )
        return self


class Recipe(Spec):
    """What a task recommends: model and training settings."""

    model: ModelChoice = ModelChoice()
    train: TrainSpec = TrainSpec()


class TaskSpec(Spec):
    """A task by name. ``models`` lists the architectures allowed; ``default_model`` one per scale."""

    name: Name
    title: str
    domain: DomainName
    dataset: Name
    targets: Annotated[list[TargetSpec], Field(min_length=1)]
    metrics: Annotated[list[MetricSpec], Field(min_length=1)]
    split: SplitSpec
    duplicates: Literal["mean", "median", "first", "drop", "error"] = "mean"
    """Conflicting labels of duplicates. For classes, ``mean`` and ``median`` mask the label that conflicts."""
    baselines: list[str] = []
    models: Annotated[list[str], Field(min_length=1)]
    default_model: dict[Scale, str] = {}
    recipe: Recipe = Recipe()
    description: str = ""

    @model_validator(mode="after")
    def _check(self) -> TaskSpec:
        names = [t.name for t in self.targets]
        if len(set(names)) != len(names):
            raise ValueError("two targets have the same name")
        if sum(m.primary for m in self.metrics) != 1:
            raise ValueError("exactly one metric must be `primary: true`")
        wrong = sorted(set(self.default_model.values()) - set(self.models))
        if wrong:
            raise ValueError(f"default_model names what `models` does not allow: {', '.join(wrong)}")
        return self

    @property
    def primary(self) -> MetricSpec:
        """The metric that decides."""
        return next(m for m in self.metrics if m.primary)

    def architecture_for(self, n_train: int) -> str:
        """Return the default architecture for a number of training rows."""
        scale: Scale = "small" if n_train < 5_000 else "medium" if n_train < 100_000 else "large"
        return self.default_model.get(scale, self.models[0])
