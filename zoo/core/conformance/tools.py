"""What several rungs need: windows and labels of a case, a network without randomness, gradients of one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from zoo.core.conformance.case import RungError
from zoo.core.datamodule import ZooDataModule, with_counts
from zoo.core.module import ZooModule
from zoo.core.ragged import ragged_index
from zoo.core.types import Batch, Labels

HIDDEN = 0.3
"""Share of the labels that :func:`hide_labels` hides."""

_UNUSED = ": build only what the loss uses"
_EMPTY = ", not even zeros, when a batch is empty"


def still(network: nn.Module) -> None:
    """Turn dropout off without leaving training mode, in which everything else is to be verified too.

    Dropout is torch's modules, and any attribute ``dropout`` that holds a rate (attention and recurrent layers).
    """
    for module in network.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):  # noqa: SLF001 - the common base of all of them
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0  # type: ignore[assignment]


def is_random(module: ZooModule, batch: Batch) -> bool:
    """Whether two passes in training mode differ although dropout is off."""
    module.network.train()
    with torch.no_grad():
        first, second = module(batch), module(batch)
    return not all(torch.equal(first[name], second[name]) for name in first)


def hide_labels(data: ZooDataModule, seed: int = 0) -> None:
    """Hide some labels of every target, so that masks are at work even in data without a gap.

    Of the training part's labels at least one stays, and, where there are two, at least one goes. What is hidden
    depends on nothing but the data and the seed.
    """
    rng = np.random.default_rng(seed)
    source = data.source
    labels = {name: _hidden(found, data.parts["train"], rng) for name, found in source.labels.items()}
    data.source = replace(source, labels=labels)
    data.train_loader.source = data.source


def _hidden(labels: Labels, train: np.ndarray, rng: np.random.Generator) -> Labels:
    hide = rng.random(labels.mask.shape) < HIDDEN
    where = train if labels.ptr is None else ragged_index(labels.ptr, train)[0]
    valid = np.argwhere(labels.mask[where])
    if len(valid):
        first, last = ((where[v[0]], *v[1:]) for v in (valid[0], valid[-1]))
        hide[last] = True
        hide[first] = False
    return replace(labels, mask=labels.mask & ~hide)


def first_items(data: ZooDataModule, count: int) -> np.ndarray:
    """Return the positions of the first training items."""
    return data.parts["train"][:count]


def window_of(data: ZooDataModule, pieces: Sequence[np.ndarray]) -> list[Batch]:
    """Return a window whose microbatches are the items ``pieces``."""
    batches = [data.source.batch(np.asarray(piece, np.int64)) for piece in pieces]
    return with_counts(data.train_loader.losses, batches, key=(0, 0))


@dataclass(frozen=True)
class Step:
    """Loss, outputs with their gradients per microbatch, and gradients of the parameters, of one window."""

    loss: Tensor
    outputs: list[Mapping[str, Tensor]]
    gradients: dict[str, Tensor]


def backward(module: ZooModule, window: list[Batch]) -> Step:
    """Accumulate a window's gradient as a training step does, clipping and optimiser left out.

    Raises
    ------
    RungError
        Naming the trainable parameters without a gradient.
    """
    outputs: list[Mapping[str, Tensor]] = []

    def keep(_: nn.Module, __: object, found: object) -> None:
        if not isinstance(found, Mapping):
            return  # the module refuses it with a message of its own
        for output in found.values():
            if output.requires_grad:
                output.retain_grad()
        outputs.append(found)

    counts = window[0].counts
    if counts is None:
        raise RungError("the window has no counts")
    module.network.zero_grad(set_to_none=True)
    handle = module.network.register_forward_hook(keep)
    try:
        losses = []
        for batch in window:
            loss = module.microbatch_loss(batch, counts)
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
    finally:
        handle.remove()
    found = gradients(module.network)
    unused = sorted(trainable(module.network).keys() - found.keys())
    if unused:
        raise RungError(f"no gradient reaches {', '.join(unused)}{_EMPTY if not any(map(len, window)) else _UNUSED}")
    return Step(torch.stack(losses).sum(), outputs, found)


def gradients(network: nn.Module) -> dict[str, Tensor]:
    """Return the gradient of every trainable parameter that has one."""
    return {n: p.grad.detach().clone() for n, p in network.named_parameters() if p.requires_grad and p.grad is not None}


def trainable(network: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable parameters by name."""
    return {n: p for n, p in network.named_parameters() if p.requires_grad}


def stir(network: nn.Module, seed: int = 0) -> None:
    """Move every weight a little, so that a network that was just made differs."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.01 * noise.to(parameter.dtype))


def split_rows(found: Mapping[str, Tensor], sizes: Sequence[Mapping[str, int]]) -> list[dict[str, Tensor]]:
    """Return a batch's outputs item by item; ``sizes`` says how many rows each item has per target."""
    pieces: list[dict[str, Tensor]] = [{} for _ in sizes]
    for name, output in found.items():
        lengths = [size[name] for size in sizes]
        if sum(lengths) != len(output):
            raise RungError(f"target {name!r} has {len(output)} rows in a batch, {sum(lengths)} item by item")
        for piece, rows in zip(pieces, torch.split(output, lengths), strict=True):
            piece[name] = rows
    return pieces
