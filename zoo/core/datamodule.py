"""The data module: whole optimiser windows for training, rows in order for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import lightning as L
import numpy as np
import torch

from zoo.core.batching import batches, knows_cost, usual_limit
from zoo.core.losses import MaskedLoss
from zoo.core.masking import Hidden, Hiding
from zoo.core.ragged import ragged_index
from zoo.core.ranks import rank, ranks
from zoo.core.reduction import local_counts
from zoo.core.sampler import ByCost, ByCount, Plan, lap_bounds
from zoo.core.types import Batch, Items, Labels, Target
from zoo.errors import InputError
from zoo.specs.target import TargetSpec


def node_levels(targets: Sequence[TargetSpec], item_level: str) -> dict[str, str | None]:
    """Return each target's level of nodes, or None for one output an item."""
    return {t.name: None if t.level == item_level else t.level for t in targets}


@dataclass
class DataSource:
    """Featurised items with scaled labels and features, ready to be cut into batches.

    ``labels`` are in standardised units, ``features`` ``(n, f)`` scaled or None, ``rows`` ``(n,)`` the row of each
    item in the data set, ``dtype`` that of every float a batch holds, ``hiding`` what masked targets hide, ``levels``
    what :func:`node_levels` returns; only items that know their cost need it.
    """

    items: Items
    rows: np.ndarray
    labels: Mapping[str, Labels]
    features: np.ndarray | None
    dtype: torch.dtype
    hiding: Hiding | None = None
    levels: Mapping[str, str | None] = field(default_factory=dict)

    def batch(self, index: np.ndarray, epoch: int | None = None, places: np.ndarray | None = None) -> Batch:
        """Return the items ``index`` as one batch; an empty index gives a ghost batch with every mask empty.

        ``epoch`` is that of training, by which masked targets hide other nodes every time; None in evaluation.
        ``places`` are the items' places among those asked for, where that is another order.
        """
        hidden = None if self.hiding is None else self.hiding.draw(index, epoch)
        features = None if self.features is None else torch.from_numpy(self.features[index]).to(self.dtype)
        return Batch(
            inputs=self._inputs(index, hidden),
            targets={name: self._target(name, labels, index, hidden) for name, labels in self.labels.items()},
            rows=torch.from_numpy(self.rows[index]),
            features=features,
            place={}
            if places is None
            else {n: torch.from_numpy(np.repeat(places, self._n_outputs(n, index, hidden))) for n in self.levels},
        )

    def _n_outputs(self, name: str, index: np.ndarray, hidden: Hidden | None) -> np.ndarray:
        """Return how many outputs of a target each of the items ``index`` has."""
        if self.hiding is not None and hidden is not None and name in self.hiding.targets:
            return hidden.sizes
        level = self.levels[name]
        return np.ones(len(index), np.int64) if level is None else np.diff(self.items.node_ptr(level))[index]

    def _inputs(self, index: np.ndarray, hidden: Hidden | None) -> Any:
        return self.items.collate(index, self.dtype, *([] if hidden is None else [hidden]))

    def _target(self, name: str, labels: Labels, index: np.ndarray, hidden: Hidden | None) -> Target:
        where, weight = index, None
        if labels.weight is not None:
            weight = labels.weight[index]
        if labels.ptr is not None:
            where, sizes = ragged_index(labels.ptr, index)
            if self.hiding is not None and hidden is not None and name in self.hiding.targets:
                where, sizes = where[hidden.nodes], hidden.sizes
            weight = None if weight is None else np.repeat(weight, sizes)
        values = torch.from_numpy(labels.values[where])
        return Target(
            values.to(self.dtype) if values.is_floating_point() else values,
            torch.from_numpy(labels.mask[where]),
            None if weight is None else torch.from_numpy(weight).to(self.dtype),
        )


class WindowLoader:
    """Yields one list of microbatches per optimiser step; each carries the denominators of the rank's whole window.

    The place in the data is the pair (epoch, window), kept here and set from outside on resume. Iterating goes from
    the place to the end of the lap, the stretch between two validations, of which an epoch has ``laps``; the place
    moves on when a window has been worked off (:meth:`advance`), never when it is merely fetched. On several ranks
    every rank gets its own pieces of the same windows, a ghost batch where there are too few items.
    """

    def __init__(
        self,
        source: DataSource,
        index: np.ndarray,
        losses: dict[str, MaskedLoss],
        *,
        plan: Plan,
        microbatches: int,
        seed: int,
        laps: int = 1,
    ) -> None:
        self.source, self.index, self.losses = source, index, losses
        self.plan, self.microbatches, self.seed = plan, microbatches, seed
        self.epoch = 0
        self.start_window = 0
        self.windows = plan.windows
        self.laps = max(1, min(laps, self.windows))

    def __len__(self) -> int:
        return self._end() - self.start_window

    def _end(self) -> int:
        return lap_bounds(self.windows, self.laps)[self.lap + 1]

    @property
    def lap(self) -> int:
        """The lap of the epoch that the place is in, from 0."""
        return int(np.searchsorted(lap_bounds(self.windows, self.laps), self.start_window, side="right")) - 1

    def advance(self) -> bool:
        """Move to the next window; return whether a lap, and with it a validation, is due."""
        end = self._end()
        self.start_window += 1
        due = self.start_window == end
        if self.start_window == self.windows:
            self.epoch, self.start_window = self.epoch + 1, 0
        return due

    def __iter__(self) -> Iterator[list[Batch]]:
        epoch, start, end = self.epoch, self.start_window, self._end()
        order = self.plan.epoch(self.seed, epoch)
        for window in range(start, end):
            yield self.window(order[window], window, epoch)

    def shares(self, members: np.ndarray) -> list[np.ndarray]:
        """Return the items of each of this rank's microbatches of a window with these members (see the plan)."""
        k = self.microbatches
        return [self.index[own] for own in self.plan.deal(members, ranks() * k)[rank() * k : (rank() + 1) * k]]

    def window(self, members: np.ndarray, window: int, epoch: int) -> list[Batch]:
        """Return this rank's microbatches of one window."""
        batches = [self.source.batch(share, epoch) for share in self.shares(members)]
        return with_counts(self.losses, batches, key=(epoch, window))


def with_counts(losses: dict[str, MaskedLoss], batches: list[Batch], key: tuple[int, ...]) -> list[Batch]:
    """Return a window's microbatches with its denominators and their random keys filled in."""
    counts = local_counts(losses, [b.targets for b in batches])
    return [replace(b, counts=counts, key=(*key, i)) for i, b in enumerate(batches)]


class BatchLoader:
    """Yields the items ``index``, each exactly once; ``key`` holds the number of the batch.

    Items that know their cost come in batches of like cost, with their places, by which the outputs are put back into
    order; others come in order.

    Parameters
    ----------
    source, index
        The data, and which of its items.
    limit, most
        Of a batch: see :func:`zoo.core.batching.batches`.
    spread
        Deal the batches out over the ranks, whole, so that each is the same batch on any number of ranks; a rank
        without one gets a ghost batch, for it takes part when the outputs are gathered.
    """

    def __init__(
        self,
        source: DataSource,
        index: np.ndarray,
        limit: float | None = None,
        *,
        most: int | None = None,
        spread: bool = False,
    ) -> None:
        self.source, self.index, self.spread = source, index, spread
        self.sorted = knows_cost(source.items)
        if self.sorted and not source.levels:
            raise ValueError("items that know their cost are evaluated out of order: tell the levels of the targets")
        pieces = list(batches(source.items, index, limit, most))
        first, step = (rank(), ranks()) if spread else (0, 1)
        self.numbered = list(enumerate(pieces))[first::step]
        if spread and not self.numbered:
            self.numbered = [(len(pieces) + first, np.zeros(0, np.int64))]

    def __len__(self) -> int:
        return len(self.numbered)

    def __iter__(self) -> Iterator[Batch]:
        for number, places in self.numbered:
            batch = self.source.batch(self.index[places], places=places if self.sorted else None)
            yield replace(batch, key=(number,))


class ZooDataModule(L.LightningDataModule):
    """Training windows and evaluation batches over one source.

    Parameters
    ----------
    source
        All items of the data set.
    parts
        Item positions of each part of the split.
    losses
        The losses, for counting a window's valid labels.
    batch_size, microbatches, seed
        Items per optimiser step over all ranks, the pieces a rank cuts its share into, and the seed of the order.
    laps
        Validations per epoch.
    batch_cost
        Total cost of a step's items by ``items.cost()``, instead of their number.
    """

    def __init__(
        self,
        source: DataSource,
        parts: Mapping[str, np.ndarray],
        losses: dict[str, MaskedLoss],
        *,
        batch_size: int,
        microbatches: int,
        seed: int,
        laps: int = 1,
        batch_cost: float | None = None,
    ) -> None:
        super().__init__()
        self.source, self.parts = source, parts
        index = parts["train"]
        plan: Plan = ByCount(len(index), batch_size)
        if batch_cost is not None:
            plan = ByCost(_cost(source.items)[index], batch_cost)
        self.train_loader = WindowLoader(
            source, index, losses, plan=plan, microbatches=microbatches, seed=seed, laps=laps
        )
        by_number = knows_cost(source.items) and batch_cost is None
        self.eval_limit = usual_limit(source.items) if by_number else plan.evaluation_limit(microbatches)
        """Of a batch in evaluation: see :func:`zoo.core.batching.batches`."""

    def train_dataloader(self) -> WindowLoader:
        """Return the loader of optimiser windows."""
        return self.train_loader

    def val_dataloader(self) -> Any:
        """Return the validation part in order, or no loader without one."""
        part = self.parts.get("val")
        return [] if part is None or not len(part) else self.loader(part)

    def loader(self, index: np.ndarray) -> BatchLoader:
        """Return a loader over some items in the order given, spread over the ranks."""
        return BatchLoader(self.source, index, self.eval_limit, spread=True)


def _cost(items: Items) -> np.ndarray:
    """Return what every item costs."""
    if not knows_cost(items):
        raise InputError(
            "train.batch_cost needs items that know what they cost, and these do not. Type "
            "--set train.batch_cost=null; train.batch_size counts items."
        )
    cost: np.ndarray = items.cost()
    return cost


def move_window(window: list[Batch] | Batch, device: torch.device) -> list[Batch] | Batch:
    """Move a window or a batch to a device."""
    return window.to(device) if isinstance(window, Batch) else [b.to(device) for b in window]


def random_key(seed: int, *parts: int) -> int:
    """Return a 63-bit seed from (seed, epoch, window, microbatch, rank), for dropout and augmentation."""
    entropy: Any = [seed, *parts]
    if seed < 2**32:
        entropy = np.array(entropy, np.uint32)  # the same words, in half the time
    low, high = np.random.SeedSequence(entropy).generate_state(2).tolist()
    return int(high << 32 | low) >> 1
