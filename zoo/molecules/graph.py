"""The batch of graphs that a network gets: a plain dataclass of tensors."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

BLOCK = 32
"""Most atoms that are summed in one go when molecules are read out."""


@dataclass
class Bag:
    """Which rows of a table are summed into which output rows: row lists one after another.

    ``rows`` ``(m,)`` int32 indexes a table of ``n_rows`` rows; ``offsets`` ``(n_bags + 1,)`` int32 bounds the bags.
    """

    rows: Tensor
    offsets: Tensor
    n_rows: int

    def transposed(self) -> tuple[Tensor, Tensor]:
        """Return ``(bags, offsets)``: for every row of the table the bags that hold it (what the backward needs)."""
        order, offsets = transpose(self.rows, self.n_rows)
        return _owners(self.offsets, len(self.rows)).index_select(0, order), offsets


def _owners(offsets: Tensor, n: int) -> Tensor:
    """Return the bag of each of ``n`` list entries."""
    n_bags = len(offsets) - 1
    if offsets.device.type == "cpu":  # numpy does small integers in one thread, without waking the others
        return torch.from_numpy(np.repeat(np.arange(n_bags, dtype=np.int32), np.diff(offsets.numpy())))
    bags = torch.arange(n_bags, dtype=torch.int32, device=offsets.device)
    return torch.repeat_interleave(bags, offsets.diff(), output_size=n)


def transpose(rows: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Return ``(positions, offsets)``: for each of ``n_rows`` rows where it occurs in ``rows`` ``(m,)``."""
    if rows.device.type == "cpu":
        found = rows.numpy()
        small = np.uint16 if n_rows < 2**16 else np.int32  # 16-bit integers are sorted by radix
        order = np.argsort(found.astype(small), kind="stable").astype(np.int32)
        bounds = np.zeros(n_rows + 1, np.int32)
        np.cumsum(np.bincount(found, minlength=n_rows), out=bounds[1:])
        return torch.from_numpy(order), torch.from_numpy(bounds)
    rows = rows.to(torch.int32)
    offsets = torch.zeros(n_rows + 1, dtype=torch.int32, device=rows.device)
    offsets.index_add_(0, rows + 1, torch.ones_like(rows))
    return torch.argsort(rows, stable=True).to(torch.int32), offsets.cumsum(0, dtype=torch.int32)


@dataclass
class Level:
    """One radius of distinct directed bonds in a batch, ``n`` of them.

    ``own`` ``(n,)`` is each one's class of radius 0; ``bag`` holds the classes, one radius lower, that feed it;
    ``edge_class`` ``(n_edges,)`` says which of the ``n`` every directed bond of the batch is.
    """

    own: Tensor
    bag: Bag
    edge_class: Tensor


@dataclass
class Surroundings:
    """What a batch of molecules holds several times and needs to compute once (:mod:`zoo.molecules.environments`).

    ``source_kind``, ``bond_kind`` ``(n_0,)``: the kinds of source atom and bond of the distinct directed bonds of
    radius 0; ``edge_class`` ``(n_edges,)`` which of them every directed bond is; ``levels`` the radii 1 and up.
    ``atom_class`` ``(n_atoms,)``: which of the distinct atoms each atom is; ``atom_kind`` the kind of each distinct
    atom, ``atom_edges`` the directed bonds that point to (one representative of) it, bounded by ``atom_offsets``.
    """

    source_kind: Tensor
    bond_kind: Tensor
    edge_class: Tensor
    levels: list[Level]
    atom_class: Tensor
    atom_kind: Tensor
    atom_edges: Tensor
    atom_offsets: Tensor


@dataclass
class MolGraph:
    """A batch of molecules; ``n_molecules`` may be 0, and a molecule may have no bond.

    ``atom_fields`` ``(n_atom_kinds, n_atom_fields)`` holds the slots of each distinct kind of atom, ``atom_kind``
    ``(n_atoms,)`` the kind of every atom; ``bond_fields`` and ``edge_kind`` ``(n_edges,)`` say the same of bonds.
    Directed bonds are sorted by target: ``edge_index`` ``(2, n_edges)`` holds source and target, ``edge_reverse`` the
    other direction, ``incoming`` ``(n_atoms + 1,)`` the bounds by target, and ``bond_edges`` ``(n_bonds, 2)`` both
    directions of a bond. ``molecule`` ``(n_atoms,)`` is each atom's molecule, ``atom_ptr`` ``(n_molecules + 1,)``
    the bounds. ``blocks`` ``(n_blocks + 1,)`` bounds runs of at most :data:`BLOCK` atoms of one molecule, and
    ``block_ptr`` ``(n_molecules + 1,)`` the blocks of each molecule: sums over atoms go in two stages, so that
    rounding does not grow with the size of a molecule.
    """

    atom_fields: Tensor
    atom_kind: Tensor
    bond_fields: Tensor
    edge_kind: Tensor
    edge_index: Tensor
    edge_reverse: Tensor
    incoming: Tensor
    bond_edges: Tensor
    molecule: Tensor
    atom_ptr: Tensor
    blocks: Tensor
    block_ptr: Tensor
    surroundings: Surroundings

    @property
    def n_atoms(self) -> int:
        """Number of atoms in the batch."""
        return int(self.atom_kind.numel())

    @property
    def n_molecules(self) -> int:
        """Number of molecules in the batch."""
        return int(self.atom_ptr.numel()) - 1

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> MolGraph:
        """Move to a device; a graph holds integers only, so ``dtype`` changes nothing."""
        del dtype
        moved: MolGraph = _moved(self, device)
        return moved


def _moved(value: Any, device: torch.device | str | None) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, list):
        return [_moved(v, device) for v in value]
    if hasattr(value, "__dataclass_fields__"):
        return replace(value, **{f.name: _moved(getattr(value, f.name), device) for f in fields(value)})
    return value
