"""Intake: what is legal, what is refused and why, and where each atom came from."""

from __future__ import annotations

from collections import Counter

import pytest
from rdkit import Chem, rdBase
from rdkit.Chem.MolStandardize import rdMolStandardize

from zoo.molecules.intake import IntakeError, Molecule, read_molecule

DEFAULTS = {"standardise": True, "tautomer": False, "max_atoms": 1000}

VARIED = [
    "CCO", "c1ccccc1", "CC(=O)[O-].[Na+]", "[Na]OC(=O)c1ccccc1", "C[N+](C)(C)CC(=O)[O-]", "CN(=O)=O", "C[N+](=O)[O-]",
    "CS(C)=O", "C[S+](C)[O-]", "CC[N+](C)(C)C.[Br-]", "NCC(=O)O", "[NH3+]CC(=O)[O-]", "O=n1ccccc1", "CN=N#N",
    "C[Mg]Br", "[Fe+2]", "[Cl-].[Cl-].[Ca+2]", "CC(=O)O.CCN", "OP(=O)(O)O", "C[Si](C)(C)C", "c1ccc[nH]1", "[Na+]",
    "[Cl]", "C[Se]C", "CS(=O)(=O)N", "C=[N+]=[N-]", "O=C1C=CC(=O)C=C1", "[O-][n+]1ccccc1", "CCO.O.O", "[2H]C([2H])[2H]",
    "OB(O)c1ccccc1", "C[C@H](N)C(=O)O", "CC(=O)C=C(C)[O-]", "[O-]Cl(=O)(=O)=O.[K+]", "CSC(C)=[S+][O-]", "C[As](=O)(O)O",
]  # fmt: skip


def read(smiles: str, **options: object) -> tuple[Molecule, Counter[str]]:
    notes: Counter[str] = Counter()
    return read_molecule(smiles, {**DEFAULTS, **options}, notes), +notes


def full_pipeline(smiles: str) -> str:
    mol = Chem.MolFromSmiles(smiles)
    rdMolStandardize.CleanupInPlace(mol)
    rdMolStandardize.FragmentParentInPlace(mol, skipStandardize=True)
    rdMolStandardize.Uncharger().unchargeInPlace(mol)
    return Chem.CanonSmiles(Chem.MolToSmiles(mol))


@pytest.mark.parametrize("smiles", VARIED)
def test_shortcut_equals_full_pipeline(smiles: str) -> None:
    assert read(smiles)[0].key == full_pipeline(smiles)


@pytest.mark.parametrize("smiles", VARIED)
@pytest.mark.parametrize("standardise", [True, False])
def test_atoms_and_bonds_know_their_source(smiles: str, standardise: bool) -> None:
    given = Chem.MolFromSmiles(smiles)
    found, _ = read(smiles, standardise=standardise)
    assert (found.n_atoms, found.n_bonds) == (given.GetNumAtoms(), given.GetNumBonds())
    assert sorted(found.order) == list(range(found.mol.GetNumAtoms()))
    assert len(set(found.atom_source)) == found.mol.GetNumAtoms()
    for atom in found.mol.GetAtoms():
        assert atom.GetAtomicNum() == given.GetAtomWithIdx(found.atom_source[atom.GetIdx()]).GetAtomicNum()
    for bond in found.mol.GetBonds():
        source = given.GetBondWithIdx(found.bond_source[bond.GetIdx()])
        ends = {found.atom_source[bond.GetBeginAtomIdx()], found.atom_source[bond.GetEndAtomIdx()]}
        assert {source.GetBeginAtomIdx(), source.GetEndAtomIdx()} == ends


def test_source_of_a_salt_skips_the_counter_ion() -> None:
    found, notes = read("[Na+].CC(=O)[O-]")
    assert found.key == "CC(=O)O"
    assert [found.atom_source[i] for i in found.order] == [1, 2, 3, 4]
    assert (found.n_atoms, found.n_bonds) == (5, 3)
    assert notes == {"salt or solvent removed": 1, "charge neutralised": 1}


def test_without_standardising_the_salt_stays() -> None:
    found, notes = read("[Na+].CC(=O)[O-]", standardise=False)
    assert found.key == "CC(=O)[O-].[Na+]"
    assert not notes


@pytest.mark.parametrize(
    ("smiles", "note"),
    [("CS(C)=O", "functional group or charge normalised"), ("[Na]OC(=O)c1ccccc1", "metal disconnected")],
)
def test_notes_say_what_changed(smiles: str, note: str) -> None:
    assert note in read(smiles)[1]


@pytest.mark.parametrize("smiles", ["[Na+]", "*CC", "[Fe+2]", "[2H]C", "[HH]", "[CH3]", "C" * 500, "N[Pt](N)(Cl)Cl"])
def test_unusual_molecules_are_legal(smiles: str) -> None:
    assert read(smiles)[0].mol.GetNumAtoms() >= 1


@pytest.mark.parametrize("smiles", ["CCO |&1:1|", "  CCO\t", "OCC", "CCO ethanol", "CCO |nonsense"])
def test_extended_and_padded_smiles(smiles: str) -> None:
    assert read(smiles)[0].key == "CCO"


def test_enhanced_stereo_is_noted() -> None:
    found, notes = read("C[C@H](O)CC |&1:1|")
    assert found.key == Chem.CanonSmiles("C[C@H](O)CC")
    assert notes == {"extended SMILES annotation read": 1}


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("", "the SMILES string is empty"),
        ("  \t", "the SMILES string is empty"),
        ("C1CC", "unclosed ring"),
        ("xyz", "syntax error"),
        ("C(C)(C)(C)(C)C", "valence"),
        ("c1cccc1", "kekulize"),
        ("|&1:1|", "RDKit"),
        ("C" * 1001, "1001 atoms; at most 1000"),
    ],
)
def test_refused_with_reason(smiles: str, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with rdBase.BlockLogs(), pytest.raises(IntakeError, match="(?i)" + reason):
        read(smiles)
    assert capfd.readouterr().err == ""


def test_tautomers_agree_by_option() -> None:
    keto, enol = "CC(=O)CC(C)=O", "CC(O)=CC(C)=O"
    assert read(keto)[0].key != read(enol)[0].key
    (a, notes_a), (b, notes_b) = read(keto, tautomer=True), read(enol, tautomer=True)
    assert a.key == b.key
    assert (notes_a | notes_b)["tautomer canonicalised"] == 1
    given = Chem.MolFromSmiles(enol)
    assert [given.GetAtomWithIdx(b.atom_source[a.GetIdx()]).GetSymbol() for a in b.mol.GetAtoms()] == [
        a.GetSymbol() for a in b.mol.GetAtoms()
    ]
