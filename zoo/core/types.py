"""The few types that every domain and every layer of the training core shares."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor


@dataclass
class Target:
    """Labels of one target in one batch.

    Parameters
    ----------
    values
        ``(n, k)`` floats; for a multiclass target ``(n,)`` class indices. Never NaN: the mask says what is missing.
    mask
        Boolean, the shape of ``values``; the only notion of missing.
    weight
        Sample weight of each of the ``n`` items (or nodes), or None.
    """

    values: Tensor
    mask: Tensor
    weight: Tensor | None = None

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Target:
        """Move to a device; floats also change to ``dtype``."""
        return Target(
            _move(self.values, device, dtype),
            self.mask.to(device),
            None if self.weight is None else _move(self.weight, device, dtype),
        )


class Inputs(Protocol):
    """What a domain's collate makes: a plain dataclass of tensors that moves as one."""

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """Move to a device; floats also change to ``dtype``."""
        ...


@dataclass
class Batch:
    """One microbatch of ``n`` items.

    ``rows`` holds the row of each item in the data set, from 0. ``features`` are scaled item-level extras
    ``(n, f)`` (descriptors, pH, temperature). ``counts`` are the denominators of this rank's whole optimiser window,
    one per target in the order of ``targets``; None in evaluation and prediction. ``key`` says where the loader stands:
    (epoch, window, microbatch) in training, of which random keys are made, and (batch,) in evaluation. ``place`` holds,
    for targets whose items are evaluated in another order than they are asked for, the place of every output's item.
    """

    inputs: Any
    targets: dict[str, Target]
    rows: Tensor
    features: Tensor | None = None
    counts: Tensor | None = None
    key: tuple[int, ...] = field(default=())
    place: dict[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.rows.numel())

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Batch:
        """Move everything but the counts to a device; floats also change to ``dtype``.

        The counts stay float64 on the host, where they are needed: to fetch them would make a GPU wait.
        """
        return replace(
            self,
            inputs=self.inputs.to(device, dtype),
            targets={name: t.to(device, dtype) for name, t in self.targets.items()},
            rows=self.rows.to(device),
            features=None if self.features is None else _move(self.features, device, dtype),
        )


@dataclass(frozen=True)
class SumCount:
    """A sum over valid elements and their (weighted) number; means are formed once, at the very end."""

    total: Tensor
    count: Tensor

    def __add__(self, other: SumCount) -> SumCount:
        return SumCount(self.total + other.total, self.count + other.count)

    def mean(self) -> Tensor:
        """Return total / count, and 0 where nothing was valid."""
        return torch.where(self.count > 0, self.total / self.count.clamp_min(torch.finfo(torch.float64).tiny), 0.0)


@dataclass
class Labels:
    """All labels of one target, for a whole data set, on the host.

    ``values`` and ``mask`` are ``(n_items, k)`` (multiclass: ``(n_items,)`` int64). For a node level (atom, bond,
    residue) they are flat over all nodes, and ``ptr`` ``(n_items + 1,)`` says which nodes belong to which item.
    ``weight`` is per item.
    """

    values: np.ndarray
    mask: np.ndarray
    weight: np.ndarray | None = None
    ptr: np.ndarray | None = None


@dataclass(frozen=True)
class RowProblem:
    """Why a row has no item: row from 0, the value as given, the reason in words."""

    row: int
    value: str
    reason: str


class Items(Protocol):
    """Featurised items in flat host arrays, so that collating a batch is a few vectorised gathers."""

    features: np.ndarray | None
    """``(n, f)`` unscaled float64 item-level features (descriptors), or None."""
    feature_names: list[str]

    def __len__(self) -> int: ...

    def collate(self, index: np.ndarray, dtype: torch.dtype) -> Any:
        """Return the domain's inputs for the items ``index`` (int64, repeats allowed, may be empty)."""
        ...

    def size(self) -> np.ndarray:
        """Return ``(n,)`` work units per item (atoms, tokens, voxels), for memory checks and sorting."""
        ...

    def node_ptr(self, level: str) -> np.ndarray:
        """Return ``(n + 1,)`` offsets of each item's nodes at a node level (``atom``, ``residue``, ``pair``)."""
        ...

    def node_source(self, level: str) -> np.ndarray:
        """Return, for every node, its index in its item's input order."""
        ...

    def n_source(self, level: str) -> np.ndarray:
        """Return ``(n,)``: how many nodes each item's input had (the length that a label list must have)."""
        ...

    def subset(self, index: np.ndarray) -> Self:
        """Return the items ``index`` as a new object."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything as named arrays (numbers only), for the cache on disk."""
        ...

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Return the items whose :meth:`arrays` are given."""
        ...


class TokenItems(Items, Protocol):
    """Items whose nodes are classes themselves, so that some may be hidden and asked for (``objective: masked``).

    Their ``collate`` takes a third argument, a :class:`zoo.core.masking.Hidden` or None.
    """

    def node_classes(self, level: str) -> tuple[np.ndarray, np.ndarray]:
        """Return ``(N,)`` the class of every node, and whether it may be asked for."""
        ...

    def node_keys(self) -> np.ndarray:
        """Return ``(n,)`` a number of each item that depends on nothing else."""
        ...


class CostedItems(Items, Protocol):
    """Items that know what they cost, for steps of equal work (``train.batch_cost``)."""

    def cost(self) -> np.ndarray:
        """Return ``(n,)`` how much computing each item takes."""
        ...


@dataclass
class Featurised:
    """What a domain's one featuriser makes of a column of raw inputs.

    ``position[i]`` is the position in the given inputs that item ``i`` came from, ascending; inputs without an item
    are in ``problems``. Two items with the same ``key`` are the same thing (duplicates). ``notes`` counts what was
    changed on the way in, for example ``{"salt or solvent removed": 12}``; ``node_problems`` rows whose labels at a
    node level would be ambiguous belong into ``problems`` too.
    """

    position: np.ndarray
    key: list[str]
    items: Any
    problems: list[RowProblem]
    notes: dict[str, int]


def _move(tensor: Tensor, device: torch.device | str | None, dtype: torch.dtype | None) -> Tensor:
    return tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None)
