"""Items in batches of like cost, where their order does not matter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

_BUDGET = 4096
"""Work of a batch where items know what they cost (tokens, say), padding included."""
_ITEMS = 256


def batches(items: Any, budget: float = _BUDGET) -> Iterator[np.ndarray]:
    """Yield all items in batches of like cost, the dearest first, each of at most the budget with its padding."""
    if not hasattr(items, "cost"):
        yield from np.split(np.arange(len(items)), range(_ITEMS, len(items), _ITEMS)) if len(items) else ()
        return
    cost = items.cost()
    order = np.argsort(-cost, kind="stable")
    start = 0
    while start < len(order):
        count = max(1, int(budget // cost[order[start]]))
        yield order[start : start + count]
        start += count
