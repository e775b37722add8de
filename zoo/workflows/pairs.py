"""Pairs of nodes as cells of a file: lists of those in contact, written as their labels are."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np

from zoo.core.types import Items
from zoo.specs.target import TargetSpec

LIKELY = 0.5
"""The least probability of a pair that a prediction lists."""


class ItemPairs(NamedTuple):
    """Some pairs of an item: positions in its input ``(k, 2)``, the smaller first, and places on the pair axis."""

    positions: np.ndarray
    places: np.ndarray


def pick_pairs(items: Items, level: str, target: TargetSpec, wanted: np.ndarray) -> list[ItemPairs]:
    """Return per item the wanted ones of its pairs of nodes of ``level``, each once, none closer than is allowed.

    ``wanted`` ``(N,)`` is of all pairs, each item's matrix row by row.
    """
    ptr, source, pair_ptr = items.node_ptr(level), items.node_source(level), items.node_ptr(target.level)
    found = []
    for i in range(len(items)):
        kept = source[ptr[i] : ptr[i + 1]].astype(np.int64)
        matrix = wanted[pair_ptr[i] : pair_ptr[i + 1]].reshape(len(kept), len(kept))
        first, second = np.nonzero(matrix & (kept - kept[:, None] >= target.separation))
        positions = np.stack([kept[first], kept[second]], axis=1)
        found.append(ItemPairs(positions, pair_ptr[i] + first * len(kept) + second))
    return found


def listed(pairs: list[ItemPairs]) -> list[str]:
    """Return each item's pairs as the JSON list that a label is."""
    return [json.dumps(own.positions.tolist()) for own in pairs]


def describe_pairs(items: Items, level: str, target: TargetSpec, pred: np.ndarray) -> dict[str, list[str]]:
    """Return a target's columns of a prediction file, for probabilities ``(N, 1)`` of all pairs.

    ``<target>_pred`` lists the likely pairs, ``<target>_prob`` their probabilities in the same order.
    """
    likely = pick_pairs(items, level, target, pred[:, 0] >= LIKELY)
    probabilities = [json.dumps(pred[own.places, 0].tolist()) for own in likely]
    return {f"{target.name}_pred": listed(likely), f"{target.name}_prob": probabilities}
