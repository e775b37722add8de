"""Verify a network of your own: `python examples/own_network.py`, or `conformance.check(CASE)` in a test.

The items are sets of points, of different sizes; a batch pads them to its largest set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo.core import conformance
from zoo.core.datamodule import ZooDataModule
from zoo.core.module import ZooModule
from zoo.core.types import Batch, Labels
from zoo.specs.target import TargetSpec


@dataclass
class Points:
    """A batch of n sets: coordinates (n, m, 3), and which of the m places are taken (n, m, 1)."""

    x: Tensor
    taken: Tensor

    def to(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Points:
        """Move to a device, floats to a type."""
        return Points(self.x.to(device, dtype), self.taken.to(device))


class Sets:
    """All items; a batch is collated from them."""

    def __init__(self, sets: list[np.ndarray]) -> None:
        self.sets = sets

    def __len__(self) -> int:
        return len(self.sets)

    def size(self) -> np.ndarray:
        """Return the number of points of each set."""
        return np.array([len(s) for s in self.sets])

    def collate(self, index: Sequence[int], dtype: torch.dtype) -> Points:
        """Return the sets `index` as one batch."""
        chosen = [torch.as_tensor(self.sets[i], dtype=dtype) for i in index]
        longest = max(map(len, chosen), default=1)
        x, taken = torch.zeros(len(chosen), longest, 3, dtype=dtype), torch.zeros(len(chosen), longest, 1).bool()
        for i, s in enumerate(chosen):
            x[i, : len(s)], taken[i, : len(s)] = s, True
        return Points(x, taken)


class SetNetwork(nn.Module):
    """The network: each point through a perceptron, then the mean over the points that are there."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.point = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 2))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return one column per target."""
        x, taken = batch.inputs.x, batch.inputs.taken
        mean = torch.where(taken, self.point(x), 0).sum(1) / taken.sum(1)
        radius, inside = self.out(self.norm(mean)).split(1, dim=1)
        return {"radius": radius, "inside": inside}


TARGETS = [
    TargetSpec(name="radius", level="structure", kind="regression", unit="nm"),
    TargetSpec(name="inside", level="structure", kind="binary", weight=0.5),
]


def data() -> tuple[Sets, dict[str, Labels]]:
    """Return all items, and of each target the labels with a mask that says which of them there are."""
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(rng.integers(1, 12), 3)) for _ in range(60)]
    radius = np.array([[np.linalg.norm(s, axis=1).mean()] for s in sets])
    inside = (radius < 1.5).astype(float)
    return Sets(sets), {n: Labels(v, rng.random((60, 1)) < 0.8) for n, v in (("radius", radius), ("inside", inside))}


def make(**train: Any) -> tuple[ZooModule, ZooDataModule]:
    """Return module and data; the zoo calls this with settings such as precision="64" or batch_size=7."""
    return conformance.small_problem(SetNetwork, *data(), TARGETS, **train)


def reordered(module: ZooModule, problem: ZooDataModule) -> list[tuple[Tensor, Tensor]]:
    """Return pairs that must agree: the outputs for the same sets with their points in another order."""
    rng = np.random.default_rng(1)
    source, everything = problem.source, np.arange(len(problem.source.items))
    other = replace(source, items=Sets([rng.permutation(s) for s in source.items.sets]))
    want, got = module(source.batch(everything)), module(other.batch(everything))
    return [(got[name], want[name]) for name in want]


CASE = conformance.Case("sets of points", make, symmetry=reordered)

if __name__ == "__main__":
    for rung in conformance.verify(CASE):
        print(conformance.describe(rung))
