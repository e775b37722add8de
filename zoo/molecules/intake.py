"""From a SMILES string to one standardised molecule whose atoms remember where they stood in the input.

Standardising means ``rdMolStandardize``'s cleanup (metals disconnected, functional groups normalised, charges placed),
the parent fragment, and neutralising. Most molecules need none of it, and RDKit's full pipeline costs five times as
much as parsing, so one substructure query decides first whether any step could change the molecule at all.
Nothing here imports torch, so that worker processes start fast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem.MolStandardize import rdMolStandardize

_SOURCE = "_zoo_source"

# An atom without which no step of the pipeline does anything to a single fragment: one with a charge or without any
# neighbour (bare metals), pentavalent nitrogen, a sulfoxide or its like, anything from phosphorus' group, and every
# element outside the usual non-metals. Fragments are counted apart. A test compares with the full pipeline.
_NEEDS_WORK = Chem.MolFromSmarts(
    "[!+0,X0,$([#7;v5]),$([#16,#34;v4]),#15,#33,#51,!#1!#5!#6!#7!#8!#9!#14!#16!#17!#34!#35!#53]"
)


def _parser(**settings: bool) -> Chem.SmilesParserParams:
    parameters = Chem.SmilesParserParams()
    for name, value in settings.items():
        setattr(parameters, name, value)
    return parameters


_PARSE = _parser(strictCXSMILES=False)
_PARSE_KEEP_HYDROGENS = _parser(removeHs=False)
# The steps of rdMolStandardize.Cleanup, which builds them anew for every molecule (parsing has removed hydrogens, and
# reading the result back perceives stereo).
_METALS = rdMolStandardize.MetalDisconnector()
_GROUPS = rdMolStandardize.Normalizer()
_CHARGES = rdMolStandardize.Reionizer()
_NEUTRAL = rdMolStandardize.Uncharger()


class IntakeError(ValueError):
    """Why a string gives no molecule, in words."""


@dataclass(frozen=True)
class Molecule:
    """One standardised molecule.

    Parameters
    ----------
    mol
        The sanitised RDKit molecule that is featurised.
    key
        Its canonical isomeric SMILES; equal keys are the same molecule.
    order
        Its atom indices in the order of ``key``, which is the order of the zoo's items.
    atom_source, bond_source
        For every atom and bond of ``mol`` its index in the input as ``Chem.MolFromSmiles`` numbers it.
    n_atoms, n_bonds
        Size of the input, parts that were removed included.
    """

    mol: Chem.Mol
    key: str
    order: list[int]
    atom_source: list[int]
    bond_source: list[int]
    n_atoms: int
    n_bonds: int


def read_molecule(smiles: str, options: Mapping[str, Any], notes: Counter[str]) -> Molecule:
    """Parse and standardise one string; what was changed is counted in ``notes``.

    Raises
    ------
    IntakeError
        If the string is empty, cannot be parsed, or its molecule is larger than the option ``max_atoms``.
    """
    mol = parse(smiles)
    if "|" in smiles:
        notes["extended SMILES annotation read"] += 1
    n_atoms, n_bonds = mol.GetNumAtoms(), mol.GetNumBonds()
    _check_size(n_atoms, options)
    key = Chem.MolToSmiles(mol)
    work = options["standardise"] and ("." in key or mol.HasSubstructMatch(_NEEDS_WORK))
    if work or options["tautomer"]:
        return _standardise(mol, key, options, notes)
    return Molecule(mol, key, output_order(mol), list(range(n_atoms)), list(range(n_bonds)), n_atoms, n_bonds)


def parse(smiles: str) -> Chem.Mol:
    """Return the sanitised molecule of a (possibly extended) SMILES string, or raise with RDKit's own reason."""
    text = smiles.strip()
    if not text:
        raise IntakeError("the SMILES string is empty")
    mol = Chem.MolFromSmiles(text, _PARSE)
    if mol is None:
        raise IntakeError(_reason(text))
    if mol.GetNumAtoms() == 0:
        raise IntakeError("the molecule has no atoms")
    return mol


def output_order(mol: Chem.Mol) -> list[int]:
    """Return the atom order of the SMILES string last written of ``mol``."""
    text: str = mol.GetProp("_smilesAtomOutputOrder")
    return list(map(int, text.strip("[],").split(",")))


def _check_size(n_atoms: int, options: Mapping[str, Any]) -> None:
    if n_atoms > options["max_atoms"]:
        raise IntakeError(f"the molecule has {n_atoms} atoms; at most {options['max_atoms']} are allowed (max_atoms)")


def _reason(text: str) -> str:
    """Return why RDKit refuses a string, in its own words but without its time stamps and drawings."""
    with rdBase.CaptureErrorLog() as log:
        Chem.MolFromSmiles(text, _PARSE)
        lines = str(log.messages).splitlines()
    plain = [line.split("] ", 1)[-1].strip() for line in lines if line.strip()]
    useful = [p for p in plain if p.strip("~^ ") and not p.startswith(("SMILES Parse Error: check", text))]
    return f"RDKit: {useful[0]}" if useful else "RDKit cannot parse this SMILES string"


def _standardise(mol: Chem.Mol, key: str, options: Mapping[str, Any], notes: Counter[str]) -> Molecule:
    n_atoms, n_bonds = mol.GetNumAtoms(), mol.GetNumBonds()
    bond_index = {frozenset((b.GetBeginAtomIdx(), b.GetEndAtomIdx())): b.GetIdx() for b in mol.GetBonds()}
    for atom in mol.GetAtoms():
        atom.SetIntProp(_SOURCE, atom.GetIdx())
    try:
        mol = _apply_steps(mol, key, options, notes)
        written = Chem.MolToSmiles(mol)
        parsed = Chem.MolFromSmiles(written, _PARSE_KEEP_HYDROGENS)
    except (RuntimeError, ValueError) as error:  # RDKit's sanitisation and invariant errors
        raise IntakeError(f"RDKit cannot standardise this molecule: {str(error).strip()}") from error
    if parsed is None or parsed.GetNumAtoms() != mol.GetNumAtoms():
        raise IntakeError(f"RDKit cannot read back the standardised molecule {written}")
    # The flags of an edited molecule may be stale, so that it is read back from its own canonical SMILES.
    sources = [a.GetIntProp(_SOURCE) for a in mol.GetAtoms()]
    atom_source = [sources[i] for i in output_order(mol)]
    bond_source = [
        bond_index[frozenset((atom_source[b.GetBeginAtomIdx()], atom_source[b.GetEndAtomIdx()]))]
        for b in parsed.GetBonds()
    ]
    key = Chem.MolToSmiles(parsed)
    return Molecule(parsed, key, output_order(parsed), atom_source, bond_source, n_atoms, n_bonds)


def _apply_steps(mol: Chem.Mol, before: str, options: Mapping[str, Any], notes: Counter[str]) -> Chem.Mol:
    if options["standardise"]:
        fragments = before.count(".")
        _METALS.DisconnectInPlace(mol)
        _GROUPS.normalizeInPlace(mol)
        _CHARGES.reionizeInPlace(mol)
        after = Chem.MolToSmiles(mol)
        if after.count(".") > fragments:
            notes["metal disconnected"] += 1
        elif after != before:
            notes["functional group or charge normalised"] += 1
        if "." in after:
            rdMolStandardize.FragmentParentInPlace(mol, skipStandardize=True)
            notes["salt or solvent removed"] += 1
        before = Chem.MolToSmiles(mol)
        _NEUTRAL.unchargeInPlace(mol)
        after = Chem.MolToSmiles(mol)
        notes["charge neutralised"] += after != before
        before = after
    if options["tautomer"]:
        mol = rdMolStandardize.TautomerEnumerator().Canonicalize(mol)
        notes["tautomer canonicalised"] += Chem.MolToSmiles(mol) != before
    return mol
