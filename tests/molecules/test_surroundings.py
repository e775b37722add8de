"""Surroundings: the exact classes and the index lists of a batch, against nested tuples built one edge at a time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from zoo.molecules.environments import RADII
from zoo.molecules.featurise import featurise
from zoo.molecules.graph import Bag, MolGraph
from zoo.molecules.items import MolItems

SMILES = [
    "CC(=O)Nc1ccc(O)cc1",
    "C",
    "CCO",
    "CCCCCCCC",
    "C[C@H](N)C(=O)O",
    "C[C@@H](N)C(=O)O",
    "C1CC1",
    "[Na+]",
    "CCOCC",
]


@pytest.fixture(scope="module")
def items() -> MolItems:
    return featurise(SMILES, {}).items


def edges_of(items: MolItems, molecule: int) -> list[tuple[int, int, int]]:
    """Return (source, target, bond) of every directed bond in the order of the items."""
    bonds = range(items.bond_ptr[molecule], items.bond_ptr[molecule + 1])
    both = [(*items.ends[b][::step].tolist(), b) for b in bonds for step in (1, -1)]
    return sorted(both, key=lambda e: (e[1], e[2]))


def description(items: MolItems, molecule: int, edge: tuple[int, int, int], radius: int) -> Any:
    """Return all that a message along an edge can know after ``radius`` steps, as nested tuples."""
    source, target, bond = edge
    own = (tuple(items.atoms[items.atom_ptr[molecule] + source].tolist()), tuple(items.bonds[bond].tolist()))
    if radius == 0:
        return own
    feeding = [e for e in edges_of(items, molecule) if e[1] == source and e[0] != target]
    return own, tuple(sorted(description(items, molecule, e, radius - 1) for e in feeding))


def test_edge_classes_equal_nested_tuples(items: MolItems) -> None:
    for radius in range(RADII):
        found, expected = items.edge_class[:, radius], []
        for molecule in range(len(items)):
            expected += [description(items, molecule, e, radius) for e in edges_of(items, molecule)]
        assert len(found) == len(expected) == 2 * len(items.bonds)
        assert len(set(found.tolist())) == len(set(expected)) == len(set(zip(found.tolist(), expected, strict=True)))


def test_atom_classes_equal_nested_tuples(items: MolItems) -> None:
    expected = []
    for molecule in range(len(items)):
        for atom in range(items.atom_ptr[molecule + 1] - items.atom_ptr[molecule]):
            incoming = [e for e in edges_of(items, molecule) if e[1] == atom]
            around = tuple(sorted(description(items, molecule, e, RADII - 1) for e in incoming))
            expected.append((tuple(items.atoms[items.atom_ptr[molecule] + atom].tolist()), around))
    found = items.atom_class.tolist()
    assert len(set(found)) == len(set(expected)) == len(set(zip(found, expected, strict=True)))


def test_batch_edges_are_the_bonds(items: MolItems) -> None:
    index = np.array([4, 0, 1, 4])
    graph = items.collate(index, torch.float32)
    start, expected = 0, []
    for molecule in index:
        expected += [(s + start, t + start) for s, t, _ in edges_of(items, molecule)]
        start += items.atom_ptr[molecule + 1] - items.atom_ptr[molecule]
    assert graph.edge_index.T.tolist() == [list(e) for e in expected]
    assert graph.edge_index[:, graph.edge_reverse.long()].flip(0).equal(graph.edge_index)
    assert graph.incoming.diff().tolist() == torch.bincount(graph.edge_index[1], minlength=start).tolist()
    both = graph.edge_index[:, graph.bond_edges.flatten().long()].reshape(2, -1, 2)
    assert both[:, :, 0].flip(0).equal(both[:, :, 1])
    assert graph.atom_ptr.tolist() == [0, 6, 17, 18, 24]
    assert graph.molecule.tolist() == np.repeat([0, 1, 2, 3], [6, 11, 1, 6]).tolist()


def test_bags_hold_what_feeds_each_distinct_edge(items: MolItems) -> None:
    """Summing random numbers by the bags equals summing them edge by edge."""
    graph = items.collate(np.arange(len(items)), torch.float64)
    source, target = graph.edge_index.tolist()
    around, inner = graph.surroundings, graph.surroundings.edge_class
    n_inner = len(around.source_kind)
    for level in around.levels:
        values = torch.rand(n_inner, dtype=torch.float64)
        per_class = sums(values, level.bag)
        for e in range(len(source)):
            feeding = [k for k in range(len(source)) if target[k] == source[e] and source[k] != target[e]]
            expected = sum(values[inner[k]].item() for k in feeding)
            assert per_class[level.edge_class[e]].item() == pytest.approx(expected, abs=1e-12)
            assert level.own[level.edge_class[e]] == around.edge_class[e]
        inner, n_inner = level.edge_class, len(level.own)


def sums(values: torch.Tensor, bag: Bag) -> torch.Tensor:
    bounds = bag.offsets.tolist()
    return torch.stack([values[bag.rows[a:b].long()].sum() for a, b in itertools.pairwise(bounds)])


def test_blocks_cover_every_molecule_once() -> None:
    items = featurise(["C" * 70, "C", "C" * 32, "C" * 33], {}).items
    graph: MolGraph = items.collate(np.arange(4), torch.float32)
    assert graph.blocks.tolist() == [0, 32, 64, 70, 71, 103, 135, 136]
    assert graph.block_ptr.tolist() == [0, 3, 4, 5, 7]
    assert graph.atom_ptr.tolist() == [0, 70, 71, 103, 136]


def test_empty_batch(items: MolItems) -> None:
    graph = items.collate(np.zeros(0, np.int64), torch.float32)
    assert (graph.n_molecules, graph.n_atoms, graph.edge_index.shape) == (0, 0, (2, 0))
    assert graph.blocks.tolist() == graph.block_ptr.tolist() == graph.atom_ptr.tolist() == [0]
