"""What is predicted: one target of a task or of a model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from zoo.specs.base import Spec

Level = Literal["molecule", "atom", "bond", "sequence", "residue", "token", "pair", "image", "voxel", "structure"]
TargetKind = Literal["regression", "binary", "multiclass", "vector", "tensor"]
NODE_LEVELS: frozenset[str] = frozenset({"atom", "bond", "residue", "pair"})
"""Levels with many labels an item that stand in a column."""
MIN_SEPARATION = 6
"""Closer along a chain than this, nodes touch whatever the structure, and say nothing of it."""
LossName = Literal["mse", "mae", "huber", "bce", "cross_entropy"]
DEFAULT_LOSS: dict[str, LossName] = {
    "regression": "mse",
    "binary": "bce",
    "multiclass": "cross_entropy",
    "vector": "mse",
    "tensor": "mse",
}


class TargetSpec(Spec):
    """One target: where its labels stand, what they mean and how they enter the loss.

    ``name`` is the key everywhere (loss, metrics, prediction columns); ``column`` the data set's column, by default
    the same. ``objective`` says where labels come from: ``labels``, that column, or ``masked``, the input itself, of
    which some nodes are hidden and asked for (the level is then ``token``). ``loss`` is by default that of the kind.
    ``classes`` lists the labels as they stand in the file; ``positive`` is the one a binary target's probability speaks
    of (by default the second class).
    """

    name: Annotated[str, Field(min_length=1)]
    column: str = ""
    level: Level
    kind: TargetKind
    objective: Literal["labels", "masked"] = "labels"
    unit: str | None = None
    loss: LossName | None = None
    weight: Annotated[float, Field(gt=0)] = 1.0
    classes: list[str] | None = None
    positive: str | None = None
    mask_column: str | None = None
    """Column that says for every node whether its label is known, as ``0111`` or ``[0, 1, 1, 1]`` (resolved residues).
    """
    min_separation: Annotated[int, Field(ge=1)] | None = None
    """At level ``pair``, whose cells list the pairs in contact (``[[0, 12], [3, 40]]``): pairs of nodes closer in the
    input are masked. Default: 6; 24 leaves what is called long range."""
    pos_weight: Annotated[float, Field(gt=0)] | None = None
    class_weights: list[float] | None = None
    transform: Literal["standardize", "none", "log10"] | None = None
    """``log10`` also standardises after the logarithm. Default: ``standardize`` for regression, else ``none``."""
    irreps: str | None = None
    censoring: Literal["error", "mask"] = "error"

    @model_validator(mode="after")
    def _check(self) -> TargetSpec:
        allowed = {
            "regression": {"mse", "mae", "huber"},
            "binary": {"bce"},
            "multiclass": {"cross_entropy"},
            "vector": {"mse", "mae", "huber"},
            "tensor": {"mse", "mae", "huber"},
        }
        if self.loss is not None and self.loss not in allowed[self.kind]:
            raise ValueError(f"loss {self.loss!r} does not go with kind {self.kind!r}: {sorted(allowed[self.kind])}")
        if self.kind == "multiclass" and (self.classes is None or len(self.classes) < 2):
            raise ValueError("a multiclass target lists at least two `classes`")
        if self.kind == "binary" and self.classes is not None and len(self.classes) != 2:
            raise ValueError("a binary target has exactly two `classes`")
        if self.classes is not None and len(set(self.classes)) != len(self.classes):
            raise ValueError("`classes` holds a name twice")
        if self.positive is not None and (self.classes is None or self.positive not in self.classes):
            raise ValueError("`positive` must be one of `classes`")
        if self.class_weights is not None and len(self.class_weights) != len(self.classes or []):
            raise ValueError("`class_weights` needs one weight per class")
        if (self.objective == "masked") != (self.level == "token"):
            raise ValueError("`objective: masked` and `level: token` go together")
        if self.objective == "masked" and self.kind != "multiclass":
            raise ValueError("a masked target is multiclass: its classes are the tokens")
        if self.transform not in (None, "none") and self.kind in ("binary", "multiclass"):
            raise ValueError("a classified target has no transform")
        return self

    @model_validator(mode="after")
    def _check_mask(self) -> TargetSpec:
        if self.mask_column is not None and self.level not in NODE_LEVELS:
            raise ValueError(f"`mask_column` needs a level with many labels an item, not {self.level!r}")
        return self

    @model_validator(mode="after")
    def _check_pairs(self) -> TargetSpec:
        if self.level != "pair" and self.min_separation is not None:
            raise ValueError(f"`min_separation` goes with level 'pair', not {self.level!r}")
        if self.level == "pair" and (self.kind != "binary" or self.classes is not None):
            raise ValueError("a target of pairs is binary, without `classes`: its column lists the pairs in contact")
        return self

    @property
    def separation(self) -> int:
        """The least separation of pairs, spelled out."""
        return self.min_separation or MIN_SEPARATION

    @property
    def source(self) -> str:
        """The column the labels stand in."""
        return self.column or self.name

    @property
    def loss_name(self) -> LossName:
        """The loss, spelled out."""
        return self.loss or DEFAULT_LOSS[self.kind]

    @property
    def of_nodes(self) -> bool:
        """Whether a cell of the column holds the labels of all nodes, or pairs of nodes, of the row's input."""
        return self.level in NODE_LEVELS

    @property
    def scaling(self) -> str:
        """The transform, spelled out."""
        return self.transform or ("standardize" if self.kind == "regression" else "none")

    @property
    def n_outputs(self) -> int:
        """Number of raw outputs the head makes for this target."""
        return len(self.classes or []) if self.kind == "multiclass" else 3 if self.kind == "vector" else 1

    @property
    def class_names(self) -> list[str]:
        """Class names in the order of their index; for a binary target index 1 is the positive one."""
        names = list(self.classes or ["0", "1"])
        if self.kind == "binary" and self.positive == names[0]:
            names.reverse()
        return names
