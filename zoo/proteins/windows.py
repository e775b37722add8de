"""Windows over sequences that are longer than a model takes, and the share of each in what is said of a residue."""

from __future__ import annotations

import numpy as np


def window_starts(length: int, size: int, overlap: int) -> np.ndarray:
    """Return where the windows of ``size`` residues over a sequence begin; the last one ends where the sequence does.

    Neighbours share at least ``overlap`` residues.
    """
    if length <= size:
        return np.zeros(1, np.int64)
    count = 1 + -(-(length - size) // (size - overlap))
    # Spread evenly, so that no two windows overlap much more than others.
    return np.round(np.linspace(0, length - size, count)).astype(np.int64)


def window_shares(length: int, size: int, starts: np.ndarray) -> np.ndarray:
    """Return ``(w, min(size, length))``: how much each place of each window counts; a residue's shares sum to 1.

    A place counts in proportion to its distance from the nearer end of its window, for residues near an end see
    little of their surroundings.
    """
    size = min(size, length)
    at = np.arange(size)
    ramp = np.minimum(at + 1, size - at).astype(np.float64)
    position = starts[:, None] + at
    total = np.bincount(position.ravel(), np.tile(ramp, len(starts)), minlength=length)
    shares: np.ndarray = ramp / total[position]
    return shares
