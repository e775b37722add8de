"""Layers that the molecular architectures share: sums over row lists, embeddings of categorical fields, readouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from zoo.core.options import with_defaults
from zoo.errors import InputError, unknown_name
from zoo.molecules.graph import Bag, MolGraph, transpose

READOUTS = ("mean", "sum", "norm", "attention")
_NORM = 100.0


class _BagSum(torch.autograd.Function):
    """``out[i] = sum of table[r] over the rows r of bag i``; the gradient is the same sum over the transposed bag."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, bag: Bag) -> Tensor:
        ctx.bag = bag
        return _embedding_bag(table, bag.rows, bag.offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _embedding_bag(grad.contiguous(), *ctx.bag.transposed()), None


def _embedding_bag(table: Tensor, rows: Tensor, offsets: Tensor) -> Tensor:
    if not len(rows):
        return table.new_zeros(len(offsets) - 1, table.shape[1])
    return torch.embedding_bag(table, rows, offsets, False, 0, False, None, True)[0]


def bag_sum(table: Tensor, bag: Bag) -> Tensor:
    """Sum rows of ``table`` ``(bag.n_rows, d)`` into ``(n_bags, d)``."""
    out: Tensor = _BagSum.apply(table, bag)  # type: ignore[no-untyped-call]
    return out


def gather(table: Tensor, rows: Tensor) -> Tensor:
    """Return ``table[rows]`` ``(len(rows), d)``, with a deterministic and fast gradient."""
    out: Tensor = _Gather.apply(table, rows)  # type: ignore[no-untyped-call]
    return out


class _Gather(torch.autograd.Function):
    """Rows of a table; the gradient sums over the transposed row list."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor) -> Tensor:
        ctx.rows, ctx.n_rows = rows, table.shape[0]
        return table.index_select(0, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        order, offsets = transpose(ctx.rows, ctx.n_rows)
        return _embedding_bag(grad.contiguous(), order, offsets), None


class FieldEmbedding(nn.Module):
    """The sum of one learned vector per categorical field: a linear layer on one-hot fields, without the zeros.

    Parameters
    ----------
    sizes
        Number of slots of each field.
    width
        Length ``d`` of the vectors.
    """

    no_decay = True  # an embedding in meaning
    offsets: Tensor

    def __init__(self, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(sum(sizes), width))
        offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.register_buffer("offsets", torch.as_tensor(offsets, dtype=torch.int32), persistent=False)
        nn.init.normal_(self.weight, std=len(sizes) ** -0.5)

    def forward(self, fields: Tensor) -> Tensor:
        """Return ``(n, d)`` for slots ``(n, n_fields)``."""
        n, width = fields.shape
        bounds = torch.arange(0, n * width + 1, width, dtype=torch.int32, device=fields.device)
        return bag_sum(self.weight, Bag((fields + self.offsets).flatten(), bounds, len(self.weight)))


class Readout(nn.Module):
    """From atoms to molecules: ``mean``, ``sum``, ``norm`` (sum / 100), or ``attention`` (softmax-weighted mean)."""

    def __init__(self, kind: str, width: int) -> None:
        super().__init__()
        if kind not in READOUTS:
            raise unknown_name("readout", kind, READOUTS)
        self.kind = kind
        self.score = nn.Linear(width, 1) if kind == "attention" else None

    def forward(self, atoms: Tensor, graph: MolGraph, row: Tensor | None = None) -> Tensor:
        """Return ``(n_molecules, d)``.

        Parameters
        ----------
        atoms
            ``(n, d)``: one row per atom of the batch, or per distinct atom.
        graph
            The batch.
        row
            ``(n_atoms,)``: the row of each atom, where atoms share rows.
        """
        if row is None:
            row = torch.arange(graph.n_atoms, dtype=torch.int32, device=atoms.device)
        if self.score is not None:
            return self._attend(self.score(atoms), atoms, graph, row)
        blocks = bag_sum(atoms, Bag(row, graph.blocks, len(atoms)))
        each = torch.arange(len(blocks), dtype=torch.int32, device=atoms.device)
        total = bag_sum(blocks, Bag(each, graph.block_ptr, len(blocks)))
        if self.kind == "mean":
            return total / graph.atom_ptr.diff().clamp_min(1).to(total.dtype).unsqueeze(1)
        return total / _NORM if self.kind == "norm" else total

    @staticmethod
    def _attend(score: Tensor, atoms: Tensor, graph: MolGraph, row: Tensor) -> Tensor:
        score = gather(score, row).squeeze(1)
        # Shifting by each molecule's largest score changes nothing but keeps exp from overflowing.
        top = score.new_full((graph.n_molecules,), -torch.inf)
        top = top.scatter_reduce(0, graph.molecule, score.detach(), "amax")
        weight = (score - top.index_select(0, graph.molecule)).exp()
        total = score.new_zeros(graph.n_molecules).index_add(0, graph.molecule, weight)
        weight = weight / total.index_select(0, graph.molecule)
        rows = gather(atoms, row) * weight.unsqueeze(1)
        return rows.new_zeros(graph.n_molecules, rows.shape[1]).index_add(0, graph.molecule, rows)


def hyper_parameters(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyper-parameters with defaults filled in.

    Raises
    ------
    InputError
        For an unknown name, another type than the default's, a size below 1, or a dropout outside [0, 1).
    """
    full = with_defaults("hyper-parameter", defaults, given)
    for name, value in full.items():
        if isinstance(value, int) and not isinstance(value, bool) and isinstance(defaults[name], int) and value < 1:
            raise InputError(f"hyper-parameter {name} must be at least 1, got {value}")
    if not 0 <= full.get("dropout", 0.0) < 1:
        raise InputError(f"hyper-parameter dropout must be at least 0 and below 1, got {full['dropout']}")
    return full


def check_levels(levels: Sequence[str], known: Sequence[str] = ("molecule", "atom", "bond")) -> None:
    """Refuse a level that no molecular architecture offers."""
    for level in levels:
        if level not in known:
            raise unknown_name("level", level, known)
