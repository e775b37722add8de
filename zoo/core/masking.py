"""Learning from inputs alone: some nodes of an item are hidden, and the model is asked what they were.

Which ones is a pure function of the item, the seed and the epoch: it depends neither on the batch nor on the ranks, and
needs no saved state. In evaluation it is the same for every run, so that scores compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zoo.core.ragged import ragged_index
from zoo.core.types import Labels, TokenItems
from zoo.specs.target import TargetSpec

SHARE, MASKED, REPLACED = 0.15, 0.8, 0.1
"""The share of nodes asked for; of these, the shares that are masked and replaced; the rest stay as they are.

Devlin et al. 2019, arXiv:1810.04805.
"""
_EVALUATION = (0, 0)
"""Seed and epoch of what is hidden in evaluation; epochs of training count from 1."""


@dataclass(frozen=True)
class Hidden:
    """Which nodes of a batch are asked for, and what the model sees in their places.

    Parameters
    ----------
    nodes
        ``(m,)`` int64 positions on the batch's axis of nodes, ascending.
    masked, replaced
        ``(m,)`` bool: show that something is hidden, or show a random node.
    pick
        ``(m,)`` uniform in [0, 1): which random node.
    sizes
        ``(b,)`` int64: how many nodes each item is asked for.
    """

    nodes: np.ndarray
    masked: np.ndarray
    replaced: np.ndarray
    pick: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True)
class Hiding:
    """What may be hidden in a data set.

    Parameters
    ----------
    targets
        Names of the targets that ask for hidden nodes.
    ptr
        ``(n + 1,)`` offsets of each item's nodes.
    allowed
        ``(N,)`` bool: the nodes that may be asked for.
    keys
        ``(n,)`` a number of each item that depends on nothing else.
    seed
        Of the run.
    """

    targets: tuple[str, ...]
    ptr: np.ndarray
    allowed: np.ndarray
    keys: np.ndarray
    seed: int

    @classmethod
    def of(cls, targets: Sequence[TargetSpec], items: TokenItems, seed: int) -> Hiding | None:
        """Return what the masked ones among targets hide, or None where there are none."""
        masked = [t for t in targets if t.objective == "masked"]
        if not masked:
            return None
        level = masked[0].level
        return cls(
            tuple(t.name for t in masked),
            items.node_ptr(level),
            items.node_classes(level)[1],
            items.node_keys(),
            seed,
        )

    def draw(self, index: np.ndarray, epoch: int | None) -> Hidden:
        """Return what is hidden of the items ``index`` in an epoch of training, or (None) in evaluation.

        Of an item with ``a`` allowed nodes ``round(0.15 a)`` are asked for, at least one if there is one.
        """
        seed, number = _EVALUATION if epoch is None else (self.seed, epoch + 1)
        offset, nodes, draws = 0, [], []
        for item in index.tolist():
            own = slice(int(self.ptr[item]), int(self.ptr[item + 1]))
            at = np.flatnonzero(self.allowed[own])
            rng = np.random.default_rng([int(self.keys[item]), seed, number])
            count = min(len(at), max(1, round(SHARE * len(at))))
            nodes.append(np.sort(rng.permutation(at)[:count]) + offset)
            draws.append(rng.random((count, 2)))
            offset += own.stop - own.start
        what, pick = np.concatenate([np.zeros((0, 2)), *draws]).T
        return Hidden(
            nodes=np.concatenate([np.zeros(0, np.int64), *nodes]),
            masked=what < MASKED,
            replaced=(what >= MASKED) & (what < MASKED + REPLACED),
            pick=pick,
            sizes=np.asarray([len(own) for own in nodes], np.int64),
        )

    def labels(self, labels: Labels, index: np.ndarray) -> Labels:
        """Return the labels of the nodes that evaluation hides of the items ``index``, in that order."""
        hidden = self.draw(index, None)
        where = ragged_index(self.ptr, index)[0][hidden.nodes]
        ptr = np.concatenate([[0], np.cumsum(hidden.sizes)])
        weight = None if labels.weight is None else labels.weight[index]
        return Labels(labels.values[where], labels.mask[where], weight, ptr)
