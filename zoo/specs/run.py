"""Everything one run needs, resolved and frozen."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from zoo.specs.base import Spec
from zoo.specs.dataset import DatasetSpec
from zoo.specs.task import ModelChoice, TaskSpec, TrainSpec


class RunSpec(Spec):
    """A run, saved as ``run.json`` beside every artefact. ``origin`` says where each dotted key came from."""

    schema_version: Literal[1] = 1
    task: TaskSpec
    dataset: DatasetSpec
    data_file: str | None = None
    """A user's own file, where the run is not on a declared data set."""
    model: ModelChoice
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
