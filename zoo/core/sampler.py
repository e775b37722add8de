"""The order of the data: a pure function of (seed, epoch), cut into optimiser windows.

Windows hold a number of items each (:class:`ByCount`), or items of about the same total cost and of like cost each
(:class:`ByCost`), so that little of a padded batch is padding. Every epoch has the same number of windows, each item
stands in exactly one, and windows are formed over all ranks before they are dealt out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

_BUCKET = 64
"""Windows whose items are sorted by cost together: more waste less on padding, fewer mix better."""


def epoch_order(n: int, seed: int, epoch: int) -> np.ndarray:
    """Return a permutation of ``0 .. n-1`` that depends on nothing but its arguments."""
    order: np.ndarray = np.random.default_rng([seed, epoch, 0x5A00]).permutation(n)
    return order


def n_windows(n: int, batch_size: int) -> int:
    """Return the optimiser steps of an epoch; the last window may be short, none is dropped."""
    return -(-n // batch_size)


def lap_bounds(windows: int, laps: int) -> list[int]:
    """Return ``laps + 1`` ascending window numbers from 0 to ``windows``: where an epoch's validations stand."""
    return [windows * lap // laps for lap in range(laps + 1)]


class Plan(Protocol):
    """How ``n`` items are cut into windows."""

    @property
    def windows(self) -> int:
        """Windows of an epoch, the same in every one."""
        ...

    @property
    def what(self) -> str:
        """What a window holds, in words."""
        ...

    def epoch(self, seed: int, epoch: int) -> list[np.ndarray]:
        """Return the items of each window of an epoch."""
        ...

    def deal(self, items: np.ndarray, parts: int) -> list[np.ndarray]:
        """Return the items of one window in ``parts`` pieces of nearly equal work, some of which may be empty."""
        ...

    def heaviest(self, order: np.ndarray, parts: int) -> np.ndarray:
        """Return, of items in descending order of work, as many as one of ``parts`` pieces of a window may hold."""
        ...

    def evaluation_limit(self, microbatches: int) -> float:
        """Return the limit of a batch that can be evaluated wherever a microbatch can be trained on."""
        ...


@dataclass(frozen=True)
class ByCount:
    """``batch_size`` items a window; the last one of an epoch may be short."""

    n: int
    batch_size: int

    @property
    def windows(self) -> int:
        """Windows of an epoch."""
        return n_windows(self.n, self.batch_size)

    @property
    def what(self) -> str:
        """What a window holds, in words."""
        return f"{self.batch_size} items"

    def epoch(self, seed: int, epoch: int) -> list[np.ndarray]:
        """Return the items of each window of an epoch."""
        order = epoch_order(self.n, seed, epoch)
        return [order[start : start + self.batch_size] for start in range(0, self.n, self.batch_size)]

    def deal(self, items: np.ndarray, parts: int) -> list[np.ndarray]:
        """Return consecutive pieces of nearly equal length.

        A short last window has the same number of pieces as any other; some of them may then be empty, so that every
        rank takes part in every step.
        """
        return np.array_split(items, parts)

    def heaviest(self, order: np.ndarray, parts: int) -> np.ndarray:
        """Return the first items, as many as one of ``parts`` pieces of a window may hold."""
        return order[: -(-self.batch_size // parts)]

    def evaluation_limit(self, microbatches: int) -> float:
        """Return how many items are evaluated at once."""
        return max(64, -(-self.batch_size // microbatches))


class ByCost:
    """Windows of about the same total cost, each of items of like cost.

    An epoch's random order is cut into buckets, a bucket sorted by cost (up and down in turn, so that neighbours at a
    seam are alike), the whole cut where the running total passes a multiple of the budget, and the windows shuffled.

    Parameters
    ----------
    cost
        ``(n,)`` of each item.
    budget
        Total cost of a window. A window exceeds it by less than one item and its share of a rest too small for a
        window of its own; an item that costs more stands alone.
    """

    def __init__(self, cost: np.ndarray, budget: float) -> None:
        self.cost = np.minimum(cost.astype(np.float64), budget)
        self.budget = budget
        self.windows = max(1, int(self.cost.sum() // budget))
        self.what = f"items of cost {budget:g}"

    def epoch(self, seed: int, epoch: int) -> list[np.ndarray]:
        """Return the items of each window of an epoch."""
        order = epoch_order(len(self.cost), seed, epoch)
        buckets = np.array_split(order, max(1, round(self.windows / _BUCKET)))
        ordered = [own[np.argsort(self.cost[own], kind="stable")] for own in buckets]
        ordered = [own[::-1] if number % 2 else own for number, own in enumerate(ordered)]
        windows = self._cut(np.concatenate(ordered), self.windows)
        return [windows[i] for i in epoch_order(self.windows, seed, epoch)]

    def deal(self, items: np.ndarray, parts: int) -> list[np.ndarray]:
        """Return consecutive pieces of nearly equal cost."""
        return self._cut(items, parts)

    def heaviest(self, order: np.ndarray, parts: int) -> np.ndarray:
        """Return the first items, as many as one of ``parts`` pieces of a window may hold."""
        return order[: 1 + int(np.searchsorted(self.cost[order].cumsum(), self.budget / parts))]

    def evaluation_limit(self, microbatches: int) -> float:
        """Return how much is evaluated at once."""
        return self.budget / microbatches

    def _cut(self, items: np.ndarray, parts: int) -> list[np.ndarray]:
        """Cut a sequence of items where its running cost passes a part's share.

        An item belongs where its middle lies. No item costs more than the share of a window, so no window is empty.
        """
        cost = self.cost[items]
        middle = cost.cumsum() - cost / 2
        bounds = np.searchsorted(middle, cost.sum() * np.arange(1, parts) / parts)
        return np.split(items, bounds)
