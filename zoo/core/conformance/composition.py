"""Rungs of what an item's prediction may depend on: never on its company, its padding, or how its input is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from zoo.core.conformance.case import Case, Meter, RungError, SkipRung, relative_error
from zoo.core.conformance.tools import backward, first_items, is_random, split_rows, still, window_of
from zoo.core.datamodule import ZooDataModule, with_counts
from zoo.core.module import ZooModule

TOLERANCE = {"32": 1e-5, "64": 1e-10}
_ITEMS = 8


def batch_composition(case: Case, meter: Meter) -> None:
    """Verify that an item predicts the same alone, in any batch and beside the largest, and a batch of none nothing."""
    for precision, tolerance in TOLERANCE.items():
        module, data = case.build(precision=precision)
        found = batch_statistics(module.network)
        if found:
            raise RungError(f"batch statistics in {', '.join(found)}: use layer, group or instance normalisation")
        still(module.network)
        index = _chosen(data)
        for mode in ("evaluation", "training"):
            module.network.train(mode == "training")
            if mode == "training" and is_random(module, data.source.batch(index)):
                meter.notes.append("training mode not looked at, for its outputs are random")
                break
            for what, error in _errors(module, data, index):
                meter.add(error, tolerance, f"{what} in {mode} mode and float{precision}")
    if not hasattr(data.source.items, "size"):
        meter.notes.append("the largest item is unknown, for the items have no `size`")
    _empty_batch(case, meter)


def batch_statistics(network: nn.Module) -> list[str]:
    """Return the names of modules whose outputs depend on the other items of a batch, now or in training."""
    return [
        f"{name or 'network'} ({type(module).__name__})"
        for name, module in network.named_modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)  # noqa: SLF001 - the common base of all of them
        or (isinstance(module, nn.modules.instancenorm._InstanceNorm) and module.track_running_stats)  # noqa: SLF001
    ]


def _chosen(data: ZooDataModule) -> np.ndarray:
    """Return a few training items, and the largest item of all."""
    index = first_items(data, _ITEMS)
    size = getattr(data.source.items, "size", None)
    if size is None:
        return index
    return np.unique(np.append(index, int(np.argmax(size()))))


def _errors(module: ZooModule, data: ZooDataModule, index: np.ndarray) -> Iterator[tuple[str, float]]:
    """Yield what was compared with the item alone, and the largest ``|difference| / (1 + |alone|)``."""
    alone = [_outputs(module, data, [i]) for i in index]
    sizes = [{name: len(rows) for name, rows in found.items()} for found in alone]
    for what, order in _companies(data, index):
        together = split_rows(_outputs(module, data, index[order]), [sizes[i] for i in order])
        for i, piece in zip(order, together, strict=True):
            for name, rows in piece.items():
                yield f"{name!r} {what} beside {name!r} alone", relative_error(rows, alone[i][name])


def _companies(data: ZooDataModule, index: np.ndarray) -> Iterator[tuple[str, list[int]]]:
    """Yield what to call a batch, and which of the items ``index`` stand in it."""
    n = len(index)
    yield "in a batch", list(range(n))
    yield "in a batch in reversed order", list(range(n - 1, -1, -1))
    yield "in a batch of repeated items", [i for i in range(n) for _ in range(2)]
    size = getattr(data.source.items, "size", None)
    largest = n - 1 if size is None else int(np.argmax(size()[index]))
    for i in range(n):
        yield "beside the largest item", [i, largest]
    yield "among copies of the largest item", [0, *[largest] * 5]


@torch.no_grad()
def _outputs(module: ZooModule, data: ZooDataModule, index: Sequence[int] | np.ndarray) -> dict[str, Tensor]:
    found: dict[str, Tensor] = module(data.source.batch(np.asarray(index, np.int64)))
    return found


def _empty_batch(case: Case, meter: Meter) -> None:
    """Verify that a rank or microbatch without items takes part in the backward, and adds nothing."""
    module, data = case.build(precision="64")
    module.network.train()
    full = window_of(data, [first_items(data, _ITEMS)])
    ghost = window_of(data, [np.zeros(0, np.int64)])[0]
    ghost = with_counts(data.train_loader.losses, [ghost, *full], key=(0, 0))[0]
    backward(module, full)  # so that what is never used is not laid to the empty batch
    found = backward(module, [ghost])
    for name, gradient in found.gradients.items():
        meter.bits(gradient, torch.zeros_like(gradient), f"the gradient of {name} for an empty batch")


def symmetry(case: Case, meter: Meter) -> None:
    """Verify that equivalent inputs give equivalent outputs, in float64."""
    if case.symmetry is None:
        raise SkipRung("no symmetry is declared for this case")
    module, data = case.build(precision="64")
    module.network.eval()
    compared = 0
    with torch.no_grad():
        for got, want in case.symmetry(module, data):
            meter.close(got, want, TOLERANCE["64"], "outputs for equivalent inputs")
            compared += 1
    if not compared:
        raise RungError("the symmetry gave nothing to compare")
