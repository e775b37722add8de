"""Everything one run needs, resolved and frozen."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from zoo.specs.base import Spec
from zoo.specs.dataset import DatasetSpec
from zoo.specs.task import ModelChoice, TaskSpec, TrainSpec

Mode = Literal["full", "head", "lora"]
_CHOSEN = "validation"


class StartSpec(Spec):
    """The trained model that a run starts from, and what of it is trained on."""

    model: str
    """A name, or the folder of a bundle."""
    config_sha256: str
    """Of its ``config.json``, which holds the checksums of everything else."""
    mode: Mode = "full"
    """``full``: everything, the encoder at its own rates. ``lora``: adapters beside the encoder's frozen weights.
    ``head``: the heads alone, on the frozen encoder's features, which are computed once.
    """
    layer: Annotated[int, Field(ge=1)] | Literal["best"] | None = None
    """After which of the encoder's layers the heads stand; what is above it is left out. Null: the last.

    ``best``, with mode head: the one whose heads score best on the validation part.
    """
    lora_rank: Annotated[int, Field(ge=1)] = 8
    lora_alpha: Annotated[float, Field(gt=0)] = 16.0
    lora_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    lora_targets: Annotated[list[str], Field(min_length=1)] | None = None
    """Last part of the names of the linear layers that get adapters; null for the architecture's own choice."""
    merge: bool = False
    """With mode lora: also write the bundle with its adapters merged into the weights, which needs no peft."""

    @model_validator(mode="after")
    def _check(self) -> StartSpec:
        if self.layer == "best" and self.mode != "head":
            raise ValueError("layer 'best' goes with mode head; with other modes name the layer")
        if self.merge and self.mode != "lora":
            raise ValueError(f"merge goes with mode lora; with mode {self.mode} there are no adapters to merge")
        return self


class RunSpec(Spec):
    """A run, saved as ``run.json`` beside every artefact. ``origin`` says where each dotted key came from."""

    schema_version: Literal[1] = 1
    task: TaskSpec
    dataset: DatasetSpec
    data_file: str | None = None
    """A user's own file, where the run is not on a declared data set."""
    model: ModelChoice
    start: StartSpec | None = None
    train: TrainSpec
    seed: Annotated[int, Field(ge=0)] = 0
    split_seed: Annotated[int, Field(ge=0)] = 0
    budget_seconds: Annotated[float, Field(gt=0)] | None = None
    threads: Annotated[int, Field(ge=1)]
    device: Literal["cpu", "gpu", "auto"] = "auto"
    devices: Annotated[int, Field(ge=1)] = 1
    """Processes that share every optimiser step, one per GPU where there are some."""
    save_every_steps: Annotated[int, Field(ge=1)] | None = None
    save_every_minutes: Annotated[float, Field(ge=0)] | None = 5.0
    """How often ``last.ckpt`` is written, beside at a signal and at the end; null for never."""
    on_invalid: Literal["error", "skip"] = "skip"
    baseline: bool = True
    origin: dict[str, str] = {}

    def with_layer(self, layer: int) -> RunSpec:
        """Return the run with a layer of the model it starts from that was chosen on validation."""
        if self.start is None:
            raise ValueError("only a run that starts from a model has a layer to choose")
        start = self.start.model_copy(update={"layer": layer})
        return self.model_copy(update={"start": start, "origin": {**self.origin, "start.layer": _CHOSEN}})

    @property
    def layer_was_chosen(self) -> int | None:
        """The layer that :meth:`with_layer` set, or None."""
        chosen = self.start is not None and self.origin.get("start.layer") == _CHOSEN
        return self.start.layer if chosen and self.start is not None and isinstance(self.start.layer, int) else None
