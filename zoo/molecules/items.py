"""All molecules of a data set in flat arrays; see :class:`zoo.core.types.Items`.

Collating is a handful of array gathers: no Python runs per molecule.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch

from zoo.molecules.descriptors import descriptor_names
from zoo.molecules.environments import RADII, classify, direct, pack, previous
from zoo.molecules.features import ATOM_SIZES, BOND_SIZES
from zoo.molecules.graph import BLOCK, Bag, Level, MolGraph, Surroundings


@dataclass
class MolItems:
    """``n`` molecules with ``N`` atoms, ``B`` bonds and ``2 B`` directed bonds ("edges", sorted by target) in all.

    Indices are local to a molecule: ``ends`` ``(B, 2)`` atoms of a bond, ``edge_source`` atom, ``edge_reverse`` edge,
    ``bond_edges`` ``(B, 2)`` edges of a bond. ``atoms`` and ``bonds`` are slots of
    :data:`~zoo.molecules.features.ATOM_FIELDS` and ``BOND_FIELDS``; kinds and classes come from
    :mod:`zoo.molecules.environments` and mean something only within one object. ``degree`` counts neighbours.
    """

    atom_ptr: np.ndarray
    bond_ptr: np.ndarray
    n_atoms_source: np.ndarray
    n_bonds_source: np.ndarray
    descriptors: np.ndarray
    atoms: np.ndarray
    degree: np.ndarray
    atom_source: np.ndarray
    atom_kind: np.ndarray
    atom_class: np.ndarray
    bonds: np.ndarray
    ends: np.ndarray
    bond_source: np.ndarray
    bond_kind: np.ndarray
    bond_edges: np.ndarray
    edge_source: np.ndarray
    edge_reverse: np.ndarray
    edge_kind: np.ndarray
    edge_class: np.ndarray

    @classmethod
    def build(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Add the directed bonds and the classes of surroundings to what :func:`~zoo.molecules.extract` made."""
        atom_ptr, bond_ptr, ends = arrays["atom_ptr"], arrays["bond_ptr"], arrays["ends"]
        n_atoms = int(atom_ptr[-1])
        atom_start = np.repeat(atom_ptr[:-1], np.diff(bond_ptr))
        edges = direct(ends[:, 0] + atom_start, ends[:, 1] + atom_start, n_atoms)
        atom_kind, bond_kind = pack(arrays["atoms"], ATOM_SIZES), pack(arrays["bonds"], BOND_SIZES)
        edge_class, atom_class = classify(atom_kind, bond_kind, edges)
        edge_start = np.repeat(2 * bond_ptr[:-1], 2 * np.diff(bond_ptr))
        by_bond = np.argsort(edges.bond, kind="stable").reshape(-1, 2) - 2 * np.repeat(
            bond_ptr[:-1], np.diff(bond_ptr)
        ).reshape(-1, 1)
        return cls(
            **arrays,
            degree=np.diff(edges.incoming).astype(np.int32),
            atom_kind=atom_kind.astype(np.int32),
            atom_class=atom_class.astype(np.int32),
            bond_kind=bond_kind.astype(np.int32),
            bond_edges=by_bond.astype(np.int32),
            edge_source=(edges.source - np.repeat(atom_ptr[:-1], 2 * np.diff(bond_ptr))).astype(np.int32),
            edge_reverse=(edges.reverse - edge_start).astype(np.int32),
            edge_kind=bond_kind[edges.bond].astype(np.int32),
            edge_class=edge_class.astype(np.int32),
        )

    def __post_init__(self) -> None:
        self._n_kinds = _count(self.atom_kind)
        self._n_bond_kinds = _count(self.bond_kind)
        self._n_edge_classes = [_count(self.edge_class[:, t]) for t in range(RADII)]
        self._n_atom_classes = _count(self.atom_class)

    def __len__(self) -> int:
        return len(self.atom_ptr) - 1

    @property
    def features(self) -> np.ndarray | None:
        """``(n, f)`` descriptors, or None."""
        return self.descriptors if self.descriptors.shape[1] else None

    @property
    def feature_names(self) -> list[str]:
        """Names of the descriptors."""
        return list(descriptor_names("rdkit2d")) if self.descriptors.shape[1] else []

    def size(self) -> np.ndarray:
        """Return ``(n,)`` atoms per molecule."""
        return np.diff(self.atom_ptr)

    def node_ptr(self, level: str) -> np.ndarray:
        """Return ``(n + 1,)`` offsets of the atoms or bonds of each molecule."""
        return {"atom": self.atom_ptr, "bond": self.bond_ptr}[level]

    def node_source(self, level: str) -> np.ndarray:
        """Return each atom's or bond's index in its molecule as ``Chem.MolFromSmiles`` reads the input."""
        return {"atom": self.atom_source, "bond": self.bond_source}[level]

    def n_source(self, level: str) -> np.ndarray:
        """Return ``(n,)`` atoms or bonds of each input, removed parts included."""
        return {"atom": self.n_atoms_source, "bond": self.n_bonds_source}[level]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything as named arrays of numbers."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Return the items that :meth:`arrays` described."""
        return cls(**arrays)

    def subset(self, index: np.ndarray) -> Self:
        """Return the molecules ``index`` as a new object (repeats allowed)."""
        index = np.asarray(index, np.int64)
        atoms, n_atoms = _ragged(self.atom_ptr, index)
        bonds, n_bonds = _ragged(self.bond_ptr, index)
        edges, _ = _ragged(2 * self.bond_ptr, index)
        chosen = {"atom_ptr": _bounds(n_atoms), "bond_ptr": _bounds(n_bonds)}
        for names, rows in ((_MOLECULE, index), (_ATOM, atoms), (_BOND, bonds), (_EDGE, edges)):
            chosen |= {name: getattr(self, name)[rows] for name in names}
        return type(self)(**chosen)

    def collate(self, index: np.ndarray, dtype: torch.dtype) -> MolGraph:
        """Return the molecules ``index`` as one graph; it holds integers only, so ``dtype`` changes nothing."""
        del dtype
        index = np.asarray(index, np.int64)
        atoms, n_atoms = _ragged(self.atom_ptr, index)
        bonds, n_bonds = _ragged(self.bond_ptr, index)
        edges, n_edges = _ragged(2 * self.bond_ptr, index)
        atom_ptr, edge_ptr = _bounds(n_atoms), _bounds(n_edges)
        source = self.edge_source[edges] + np.repeat(atom_ptr[:-1], n_edges)
        reverse = self.edge_reverse[edges] + np.repeat(edge_ptr[:-1], n_edges)
        degree = self.degree[atoms]
        incoming = _bounds(degree)
        kinds, atom_kind = _distinct(self.atom_kind[atoms], self._n_kinds)
        bond_kinds, bond_kind = _distinct(self.bond_kind[bonds], self._n_bond_kinds)
        table = np.empty(self._n_bond_kinds, np.int32)
        table[self.bond_kind[bonds]] = bond_kind
        edge_kind = table[self.edge_kind[edges]]
        return MolGraph(
            atom_fields=_int32(self.atoms[atoms[kinds]]),
            atom_kind=_int32(atom_kind),
            bond_fields=_int32(self.bonds[bonds[bond_kinds]]),
            edge_kind=_int32(edge_kind),
            edge_index=torch.from_numpy(np.stack([source, np.repeat(np.arange(len(atoms)), degree)])),
            edge_reverse=_int32(reverse),
            incoming=_int32(incoming),
            bond_edges=_int32(self.bond_edges[bonds] + np.repeat(edge_ptr[:-1], n_bonds)[:, None]),
            blocks=_int32(_block_bounds(n_atoms, atom_ptr)),
            block_ptr=_int32(_bounds(-(-n_atoms // BLOCK))),
            molecule=torch.from_numpy(np.repeat(np.arange(len(index)), n_atoms)),
            atom_ptr=_int32(atom_ptr),
            surroundings=self._surroundings(atoms, edges, (source, reverse, incoming), (atom_kind, edge_kind)),
        )

    def _surroundings(
        self,
        atoms: np.ndarray,
        edges: np.ndarray,
        topology: tuple[np.ndarray, np.ndarray, np.ndarray],
        kinds: tuple[np.ndarray, np.ndarray],
    ) -> Surroundings:
        (source, reverse, incoming), (atom_kind, edge_kind) = topology, kinds
        classes = self.edge_class[edges]
        first, own = _distinct(classes[:, 0], self._n_edge_classes[0])
        levels, inner, n_inner = [], own, len(first)
        for radius in range(1, RADII):
            chosen, edge_class = _distinct(classes[:, radius], self._n_edge_classes[radius])
            owner, before = previous(source[chosen], reverse[chosen], incoming)
            bounds = _bounds(np.bincount(owner, minlength=len(chosen)))
            bag = Bag(_int32(inner[before]), _int32(bounds), n_inner)
            levels.append(Level(_int32(own[chosen]), bag, _int32(edge_class)))
            inner, n_inner = edge_class, len(chosen)
        chosen, atom_class = _distinct(self.atom_class[atoms], self._n_atom_classes)
        atom_edges, counts = _ragged(incoming, chosen)
        return Surroundings(
            source_kind=_int32(atom_kind[source[first]]),
            bond_kind=_int32(edge_kind[first]),
            edge_class=_int32(own),
            levels=levels,
            atom_class=_int32(atom_class),
            atom_kind=_int32(atom_kind[chosen]),
            atom_edges=_int32(atom_edges),
            atom_offsets=_int32(_bounds(counts)),
        )


_MOLECULE = ("n_atoms_source", "n_bonds_source", "descriptors")
_ATOM = ("atoms", "degree", "atom_source", "atom_kind", "atom_class")
_BOND = ("bonds", "ends", "bond_source", "bond_kind", "bond_edges")
_EDGE = ("edge_source", "edge_reverse", "edge_kind", "edge_class")


def _ragged(ptr: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the flat positions of everything that the chosen owners hold, and how much each holds."""
    sizes = ptr[index + 1] - ptr[index]
    bounds = np.cumsum(sizes)
    total = int(bounds[-1]) if len(bounds) else 0
    return np.repeat(ptr[index] - bounds + sizes, sizes) + np.arange(total), sizes


def _bounds(sizes: np.ndarray) -> np.ndarray:
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds


def _block_bounds(sizes: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Return where blocks of at most ``BLOCK`` atoms begin, no block reaching over two molecules, and the end."""
    n_blocks = -(-sizes // BLOCK)
    within = np.arange(int(n_blocks.sum())) - np.repeat(np.cumsum(n_blocks) - n_blocks, n_blocks)
    return np.append(np.repeat(ptr[:-1], n_blocks) + BLOCK * within, ptr[-1])


def _distinct(ids: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of one representative of each distinct id below ``n``, and which one every position has.

    Linear in the number of positions, where ``np.unique`` would sort.
    """
    table = np.empty(n, np.int64)
    here = np.arange(len(ids))
    table[ids] = here
    chosen = np.flatnonzero(table[ids] == here)
    table[ids[chosen]] = np.arange(len(chosen))
    return chosen, table[ids]


def _count(ids: np.ndarray) -> int:
    return int(ids.max(initial=-1)) + 1


def _int32(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.int32))
