"""Heads and the network: from an encoder's features per level to one raw output per target."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from zoo.core.types import Batch
from zoo.errors import InputError
from zoo.specs.target import TargetSpec

HEAD_DEFAULTS: dict[str, int | float | str | bool] = {"head_width": 300, "head_layers": 1, "head_dropout": 0.0}


class LevelHead(nn.Module):
    """A perceptron shared by all targets of one level: ``(n, d) -> {target: (n, k)}``."""

    def __init__(self, n_in: int, targets: list[TargetSpec], width: int, layers: int, dropout: float) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        for _ in range(layers):
            blocks += [nn.Linear(n_in, width), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
            n_in = width
        self.trunk = nn.Sequential(*blocks)
        self.sizes = {t.name: t.n_outputs for t in targets}
        self.out = nn.Linear(n_in, sum(self.sizes.values()))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Return each target's raw outputs."""
        pieces = self.out(self.trunk(x)).split(list(self.sizes.values()), dim=1)
        return dict(zip(self.sizes, pieces, strict=True))


class Network(nn.Module):
    """An encoder and its heads: what a bundle's weights belong to.

    Parameters
    ----------
    encoder
        ``forward(inputs) -> {level: (n, dims[level])}`` with an attribute ``dims``. At a level in its ``answers``, if
        it has such, what it returns is the raw output of the level's one target, and no head is built.
    targets
        The targets; each takes its level's features.
    item_level
        The level at which item-level extra features are concatenated.
    n_features
        Number of those extra features.
    head
        ``head_width``, ``head_layers``, ``head_dropout``.
    """

    def __init__(
        self, encoder: nn.Module, targets: list[TargetSpec], item_level: str, n_features: int, head: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.item_level = item_level
        self.n_features = n_features
        dims: Mapping[str, int] = encoder.dims  # type: ignore[assignment]
        by_level: dict[str, list[TargetSpec]] = {}
        for target in targets:
            by_level.setdefault(target.level, []).append(target)
        answered = [by_level.pop(level) for level in getattr(encoder, "answers", ()) if level in by_level]
        self.answered = {_only(members, dims): members[0].level for members in answered}
        self.heads = nn.ModuleDict(
            {
                level: LevelHead(
                    dims[level] + (n_features if level == item_level else 0),
                    members,
                    int(head["head_width"]),
                    int(head["head_layers"]),
                    float(head["head_dropout"]),
                )
                for level, members in by_level.items()
            }
        )

    def with_encoder(self, encoder: nn.Module) -> Network:
        """Return a network of another encoder and the very same heads."""
        other = copy.copy(self)
        other._modules = {**self._modules, "encoder": encoder}  # noqa: SLF001 - its own class
        return other

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``{target: (n, k)}`` raw outputs (standardised values, or logits)."""
        found = self.encoder(batch.inputs)
        outputs = {name: found[level] for name, level in self.answered.items()}
        for level, head in self.heads.items():
            x = found[level]
            if level == self.item_level and self.n_features:
                if batch.features is None:
                    raise ValueError("this network was built with item-level features, and the batch has none")
                x = torch.cat([x, batch.features.to(x.dtype)], dim=1)
            outputs.update(head(x))
        return outputs


def _only(members: list[TargetSpec], dims: Mapping[str, int]) -> str:
    """Return the name of the one target of a level that the encoder answers itself."""
    target = members[0]
    if len(members) > 1 or target.n_outputs != dims[target.level]:
        raise InputError(
            f"at level {target.level} this architecture gives {dims[target.level]} outputs of its own to one target; "
            f"asked for: {', '.join(f'{t.name} ({t.n_outputs})' for t in members)}."
        )
    return target.name
