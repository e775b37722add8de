"""Items in batches of like cost, where their order does not matter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

import numpy as np

from zoo.core.types import CostedItems

_BUDGET = 4096
"""Work of a batch where items know what they cost (tokens, say), padding included."""
_ITEMS = 256


def knows_cost(items: Any) -> TypeGuard[CostedItems]:
    """Whether items can say what they cost."""
    return hasattr(items, "cost")


def usual_limit(items: Any) -> float:
    """Return the limit of a batch that suits most machines: a cost where items know theirs, else a number of items."""
    return _BUDGET if knows_cost(items) else _ITEMS


def batches(
    items: Any, index: np.ndarray | None = None, limit: float | None = None, most: int | None = None
) -> Iterator[np.ndarray]:
    """Yield the positions of all items, or of those at ``index``, in batches.

    Parameters
    ----------
    items, index
        The items, and which of them.
    limit
        Of a batch: its cost, padding included, where items know theirs; there the dearest come first, and an item
        above the limit stands alone. Else its number of items, which stay in order. Default: the usual one.
    most
        Items of a batch, whatever they cost.
    """
    n = len(items) if index is None else len(index)
    limit = usual_limit(items) if limit is None else limit
    most = n if most is None else most
    cost = items.cost()[slice(None) if index is None else index] if knows_cost(items) else np.ones(n)
    order = np.argsort(-cost, kind="stable")
    start = 0
    while start < n:
        count = max(1, min(int(limit // cost[order[start]]), most))
        yield order[start : start + count]
        start += count
