"""Other ways to write a molecule: they are other, and they are the same molecule."""

import numpy as np
import pytest
from rdkit import Chem

from zoo.molecules.equivalents import permuted, random_smiles
from zoo.molecules.featurise import featurise

SMILES = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "C[C@H](N)C(=O)O",
    "C/C=C/C",
    "C",
    "CCO.[Na+]",
    "OC[C@H]1OC(O)[C@H](O)[C@@H](O)[C@@H]1O",
]


@pytest.mark.parametrize("smiles", SMILES)
def test_another_string_of_the_same_molecule(smiles):
    found = {random_smiles(smiles, seed) for seed in range(20)}
    assert len(found) > 1 or smiles == "C"
    assert {Chem.CanonSmiles(s) for s in found} == {Chem.CanonSmiles(smiles)}
    assert random_smiles(smiles, 3) == random_smiles(smiles, 3)


@pytest.mark.parametrize("text", ["not a molecule", "", "CCO |&1:1|"])
def test_what_cannot_be_written_otherwise_stays(text):
    assert random_smiles(text, 0) == text


def graphs(items):
    """Each molecule as sorted (slots of both ends, slots of the bond), and its atoms sorted."""
    made = []
    for i in range(len(items)):
        atoms = [tuple(a) for a in items.atoms[items.atom_ptr[i] : items.atom_ptr[i + 1]].tolist()]
        bonds = items.bonds[items.bond_ptr[i] : items.bond_ptr[i + 1]].tolist()
        ends = items.ends[items.bond_ptr[i] : items.bond_ptr[i + 1]].tolist()
        joined = sorted((sorted([atoms[a], atoms[b]]), bond) for (a, b), bond in zip(ends, bonds, strict=True))
        made.append((sorted(atoms), joined))
    return made


def test_permuted_items_are_the_same_graphs_in_another_order():
    items = featurise(SMILES, {"standardise": False}).items
    other = permuted(items, 0)
    assert graphs(other) == graphs(items)
    assert not np.array_equal(other.atoms, items.atoms)
    assert not np.array_equal(other.ends, items.ends)
    np.testing.assert_array_equal(np.sort(other.atom_source[:13]), np.arange(13))
    moved = items.atom_source[:13].tolist().index(int(other.atom_source[0]))
    np.testing.assert_array_equal(other.atoms[0], items.atoms[moved])
