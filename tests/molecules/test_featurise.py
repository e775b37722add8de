"""The featuriser: values against RDKit, independence of the way a molecule was written, arrays and options."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import Descriptors

from zoo.core.types import Featurised
from zoo.errors import InputError
from zoo.molecules import descriptors, features
from zoo.molecules import featurise as featurise_module
from zoo.molecules.features import ATOM_FIELDS, BOND_FIELDS, STEREO
from zoo.molecules.featurise import featurise
from zoo.molecules.items import MolItems

SMILES = [
    "CCO", "[Na+].CC(=O)[O-]", "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "C/C=C/C", "C/C=C\\C", "c1ccc2ccccc2c1",
    "[Na+]", "C", "*c1ccccc1", "[2H]C(Cl)Br", "CS(C)(=O)=O", "C[N+](C)(C)C", "O=C1C[C@@H]2CC[C@H]1C2", "[CH3]",
    "C[C@H]1CC[C@@H](O)CC1", "N[C@@H](CS)C(=O)N1CCC[C@H]1C(=O)O", "N[Pt@SP1](N)(Cl)Cl", "CC1CC1", "C#N", "OP(=O)(O)OC",
    "F/C(Cl)=C(/Br)I", "C1CCCCCCCCC1", "O/N=C/c1ccccc1",
]  # fmt: skip


def columns(items: MolItems) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    atoms = {f.name: items.atoms[:, i] for i, f in enumerate(ATOM_FIELDS)}
    return atoms, {f.name: items.bonds[:, i] for i, f in enumerate(BOND_FIELDS)}


def one(smiles: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    return columns(featurise([smiles], {}).items)


def same(a: MolItems, b: MolItems, *, sources: bool = True) -> None:
    for name, values in a.arrays().items():
        if sources or "source" not in name or name == "edge_source":
            np.testing.assert_array_equal(values, b.arrays()[name], err_msg=name)


@pytest.mark.parametrize("smiles", ["CC(=O)Nc1ccc(O)cc1", "C1CC1C#N", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "Clc1cc[nH]c1Br"])
def test_fields_equal_rdkit(smiles: str) -> None:
    found = featurise([smiles], {})
    mol = Chem.MolFromSmiles(found.key[0])  # atoms in canonical order
    atoms, bonds = columns(found.items)
    rings = mol.GetRingInfo()
    for i, atom in enumerate(mol.GetAtoms()):
        assert atoms["element"][i] == atom.GetAtomicNum()
        assert atoms["degree"][i] == atom.GetDegree()
        assert atoms["formal charge"][i] == 0
        assert atoms["hydrogens"][i] == atom.GetTotalNumHs()
        assert ATOM_FIELDS[4].values[atoms["hybridisation"][i]] == int(atom.GetHybridization())
        assert atoms["aromatic"][i] == atom.GetIsAromatic()
        assert ATOM_FIELDS[7].values[atoms["smallest ring"][i]] == rings.MinAtomRingSize(i)
    found_ends = [tuple(e) for e in found.items.ends.tolist()]
    assert found_ends == sorted(tuple(sorted((b.GetBeginAtomIdx(), b.GetEndAtomIdx()))) for b in mol.GetBonds())
    for i, ends in enumerate(found_ends):
        bond = mol.GetBondBetweenAtoms(*ends)
        assert BOND_FIELDS[0].values[bonds["type"][i]] == int(bond.GetBondType())
        assert bonds["conjugated"][i] == bond.GetIsConjugated()
        assert bonds["ring"][i] == bond.IsInRing()


def test_rare_properties_have_their_slots() -> None:
    atoms, _ = one("[2H]C(Cl)Br")
    assert sorted(ATOM_FIELDS[9].values[i] for i in atoms["isotope"]) == [0, 0, 0, 2]
    assert one("[CH3]")[0]["radical electrons"].tolist() == [1]
    assert one("C[N+](C)(C)C")[0]["formal charge"].tolist() == [0, 1, 0, 0, 0]
    assert one("*C")[0]["element"].tolist() == [0, 6]
    assert one("[99Tc]")[0]["isotope"].tolist() == [len(ATOM_FIELDS[9].values)]
    assert one("[Ti+5]")[0]["formal charge"].tolist() == [len(ATOM_FIELDS[2].values)]
    square = featurise(["N[Pt@SP1](N)(Cl)Cl"], {"standardise": False}).items
    assert columns(square)[0]["chirality"].max() == len(ATOM_FIELDS[6].values)  # a handedness that is not tetrahedral


def test_every_field_has_an_unknown_slot() -> None:
    for field in (*ATOM_FIELDS, *BOND_FIELDS):
        slots = field.slots(np.array([*field.values, -1000, 1000]))
        assert slots.tolist() == [*range(len(field.values)), field.size - 1, field.size - 1]


@pytest.mark.parametrize("smiles", SMILES)
@pytest.mark.parametrize("labelled", [True, False])
def test_independent_of_the_order_written(smiles: str, labelled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not labelled:  # as if the CIP labeller had given up
        monkeypatch.setattr(features, "_label", lambda mol: False)
    mol = Chem.MolFromSmiles(smiles)
    spellings = Chem.MolToRandomSmilesVect(mol, 8, randomSeed=7)
    found = featurise([smiles, *spellings], {})
    assert len(set(found.key)) == 1
    first = found.items.subset(np.array([0]))
    for i in range(1, len(found.key)):
        same(first, found.items.subset(np.array([i])), sources=False)


@pytest.mark.parametrize("labelled", [True, False])
def test_enantiomers_and_double_bond_isomers_differ(labelled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not labelled:
        monkeypatch.setattr(features, "_label", lambda mol: False)
    r, s = one("C[C@H](N)C(=O)O")[0]["chirality"], one("C[C@@H](N)C(=O)O")[0]["chirality"]
    assert (r != s).sum() == 1
    assert {int(r.max()), int(s.max())} == ({1, 2} if labelled else {5, 6})
    e, z = one("C/C=C/C")[1]["stereo"], one("C/C=C\\C")[1]["stereo"]
    expected = {STEREO["E"], STEREO["Z"]} if labelled else {STEREO["trans"], STEREO["cis"]}
    assert {int(e.max()), int(z.max())} == expected


def test_cip_labels_are_the_known_ones() -> None:
    assert one("C[C@H](N)C(=O)O")[0]["chirality"].max() == features.CHIRALITY["S"]  # L-alanine
    assert one("OC(=O)/C=C/C(=O)O")[1]["stereo"].max() == STEREO["E"]  # fumaric acid
    assert one("OC(=O)/C=C\\C(=O)O")[1]["stereo"].max() == STEREO["Z"]  # maleic acid


def test_meso_forms_differ() -> None:
    cis, trans = featurise(["C[C@H]1CC[C@@H](O)CC1", "C[C@H]1CC[C@H](O)CC1"], {}).key
    assert cis != trans
    assert not np.array_equal(one(cis)[0]["chirality"], one(trans)[0]["chirality"])


def test_bad_rows_are_reported_and_the_rest_kept() -> None:
    found = featurise(["CCO", "", "C1CC", "OCC", "C" * 50], {"max_atoms": 40})
    assert found.position.tolist() == [0, 3]
    assert found.key == ["CCO", "CCO"]
    assert [(p.row, p.value[:4]) for p in found.problems] == [(1, ""), (2, "C1CC"), (4, "CCCC")]
    assert found.items.atom_source.tolist() == [0, 1, 2, 2, 1, 0]
    assert found.items.bond_source.tolist() == [0, 1, 1, 0]


def test_nodes_know_their_source() -> None:
    items = featurise(["[Na+].[O-]C(=O)C"], {}).items
    assert items.node_source("atom").tolist() == [4, 2, 3, 1]  # CC(=O)O
    assert items.n_source("atom").tolist() == [5]
    assert items.n_source("bond").tolist() == [3]
    assert items.node_ptr("atom").tolist() == [0, 4]
    assert items.node_ptr("bond").tolist() == [0, 3]
    assert items.size().tolist() == [4]


def test_arrays_round_trip_and_are_numbers() -> None:
    items = featurise(SMILES, {"descriptors": "rdkit2d"}).items
    arrays = items.arrays()
    assert all(a.dtype.kind in "iuf" for a in arrays.values())
    back = MolItems.from_arrays(arrays)
    same(items, back)
    assert back.feature_names == items.feature_names == descriptors.descriptor_names("rdkit2d")


def test_subset_collates_like_the_whole() -> None:
    items = featurise(SMILES, {}).items
    index = np.array([5, 2, 2, 9])
    a, b = items.subset(index).collate(np.arange(4), torch.float32), items.collate(index, torch.float32)
    for name in ("edge_index", "edge_reverse", "incoming", "molecule", "atom_ptr", "bond_edges", "blocks"):
        assert torch.equal(getattr(a, name), getattr(b, name)), name
    assert torch.equal(a.atom_fields[a.atom_kind.long()], b.atom_fields[b.atom_kind.long()])
    assert torch.equal(a.bond_fields[a.edge_kind.long()], b.bond_fields[b.edge_kind.long()])


def test_nothing_and_only_bad_rows() -> None:
    for inputs in ([], ["xyz"]):
        found: Featurised = featurise(inputs, {"descriptors": "rdkit2d"})
        assert len(found.items) == 0
        assert found.items.features.shape == (0, len(descriptors.descriptor_names("rdkit2d")))
        assert found.items.collate(np.zeros(0, np.int64), torch.float32).n_molecules == 0


@pytest.mark.parametrize("options", [{}, {"descriptors": "rdkit2d"}])
def test_worker_processes_change_nothing(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [*SMILES, "", "C1CC", *SMILES[::-1], "xyz"]
    alone = featurise(inputs, options)
    calls = []
    remote = featurise_module._remote
    monkeypatch.setattr(featurise_module, "_n_workers", lambda: 3)
    monkeypatch.setattr(featurise_module, "_PARALLEL_FROM", dict.fromkeys(descriptors.SETS, 4))
    monkeypatch.setattr(featurise_module, "_remote", lambda *a: (calls.append(1), remote(*a))[1])
    together = featurise(inputs, options)
    assert len(calls) == 2
    same(alone.items, together.items)
    assert (alone.key, alone.problems, alone.notes) == (together.key, together.problems, together.notes)
    assert alone.position.tolist() == together.position.tolist()


def test_a_worker_that_cannot_start_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(featurise_module.sys, "executable", "no-such-interpreter")
    full = featurise_module.check_options({})
    assert featurise_module._remote(["CCO", "C1"], full).key == ["CCO"]


def test_descriptors_equal_rdkit() -> None:
    oracle = dict(Descriptors.descList) | {"FormalCharge": Chem.GetFormalCharge}
    for smiles in ("CC(=O)Nc1ccc(O)cc1", "C[C@H](N)C(=O)O", "[Na+]"):
        found = featurise([smiles], {"descriptors": "rdkit2d"}).items
        mol = Chem.MolFromSmiles(smiles)
        expected = [oracle[name](mol) for name in found.feature_names]
        np.testing.assert_allclose(found.features[0], expected, rtol=1e-12, atol=1e-12)
    assert len(set(found.feature_names)) == len(found.feature_names)


def test_descriptors_are_finite_for_odd_molecules() -> None:
    odd = ["[Na+]", "[Fe+2]", "*", "[HH]", "N[Pt](N)(Cl)Cl", "[Xe]", "C", "[U]", "*C*", "[2H]O[2H]", "C[Hg]Cl"]
    found = featurise(odd, {"descriptors": "rdkit2d"})
    assert not found.problems
    assert np.isfinite(found.items.features).all()


def test_a_descriptor_that_is_not_finite_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(descriptors._SINGLE, "TPSA", lambda mol: float("nan") if mol.GetNumAtoms() == 1 else 1.0)
    found = featurise(["CC", "C"], {"descriptors": "rdkit2d"})
    assert found.position.tolist() == [0]
    assert "TPSA is not finite" in found.problems[0].reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"standardize": True}, "Did you mean 'standardise'"),
        ({"tautomer": "yes"}, "not of type bool"),
        ({"max_atoms": True}, "not of type int"),
        ({"max_atoms": 0}, "at least 1"),
        ({"descriptors": "rdkit"}, "Did you mean 'rdkit2d'"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        featurise(["C"], options)


def test_the_order_of_fragments_does_not_matter() -> None:
    both = [".".join(pair) for pair in itertools.permutations(["CCO", "c1ccccc1"], 2)]
    assert len(set(featurise(both, {"standardise": False}).key)) == 1
