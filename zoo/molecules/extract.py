"""Many SMILES strings to flat arrays of features: the part of the featuriser that worker processes run.

Nothing here imports torch.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rdkit import rdBase

from zoo.molecules.descriptors import DescriptorError, describe, descriptor_names
from zoo.molecules.features import RawFeatures
from zoo.molecules.intake import IntakeError, Molecule, read_molecule


@dataclass
class Extract:
    """Features of the strings that gave a molecule, and the reasons of those that did not.

    ``arrays`` are those of :class:`zoo.molecules.graph.MolItems`, its environment classes left out.
    """

    position: np.ndarray
    key: list[str]
    arrays: dict[str, np.ndarray]
    problems: list[tuple[int, str]]
    notes: dict[str, int]


@dataclass
class _Collector:
    raw: RawFeatures = field(default_factory=RawFeatures)
    position: list[int] = field(default_factory=list)
    key: list[str] = field(default_factory=list)
    sizes: list[tuple[int, int, int, int]] = field(default_factory=list)
    order: array[int] = field(default_factory=lambda: array("i"))
    atom_source: array[int] = field(default_factory=lambda: array("i"))
    bond_source: array[int] = field(default_factory=lambda: array("i"))
    features: list[np.ndarray] = field(default_factory=list)

    def add(self, position: int, molecule: Molecule, features: np.ndarray) -> None:
        self.raw.add(molecule.mol, molecule.key, molecule.order)
        self.position.append(position)
        self.key.append(molecule.key)
        self.sizes.append((len(molecule.atom_source), len(molecule.bond_source), molecule.n_atoms, molecule.n_bonds))
        self.order.extend(molecule.order)
        self.atom_source.extend(molecule.atom_source)
        self.bond_source.extend(molecule.bond_source)
        self.features.append(features)

    def arrays(self, n_features: int) -> dict[str, np.ndarray]:
        """Put atoms into canonical order, bonds into the order of their atoms, and slots in place of raw values."""
        sizes = np.asarray(self.sizes, np.int64).reshape(-1, 4)
        atom_ptr, bond_ptr = _ptr(sizes[:, 0]), _ptr(sizes[:, 1])
        bond_start = np.repeat(atom_ptr[:-1], sizes[:, 1])
        order = _flat(self.order) + np.repeat(atom_ptr[:-1], sizes[:, 0])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        ends = np.stack([place[_flat(self.raw.begin) + bond_start], place[_flat(self.raw.end) + bond_start]], axis=1)
        ends.sort(axis=1)
        bonds = np.lexsort((ends[:, 1], ends[:, 0]))
        degree = np.bincount(ends.ravel(), minlength=len(order))[place]
        return {
            "atom_ptr": atom_ptr,
            "bond_ptr": bond_ptr,
            "n_atoms_source": sizes[:, 2],
            "n_bonds_source": sizes[:, 3],
            "atoms": self.raw.atom_slots(degree)[order],
            "bonds": self.raw.bond_slots()[bonds],
            "ends": (ends[bonds] - bond_start[:, None]).astype(np.int32),
            "atom_source": _flat(self.atom_source)[order].astype(np.int32),
            "bond_source": _flat(self.bond_source)[bonds].astype(np.int32),
            "descriptors": np.asarray(self.features, np.float64).reshape(len(sizes), n_features),
        }


def extract(inputs: Sequence[str], options: Mapping[str, Any]) -> Extract:
    """Standardise and featurise strings one after another in this process."""
    collected, notes, problems = _Collector(), Counter[str](), list[tuple[int, str]]()
    with rdBase.BlockLogs():
        for position, smiles in enumerate(inputs):
            try:
                molecule = read_molecule(smiles, options, notes)
                features = describe(molecule.mol, options["descriptors"])
            except (IntakeError, DescriptorError) as error:
                problems.append((position, str(error)))
            else:
                collected.add(position, molecule, features)
    arrays = collected.arrays(len(descriptor_names(options["descriptors"])))
    return Extract(np.asarray(collected.position, np.int64), collected.key, arrays, problems, dict(+notes))


def join(parts: Sequence[Extract], offsets: Sequence[int]) -> Extract:
    """Put the extracts of consecutive slices of the inputs together; ``offsets`` say where each slice began."""
    arrays = {}
    for name in parts[0].arrays:
        pieces = [p.arrays[name] for p in parts]
        arrays[name] = _ptr(np.concatenate([np.diff(p) for p in pieces])) if "ptr" in name else np.concatenate(pieces)
    notes = Counter[str]()
    for part in parts:
        notes.update(part.notes)
    return Extract(
        np.concatenate([p.position + o for p, o in zip(parts, offsets, strict=True)]),
        [key for p in parts for key in p.key],
        arrays,
        [(row + o, reason) for p, o in zip(parts, offsets, strict=True) for row, reason in p.problems],
        dict(notes),
    )


def _ptr(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def _flat(values: array[int]) -> np.ndarray:
    return np.frombuffer(values, np.intc).astype(np.int64)
