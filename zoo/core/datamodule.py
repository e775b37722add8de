"""The data module: whole optimiser windows for training, rows in order for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import lightning as L
import numpy as np
import torch
from torch import Tensor

from zoo.core.losses import MaskedLoss
from zoo.core.reduction import local_counts
from zoo.core.sampler import epoch_order, n_windows, window_parts
from zoo.core.types import Batch, Items, Labels, Target


@dataclass
class DataSource:
    """Featurised items with scaled labels and features, ready to be cut into batches.

    ``labels`` are in standardised units, ``features`` ``(n, f)`` scaled or None, ``rows`` ``(n,)`` the row of each
    item in the data set, ``dtype`` that of every float a batch holds.
    """

    items: Items
    rows: np.ndarray
    labels: Mapping[str, Labels]
    features: np.ndarray | None
    dtype: torch.dtype

    def batch(self, index: np.ndarray) -> Batch:
        """Return the items ``index`` as one batch; an empty index gives a ghost batch with every mask empty."""
        features = None if self.features is None else torch.from_numpy(self.features[index]).to(self.dtype)
        return Batch(
            inputs=self.items.collate(index, self.dtype),
            targets={name: self._target(labels, index) for name, labels in self.labels.items()},
            rows=torch.from_numpy(self.rows[index]),
            features=features,
        )

    def _target(self, labels: Labels, index: np.ndarray) -> Target:
        where, weight = index, None
        if labels.weight is not None:
            weight = labels.weight[index]
        if labels.ptr is not None:
            where, sizes = ragged_index(labels.ptr, index)
            weight = None if weight is None else np.repeat(weight, sizes)
        values = torch.from_numpy(labels.values[where])
        return Target(
            values.to(self.dtype) if values.is_floating_point() else values,
            torch.from_numpy(labels.mask[where]),
            None if weight is None else torch.from_numpy(weight).to(self.dtype),
        )


def ragged_index(ptr: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the flat positions of all nodes of the items ``index``, and the number of nodes of each."""
    sizes = ptr[index + 1] - ptr[index]
    starts = np.repeat(ptr[index] - (np.cumsum(sizes) - sizes), sizes)
    return starts + np.arange(int(sizes.sum())), sizes


class WindowLoader:
    """Yields one list of microbatches per optimiser step; each carries the denominators of the whole window.

    The place in the data is the pair (epoch, window), kept here and set from outside on resume: iterating starts at
    ``start_window`` of ``epoch`` and, when the epoch is through, moves to the next epoch's first window.
    """

    def __init__(
        self,
        source: DataSource,
        index: np.ndarray,
        losses: dict[str, MaskedLoss],
        *,
        batch_size: int,
        microbatches: int,
        seed: int,
    ) -> None:
        self.source, self.index, self.losses = source, index, losses
        self.batch_size, self.microbatches, self.seed = batch_size, microbatches, seed
        self.epoch = 0
        self.start_window = 0

    def __len__(self) -> int:
        return n_windows(len(self.index), self.batch_size)

    def __iter__(self) -> Iterator[list[Batch]]:
        order = self.index[epoch_order(len(self.index), self.seed, self.epoch)]
        for window in range(self.start_window, len(self)):
            yield self.window(order, window)
        self.epoch, self.start_window = self.epoch + 1, 0

    def window(self, order: np.ndarray, window: int) -> list[Batch]:
        """Return the microbatches of one window of an epoch's order."""
        parts = window_parts(order, window, self.batch_size, self.microbatches)
        batches = [self.source.batch(part) for part in parts]
        return with_counts(self.losses, batches, key=(self.epoch, window))


def with_counts(losses: dict[str, MaskedLoss], batches: list[Batch], key: tuple[int, ...]) -> list[Batch]:
    """Return a window's microbatches with its denominators and their random keys filled in."""
    counts = local_counts(losses, [b.targets for b in batches])
    return [replace(b, counts=counts, key=(*key, i)) for i, b in enumerate(batches)]


class BatchLoader:
    """Yields the items ``index`` in order, each exactly once."""

    def __init__(self, source: DataSource, index: np.ndarray, batch_size: int) -> None:
        self.source, self.index, self.batch_size = source, index, batch_size

    def __len__(self) -> int:
        return n_windows(len(self.index), self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, len(self.index), self.batch_size):
            yield self.source.batch(self.index[start : start + self.batch_size])


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
        Items per optimiser step, the pieces it is cut into, and the seed of the order.
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
    ) -> None:
        super().__init__()
        self.source, self.parts = source, parts
        self.train_loader = WindowLoader(
            source, parts["train"], losses, batch_size=batch_size, microbatches=microbatches, seed=seed
        )
        self.eval_batch_size = max(64, -(-batch_size // microbatches))

    def train_dataloader(self) -> WindowLoader:
        """Return the loader of optimiser windows."""
        return self.train_loader

    def val_dataloader(self) -> Any:
        """Return the validation part in order, or no loader without one."""
        part = self.parts.get("val")
        return [] if part is None or not len(part) else self.loader(part)

    def loader(self, index: np.ndarray) -> BatchLoader:
        """Return a loader over some items, in the order given."""
        return BatchLoader(self.source, index, self.eval_batch_size)


def move_window(window: list[Batch] | Batch, device: torch.device) -> list[Batch] | Batch:
    """Move a window or a batch to a device."""
    return window.to(device) if isinstance(window, Batch) else [b.to(device) for b in window]


def random_key(seed: int, *parts: int) -> int:
    """Return a 63-bit seed from (seed, epoch, window, microbatch, rank), for dropout and augmentation."""
    state: np.ndarray = np.random.SeedSequence([seed, *parts]).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def concatenate(pieces: list[Tensor]) -> np.ndarray:
    """Return the pieces of an epoch as one host array."""
    joined: np.ndarray = torch.cat(pieces).cpu().numpy()
    return joined
