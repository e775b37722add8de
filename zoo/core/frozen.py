"""Heads on a frozen encoder: its features are computed once and stand in for it while the heads are trained."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo.core.ragged import ragged_index


@dataclass
class Features:
    """Features by level, ``(n, d)`` each."""

    by_level: dict[str, Tensor]

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Features:
        """Move to a device; floats also change to ``dtype``."""
        return Features({level: x.to(device=device, dtype=dtype) for level, x in self.by_level.items()})


class Featured(nn.Module):
    """Stands where the frozen encoder would, and hands on what that one gave."""

    def __init__(self, dims: Mapping[str, int]) -> None:
        super().__init__()
        self.dims = dict(dims)

    def forward(self, inputs: Features) -> dict[str, Tensor]:
        """Return the features by level."""
        return inputs.by_level


class FrozenItems:
    """Items whose inputs are a frozen encoder's features; all else is as the items say.

    Parameters
    ----------
    items
        The ``n`` items.
    features
        By level ``(N, d)``; the rows of place ``p`` are ``ptr[level][p] : ptr[level][p + 1]``.
    ptr
        By level, offsets of the places.
    place
        ``(n,)`` the place of each item.
    """

    def __init__(
        self, items: Any, features: Mapping[str, np.ndarray], ptr: Mapping[str, np.ndarray], place: np.ndarray
    ) -> None:
        self._items, self._features, self._ptr, self._place = items, dict(features), dict(ptr), place

    @property
    def fingerprint(self) -> str:
        """A hash of one row of each item's features: another one says that they were computed anew."""
        digest = hashlib.sha256()
        for level, values in sorted(self._features.items()):
            ptr = self._ptr[level]
            filled = self._place[ptr[self._place] < ptr[self._place + 1]]
            digest.update(np.ascontiguousarray(values[ptr[filled]]).tobytes())
        return digest.hexdigest()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._items, name)

    def __len__(self) -> int:
        return len(self._items)

    def collate(self, index: np.ndarray, dtype: torch.dtype) -> Features:
        """Return the features of the items ``index``."""
        found = {}
        for level, values in self._features.items():
            rows, _ = ragged_index(self._ptr[level], self._place[index])
            found[level] = torch.from_numpy(np.asarray(values[rows])).to(dtype)
        return Features(found)
