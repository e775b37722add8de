"""Architectures: values against plain reference implementations, and the contract every one of them keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn.models import AttentiveFP as PyGAttentiveFP

from zoo.core.domain import get_domain, load_object
from zoo.errors import InputError
from zoo.molecules.attentivefp import AttentiveFP
from zoo.molecules.dmpnn import DMPNN
from zoo.molecules.features import ATOM_SIZES, BOND_SIZES
from zoo.molecules.featurise import featurise
from zoo.molecules.gine import GINE
from zoo.molecules.graph import MolGraph
from zoo.molecules.items import MolItems
from zoo.molecules.layers import READOUTS

ARCHITECTURES = dict(get_domain("molecules").architectures)
LEVELS = ["molecule", "atom", "bond"]
SMILES = [
    "CC(=O)Nc1ccc(O)cc1", "[Na+]", "C", "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "C/C=C/C", "C/C=C\\C", "CCO.c1ccccc1",
    "*C", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "CCO", "C" * 60, "CC(C)Cc1ccc(cc1)[C@@H](C)C(=O)O", "C1CC1",
]  # fmt: skip


@pytest.fixture(scope="module")
def items() -> MolItems:
    return featurise(SMILES, {"standardise": False}).items


def build(name: str, levels: list[str] = LEVELS, **hparams: Any) -> nn.Module:
    torch.manual_seed(1)
    model: nn.Module = load_object(ARCHITECTURES[name])(levels, **hparams)
    return model


def batch(items: MolItems, index: list[int], dtype: torch.dtype = torch.float64) -> MolGraph:
    return items.collate(np.asarray(index, np.int64), dtype)


def pieces(items: MolItems, index: list[int], found: dict[str, Tensor], place: int) -> dict[str, Tensor]:
    """Return the rows of the item at ``place`` of a batch."""
    out = {"molecule": found["molecule"][place]}
    for level in ("atom", "bond"):
        sizes = np.diff(items.node_ptr(level))[index]
        start = int(sizes[:place].sum())
        out[level] = found[level][start : start + int(sizes[place])]
    return out


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("depth", [1, 3, 5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_same_alone_and_in_any_batch(
    name: str, depth: int, dtype: torch.dtype, tolerance: float, items: MolItems
) -> None:
    model = build(name, depth=depth).to(dtype).eval()
    everything = list(range(len(items)))
    shuffled = [int(i) for i in np.random.default_rng(0).permutation(len(items))] + [3, 3]
    with torch.no_grad():
        alone = [model(batch(items, [i], dtype)) for i in everything]
        for index in (everything, shuffled, [5, 2]):
            found = model(batch(items, index, dtype))
            for place, i in enumerate(index):
                for level, rows in pieces(items, index, found, place).items():
                    reference = alone[i][level][0] if level == "molecule" else alone[i][level]
                    torch.testing.assert_close(rows, reference, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_empty_batch_and_shapes(name: str, items: MolItems) -> None:
    model = build(name).double()
    for index in ([], [1], [1, 2], list(range(len(items)))):
        found = model(batch(items, index))
        assert found["molecule"].shape == (len(index), model.dims["molecule"])
        assert found["atom"].shape == (int(items.size()[index].sum()), model.dims["atom"])
        assert found["bond"].shape == (int(np.diff(items.bond_ptr)[index].sum()), model.dims["bond"])


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("levels", [["molecule"], ["atom"], ["bond"], LEVELS])
@pytest.mark.parametrize("depth", [1, 2])
def test_every_parameter_is_used(name: str, levels: list[str], depth: int, items: MolItems) -> None:
    model = build(name, levels, depth=depth).double()
    found = model(batch(items, list(range(len(items)))))
    assert list(found) == levels == list(model.dims)
    sum((v * torch.sin(torch.arange(v.numel()).reshape(v.shape))).sum() for v in found.values()).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_stereo_reaches_the_output(name: str, items: MolItems) -> None:
    model = build(name).double()
    found = model(batch(items, [3, 4, 5, 6]))["molecule"]
    assert (found[0] - found[1]).abs().max() > 1e-6  # enantiomers of alanine
    assert (found[2] - found[3]).abs().max() > 1e-6  # E and Z butene


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_deterministic_to_the_bit(name: str, items: MolItems) -> None:
    torch.use_deterministic_algorithms(mode=True)
    try:
        runs = []
        for _ in range(2):
            model = build(name)
            found = model(batch(items, list(range(len(items))), torch.float32))
            sum(v.square().sum() for v in found.values()).backward()
            runs.append([p.grad.clone() for p in model.parameters()])
        assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
    finally:
        torch.use_deterministic_algorithms(mode=False)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_bfloat16_autocast(name: str, items: MolItems) -> None:
    model = build(name)
    graph = batch(items, list(range(len(items))), torch.float32)
    exact = model(graph)["molecule"]
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(graph)["molecule"]
        rough.float().square().mean().backward()
    scale = exact.abs().max()
    assert ((rough.float() - exact).abs().max() / scale) < 0.05
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_dropout_changes_training_only(items: MolItems) -> None:
    graph = batch(items, [0, 9])
    for name in ARCHITECTURES:
        model = build(name, dropout=0.5).double()
        assert not torch.equal(model(graph)["molecule"], model(graph)["molecule"])
        model.eval()
        assert torch.equal(model(graph)["molecule"], model(graph)["molecule"])


# D-MPNN against its definition, one directed bond at a time


def one_hot(slots: np.ndarray, sizes: tuple[int, ...]) -> Tensor:
    return torch.cat([F.one_hot(torch.from_numpy(slots[:, i]).long(), n) for i, n in enumerate(sizes)], 1).double()


def dmpnn_reference(model: DMPNN, items: MolItems, index: list[int]) -> dict[str, Tensor]:
    molecules, atoms, bonds = [], [], []
    nothing = torch.zeros(model.dims["atom"], dtype=torch.float64)
    for m in index:
        x = one_hot(items.atoms[items.atom_ptr[m] : items.atom_ptr[m + 1]], ATOM_SIZES)
        b = one_hot(items.bonds[items.bond_ptr[m] : items.bond_ptr[m + 1]], BOND_SIZES)
        ends = items.ends[items.bond_ptr[m] : items.bond_ptr[m + 1]].tolist()
        edges = [(s, t, i) for i, (u, v) in enumerate(ends) for s, t in ((u, v), (v, u))]
        first = {(s, t): x[s] @ model.source_in.weight + b[i] @ model.bond_in.weight for s, t, i in edges}
        h = {e: v.relu() for e, v in first.items()}
        for _ in range(model.depth - 1):
            sums = {(s, t): sum((h[k, v] for k, v in h if v == s and k != t), nothing) for s, t in h}
            h = {e: (first[e] + model.message.weight @ sums[e]).relu() for e in h}
        arriving = [sum((h[k, w] for k, w in h if w == v), nothing) for v in range(len(x))]
        own = x @ model.atom_self.weight
        vectors = torch.stack([(model.atom_out(a) + o).relu() for a, o in zip(arriving, own, strict=True)])
        atoms.append(vectors)
        molecules.append(vectors.mean(0))
        bonds += [model.bond_out(h[u, v] + h[v, u]).relu() for u, v in ends]
    return {"molecule": torch.stack(molecules), "atom": torch.cat(atoms), "bond": torch.stack(bonds)}


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 6])
def test_dmpnn_equals_its_definition(depth: int, items: MolItems) -> None:
    index = [0, 1, 3, 9, 4, 9, 10]
    model = build("dmpnn", depth=depth, width=12).double()
    assert isinstance(model, DMPNN)
    weight = torch.sin(torch.arange(100 * 12, dtype=torch.float64)).reshape(100, 12)
    grads = []
    for found in (model(batch(items, index)), dmpnn_reference(model, items, index)):
        model.zero_grad()
        sum((found[level] * weight[: len(found[level])]).sum() for level in LEVELS).backward()
        grads.append((found, [p.grad.clone() for p in model.parameters()]))
    for level in LEVELS:
        torch.testing.assert_close(grads[0][0][level], grads[1][0][level], rtol=1e-11, atol=1e-11)
    for a, b in zip(grads[0][1], grads[1][1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_gine_equals_its_definition(items: MolItems) -> None:
    model = build("gine", ["atom"], depth=2, width=8).double()
    assert isinstance(model, GINE)
    for conv in model.convs:
        conv.eps.data.fill_(0.3)
    m = 9
    x = one_hot(items.atoms[items.atom_ptr[m] : items.atom_ptr[m + 1]], ATOM_SIZES) @ model.atom_in.weight
    b = one_hot(items.bonds[items.bond_ptr[m] : items.bond_ptr[m + 1]], BOND_SIZES)
    ends = items.ends[items.bond_ptr[m] : items.bond_ptr[m + 1]].tolist()
    for bond, norm, conv in zip(model.bonds, model.norms, model.convs, strict=True):
        y, e = F.layer_norm(x, (8,), norm.weight, norm.bias), b @ bond.weight
        total = torch.zeros_like(y)
        for i, (u, v) in enumerate(ends):
            total[v] += (y[u] + e[i]).relu()
            total[u] += (y[v] + e[i]).relu()
        x = x + conv.nn(1.3 * y + total)
    x = F.layer_norm(x, (8,), model.last.weight, model.last.bias)
    torch.testing.assert_close(model(batch(items, [m]))["atom"], x, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("depth", [1, 3])
def test_attentivefp_equals_pyg(depth: int, items: MolItems) -> None:
    model = build("attentivefp", ["molecule"], width=16, depth=depth, steps=3).double()
    assert isinstance(model, AttentiveFP)
    theirs = PyGAttentiveFP(sum(ATOM_SIZES), 16, 16, edge_dim=16, num_layers=depth, num_timesteps=3).double()
    theirs.lin1.weight.data = model.atom_in.weight.data.T
    theirs.lin1.bias.data.zero_()
    theirs.lin2.weight.data = torch.eye(16).double()
    theirs.lin2.bias.data.zero_()
    for ours, name in (
        (model.gate_conv, "gate_conv"), (model.gate_gru, "gru"), (model.atom_convs, "atom_convs"),
        (model.atom_grus, "atom_grus"), (model.molecule_conv, "mol_conv"), (model.molecule_gru, "mol_gru"),
    ):  # fmt: skip
        getattr(theirs, name).load_state_dict(ours.state_dict())
    index = [0, 3, 9, 12, 13]
    graph = batch(items, index)
    x = torch.cat([one_hot(items.atoms[items.atom_ptr[i] : items.atom_ptr[i + 1]], ATOM_SIZES) for i in index])
    edge = one_hot(graph.bond_fields.numpy(), BOND_SIZES)[graph.edge_kind.long()] @ model.bond_in.weight
    expected = theirs(x, graph.edge_index, edge, graph.molecule)
    torch.testing.assert_close(model(graph)["molecule"], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", READOUTS)
def test_readouts_in_dmpnn_agree_alone_and_in_a_batch(kind: str, items: MolItems) -> None:
    model = build("dmpnn", ["molecule"], readout=kind).double()
    together = model(batch(items, [0, 11, 1]))["molecule"]
    for place, i in enumerate([0, 11, 1]):
        torch.testing.assert_close(model(batch(items, [i]))["molecule"][0], together[place], rtol=1e-10, atol=1e-10)


def test_bond_level_does_not_depend_on_direction() -> None:
    """The one synthetic bond target: a bond's vector is the same from either end, and equal bonds agree."""
    items = featurise(["CCC", "OCCO"], {}).items
    for name in ARCHITECTURES:
        found = build(name, ["bond"]).double()(batch(items, [0, 1]))["bond"]
        torch.testing.assert_close(found[0], found[1])  # the two bonds of propane mirror each other
        torch.testing.assert_close(found[2], found[4])  # the two C-O bonds of glycol
        assert (found[2] - found[3]).abs().max() > 1e-6


@pytest.mark.parametrize(
    ("hparams", "message"),
    [
        ({"widht": 3}, "Did you mean 'width'"),
        ({"width": 0}, "at least 1"),
        ({"width": 2.5}, "not of type int"),
        ({"depth": True}, "not of type int"),
        ({"dropout": 1.0}, "below 1"),
        ({"dropout": "0.1"}, "not of type float"),
    ],
)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_wrong_hyper_parameters(name: str, hparams: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(name, **hparams)


def test_wrong_level_and_readout() -> None:
    with pytest.raises(InputError, match="unknown level 'residue'"):
        build("gine", ["residue"])
    with pytest.raises(InputError, match=r"unknown readout 'max'.*attention, mean, norm, sum"):
        build("dmpnn", readout="max")
