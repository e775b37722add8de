"""Into how many microbatches a step is cut so that it fits into memory, found before the first step.

The heaviest step there can be is tried: the largest items by ``items.size()``, as many as a process has of a step,
forward and backward beside room for the optimiser's state. As long as it does not fit on every process, it is cut into
twice as many microbatches. The items of a step, and with them its loss, stay the same.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable

import numpy as np
import torch

from zoo.core.batching import batches
from zoo.core.datamodule import ZooDataModule, with_counts
from zoo.core.ranks import is_main, ranks, sum_over_ranks
from zoo.core.types import Batch
from zoo.errors import InputError

_log = logging.getLogger(__name__)
_SIGNS = ("out of memory", "DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a GPU or on the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


def find_microbatches(data: ZooDataModule, trial: Callable[[list[Batch]], None]) -> int:
    """Return the smallest number of microbatches, from the one asked for up by doubling, that fits on every process.

    Parameters
    ----------
    data
        Whose heaviest step is tried.
    trial
        Works off a window, and raises where memory runs out.

    Raises
    ------
    InputError
        If a single item does not fit; its row is named.
    """
    loader = data.train_loader
    pieces = loader.microbatches
    share = max(1, len(_share(data)))
    while not _fits_everywhere(lambda k=pieces: trial(heaviest_window(data, k))):  # type: ignore[misc]
        if pieces >= share:
            raise _too_large(data)
        pieces = min(2 * pieces, share)
    if pieces != loader.microbatches and is_main():
        world = f"{ranks()} processes x " if ranks() > 1 else ""
        _log.warning(
            "a step's %s do not fit at once: %s%d microbatches of at most %d",
            loader.plan.what, world, pieces, -(-share // pieces),
        )  # fmt: skip
    return pieces


def find_evaluation_limit(data: ZooDataModule, trial: Callable[[np.ndarray], None]) -> float:
    """Return the largest limit of an evaluation batch, from the usual one down by halving, that fits everywhere.

    ``trial`` evaluates the items at some positions, and raises where memory runs out.
    """
    every = np.concatenate(list(data.parts.values()))
    heaviest = every[np.argsort(-_sizes(data)[every], kind="stable")]
    limit = data.eval_limit
    while True:
        first = heaviest[next(batches(data.source.items, heaviest, limit))]
        if _fits_everywhere(lambda own=first: trial(own)):  # type: ignore[misc]
            return limit
        if len(first) == 1:
            raise _too_large(data)
        limit /= 2


def heaviest_window(data: ZooDataModule, pieces: int) -> list[Batch]:
    """Return a process's share of the heaviest step in microbatches, the one of the largest items first."""
    batches = [data.source.batch(part) for part in np.array_split(_share(data), pieces)]
    return with_counts(data.train_loader.losses, batches, key=(0, 0))


def _share(data: ZooDataModule) -> np.ndarray:
    """Return the items of a process's share of the heaviest step, the largest first."""
    loader = data.train_loader
    order = np.argsort(-_sizes(data)[loader.index], kind="stable")
    share: np.ndarray = loader.index[loader.plan.heaviest(order, ranks())]
    return share


def ran_out(data: ZooDataModule, step: int) -> InputError:
    """Return the error for memory that ran out during the fit."""
    loader = data.train_loader
    size = -(-len(_share(data)) // loader.microbatches)
    smaller = f"--set train.microbatches={2 * loader.microbatches}" if size > 1 else "--set train.precision=bf16"
    return InputError(
        f"memory ran out at step {step}, with microbatches of at most {size} items on each of {ranks()} processes. "
        f"Close what else uses it, or start a new run with {smaller}."
    )


def _sizes(data: ZooDataModule) -> np.ndarray:
    """Return the work of every item; items that do not know theirs weigh alike."""
    items = data.source.items
    sizes: np.ndarray = items.size() if hasattr(items, "size") else np.ones(len(items))
    return sizes


def _fits_everywhere(attempt: Callable[[], None]) -> bool:
    """Return whether every process got through an attempt without running out of memory."""
    ran_out = False
    try:
        attempt()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        ran_out = True
    if ran_out:  # here, where the error no longer holds on to the tensors of its frames
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return float(sum_over_ranks(torch.tensor([ran_out], dtype=torch.float64))) == 0


def _too_large(data: ZooDataModule) -> InputError:
    loader = data.train_loader
    sizes = _sizes(data)[loader.index]
    largest = int(np.argmax(sizes))
    return InputError(
        f"row {int(data.source.rows[loader.index[largest]])}, the largest item (size {sizes[largest]:g}), does not fit "
        "into memory even alone. Leave the row out, use half precision with --set train.precision=bf16, or choose a "
        "smaller model (`zoo train TASK --print-config` lists its settings under model.hparams)."
    )
