"""What the processes of one job tell each other.

Every function here is a no-op, or the identity, in a single process, and a collective on several: all ranks call it,
in the same order. Sums run over one flat buffer in the fixed order of the parameters, so that the order of every
addition is the same in every step of every run. (``DistributedDataParallel`` lays its buckets out anew after the first
backward, so with three ranks or more a resumed run would add in another order than one never stopped.)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

_CHUNK = 16 * 1024 * 1024
"""Elements of a flat gradient buffer: it bounds the memory that the sum needs beside the gradients."""

_FOREVER = timedelta(days=30)


def ranks() -> int:
    """Return the number of processes of the job, 1 without a process group."""
    return distributed.get_world_size() if _joined() else 1


def rank() -> int:
    """Return this process's number, from 0."""
    return distributed.get_rank() if _joined() else 0


def is_main() -> bool:
    """Whether this is the process that writes."""
    return rank() == 0


def _joined() -> bool:
    return distributed.is_available() and distributed.is_initialized()


@dataclass(frozen=True)
class Signals:
    """What all ranks know at the start of a step.

    ``counts`` are the step's denominators over all ranks, ``stop`` and ``save`` whether any rank was asked to stop or
    to save when the step is done, ``elapsed`` the seconds of training on rank 0's clock.
    """

    counts: Tensor
    stop: bool
    save: bool
    elapsed: float


def exchange(counts: Tensor, *, stop: bool, save: bool, elapsed: float) -> Signals:
    """Add the counts of all ranks and share the flags, in the one small collective of a step."""
    if not _joined():
        return Signals(counts, stop, save, elapsed)
    flags = [float(stop), float(save), elapsed if is_main() else 0.0]
    vector = torch.cat([counts.double().cpu(), torch.tensor(flags, dtype=torch.float64)])
    distributed.all_reduce(vector)
    total, (stops, saves, clock) = vector[:-3], vector[-3:].tolist()
    return Signals(total.to(counts.device), stops > 0, saves > 0, clock)


def sum_gradients(parameters: Sequence[Tensor], loss: Tensor) -> Tensor:
    """Add the gradients of all ranks in place, and return the sum of their losses.

    A gradient that only some ranks have counts as zero on the others, and all get the sum; one that no rank has stays
    None.
    """
    if not _joined():
        return loss
    total = loss
    for last, members in _chunks(parameters):
        gradients = [torch.zeros_like(m) if m.grad is None else m.grad for m in members]
        flat = torch.cat(_pieces(members, gradients, loss, last=last))
        distributed.all_reduce(flat)
        start = 0
        for gradient in gradients:
            gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
            start += gradient.numel()
        if any(m.grad is None for m in members):
            for member, gradient, owners in zip(members, gradients, flat[start:].tolist(), strict=False):
                member.grad = gradient if owners else None
        if last:
            total = flat[-1].to(loss)
    return total


def _pieces(members: Sequence[Tensor], gradients: Sequence[Tensor], loss: Tensor, *, last: bool) -> list[Tensor]:
    """Return what stands in the flat buffer: gradients, for each whether this rank has it, and at the end the loss.

    The layout follows from the parameters alone, so that the buffers of all ranks fit, whatever gradients they have.
    """
    found = [g.reshape(-1) for g in gradients]
    like = gradients[0] if gradients else loss.detach()
    found.append(like.new_tensor([m.grad is not None for m in members]))
    return [*found, loss.detach().reshape(1).to(like)] if last else found


def _chunks(parameters: Sequence[Tensor]) -> Iterator[tuple[bool, list[Tensor]]]:
    """Yield (is the last, parameters of one dtype) in order, each as large as the limit allows."""
    chunk: list[Tensor] = []
    size = 0
    for parameter in parameters:
        if chunk and (size + parameter.numel() > _CHUNK or parameter.dtype != chunk[0].dtype):
            yield False, chunk
            chunk, size = [], 0
        chunk.append(parameter)
        size += parameter.numel()
    yield True, chunk


def copy_from_main(tensors: Iterable[Tensor]) -> None:
    """Give every rank rank 0's values, in place."""
    if _joined():
        for tensor in tensors:
            distributed.broadcast(tensor, 0)


def values_from_main(values: dict[str, float]) -> dict[str, float]:
    """Return rank 0's numbers on every rank, so that no decision can differ by a rounding."""
    if not _joined():
        return values
    vector = torch.tensor(list(values.values()), dtype=torch.float64)
    distributed.broadcast(vector, 0)
    return dict(zip(values, vector.tolist(), strict=True))


def object_from_main(value: Any) -> Any:
    """Return rank 0's object on every rank."""
    if not _joined():
        return value
    box = [value]
    distributed.broadcast_object_list(box, 0)
    return box[0]


def gather(piece: Tensor) -> list[Tensor]:
    """Return every rank's tensor ``(n_r, ...)``, in the order of the ranks; ``n_r`` may differ and be 0."""
    if not _joined():
        return [piece]
    piece = piece.cpu().contiguous()
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(ranks())]
    distributed.all_gather(sizes, torch.tensor([len(piece)]))
    longest = int(max(sizes))
    padded = torch.zeros((longest, *piece.shape[1:]), dtype=piece.dtype)
    padded[: len(piece)] = piece
    found = [torch.empty_like(padded) for _ in sizes]
    distributed.all_gather(found, padded)
    return [rows[: int(size)] for rows, size in zip(found, sizes, strict=True)]


def gather_in_order(piece: Tensor, position: Tensor) -> np.ndarray:
    """Return the rows of all ranks sorted by ``position`` ``(n_r,)``, each once, as one host array."""
    rows = torch.cat(gather(piece.detach()))
    order = torch.argsort(torch.cat(gather(position)), stable=True)
    joined: np.ndarray = rows.cpu().index_select(0, order.cpu()).numpy()
    return joined


def sum_over_ranks(values: Tensor) -> Tensor:
    """Return the sum of a float64 host tensor over the ranks."""
    if _joined():
        values = values.clone()
        distributed.all_reduce(values)
    return values


@contextlib.contextmanager
def long_barrier() -> Iterator[None]:
    """Wait for all ranks at the end of the block, however long what one of them does in it takes."""
    if not _joined():
        yield
        return
    group = distributed.new_group(backend="gloo", timeout=_FOREVER)
    yield
    distributed.barrier(group)
    distributed.destroy_process_group(group)


def barrier() -> None:
    """Wait for all ranks."""
    if _joined():
        distributed.barrier()
