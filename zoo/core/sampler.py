"""The order of the data: a pure function of (seed, epoch), cut into optimiser windows."""

from __future__ import annotations

import numpy as np


def epoch_order(n: int, seed: int, epoch: int) -> np.ndarray:
    """Return a permutation of ``0 .. n-1`` that depends on nothing but its arguments."""
    order: np.ndarray = np.random.default_rng([seed, epoch, 0x5A00]).permutation(n)
    return order


def n_windows(n: int, batch_size: int) -> int:
    """Return the optimiser steps of an epoch; the last window may be short, none is dropped."""
    return -(-n // batch_size)


def window_parts(order: np.ndarray, window: int, batch_size: int, parts: int) -> list[np.ndarray]:
    """Return the items of one window in ``parts`` consecutive pieces of nearly equal size.

    A short last window has the same number of pieces as any other; some of them may then be empty, so that every rank
    takes part in every step.
    """
    items = order[window * batch_size : (window + 1) * batch_size]
    return np.array_split(items, parts)


def lap_bounds(windows: int, laps: int) -> list[int]:
    """Return ``laps + 1`` ascending window numbers from 0 to ``windows``: where an epoch's validations stand."""
    return [windows * lap // laps for lap in range(laps + 1)]
