"""Flat arrays of items that differ in length, with the offsets of each."""

from __future__ import annotations

import numpy as np


def ragged_index(ptr: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the flat positions of all nodes of the items ``index``, and the number of nodes of each."""
    sizes = ptr[index + 1] - ptr[index]
    starts = np.repeat(ptr[index] - (np.cumsum(sizes) - sizes), sizes)
    return starts + np.arange(int(sizes.sum())), sizes
