"""Layers that the architectures share, against plain tensor arithmetic and finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from zoo.molecules.features import ATOM_SIZES
from zoo.molecules.featurise import featurise
from zoo.molecules.graph import Bag
from zoo.molecules.items import MolItems
from zoo.molecules.layers import READOUTS, FieldEmbedding, Readout, bag_sum, gather


@pytest.fixture(scope="module")
def items() -> MolItems:
    return featurise(["CC(=O)Nc1ccc(O)cc1", "[Na+]", "C" * 60, "C[C@H](N)C(=O)O"], {}).items


def test_bag_sum_and_gather_gradients() -> None:
    bag = Bag(torch.tensor([2, 0, 2, 1, 1, 1], dtype=torch.int32), torch.tensor([0, 2, 2, 6], dtype=torch.int32), 4)
    table = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    expected = torch.stack([table[2] + table[0], torch.zeros(3), table[2] + 3 * table[1]])
    torch.testing.assert_close(bag_sum(table, bag), expected, rtol=1e-12, atol=1e-12)
    torch.autograd.gradcheck(lambda t: bag_sum(t, bag), (table,))
    rows = torch.tensor([3, 0, 3], dtype=torch.int32)
    assert torch.equal(gather(table, rows), table[[3, 0, 3]])
    torch.autograd.gradcheck(lambda t: gather(t, rows), (table,))


def test_large_tables_are_transposed_too() -> None:
    rows = torch.randint(0, 70_000, (500,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    table = torch.randn(70_000, 2, dtype=torch.float64, requires_grad=True)
    gather(table, rows).square().sum().backward()
    expected = torch.zeros_like(table).index_add(0, rows.long(), 2 * table.detach()[rows.long()])
    torch.testing.assert_close(table.grad, expected)


def test_field_embedding_is_a_linear_layer_on_one_hot_fields(items: MolItems) -> None:
    layer = FieldEmbedding(ATOM_SIZES, 5).double()
    slots = items.atoms[:40]
    expected = one_hot(slots) @ layer.weight
    torch.testing.assert_close(layer(torch.from_numpy(slots.astype(np.int32))), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", READOUTS)
def test_readouts(kind: str, items: MolItems) -> None:
    graph = items.collate(np.array([2, 1, 0]), torch.float64)
    torch.manual_seed(0)
    layer = Readout(kind, 4).double()
    atoms = torch.randn(graph.n_atoms, 4, dtype=torch.float64)
    expected = []
    for a, b in itertools.pairwise(graph.atom_ptr.tolist()):
        x = atoms[a:b]
        if kind == "attention":
            expected.append((torch.softmax(layer.score(x), 0) * x).sum(0))
        else:
            expected.append({"mean": x.mean(0), "sum": x.sum(0), "norm": x.sum(0) / 100}[kind])
    torch.testing.assert_close(layer(atoms, graph), torch.stack(expected), rtol=1e-12, atol=1e-12)


def one_hot(slots: np.ndarray) -> Tensor:
    columns = [F.one_hot(torch.from_numpy(slots[:, i]).long(), n) for i, n in enumerate(ATOM_SIZES)]
    return torch.cat(columns, 1).double()
