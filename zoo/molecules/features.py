"""What an atom and a bond are to a network: small categorical fields, each with a slot for the unknown.

Every field is a pure function of the standardised molecule, never of the order in which its atoms were written:
tetrahedral centres and double bonds carry their CIP label, and where the CIP rules give none, the handedness seen in
the canonical order of the atoms. Nothing here imports torch, so that worker processes start fast.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdCIPLabeler

CIP_LIMIT = 1_250_000
"""Comparisons after which the CIP labeller gives up (about a second); the centre then counts as unlabelled."""


@dataclass(frozen=True)
class Field:
    """One categorical field: raw values in the order of their slots; any other value takes the last slot."""

    name: str
    values: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of slots, the unknown one included."""
        return len(self.values) + 1

    def slots(self, raw: np.ndarray) -> np.ndarray:
        """Return the slot of each raw value, ``(n,)`` uint8."""
        low, high = min(self.values), max(self.values)
        table = np.full(high - low + 2, len(self.values), np.uint8)
        table[np.asarray(self.values) - low] = np.arange(len(self.values), dtype=np.uint8)
        inside = (raw >= low) & (raw <= high)
        slots: np.ndarray = table[np.where(inside, raw - low, high - low + 1)]
        return slots


CHIRALITY = {"": 0, "R": 1, "S": 2, "r": 3, "s": 4, "@": 5, "@@": 6}
"""``@`` and ``@@``: a centre without a CIP label, seen in canonical order."""
STEREO = {"": 0, "E": 1, "Z": 2, "e": 3, "z": 4, "M": 5, "P": 6, "m": 7, "p": 8, "trans": 9, "cis": 10, "any": 11}
_HYBRIDISATION = ("S", "SP", "SP2", "SP3", "SP2D", "SP3D", "SP3D2")
_BOND_TYPES = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "QUADRUPLE", "DATIVE", "ZERO", "HYDROGEN")
_TYPE_OF_ORDER = {
    1.0: int(Chem.BondType.SINGLE),
    2.0: int(Chem.BondType.DOUBLE),
    3.0: int(Chem.BondType.TRIPLE),
    1.5: int(Chem.BondType.AROMATIC),
}
_UNUSUAL_BONDS = (">", "<", "~", "$")
"""What a SMILES string writes for dative, zero-order, any and quadruple bonds."""
_OTHER = 255

ATOM_FIELDS = (
    Field("element", tuple(range(119))),
    Field("degree", tuple(range(7))),
    Field("formal charge", (0, 1, -1, 2, -2, 3, -3, 4, -4)),
    Field("hydrogens", tuple(range(5))),
    Field("hybridisation", tuple(int(getattr(Chem.HybridizationType, n)) for n in _HYBRIDISATION)),
    Field("aromatic", (0, 1)),
    Field("chirality", tuple(CHIRALITY.values())),
    Field("smallest ring", (0, 3, 4, 5, 6, 7, 8)),
    Field("radical electrons", (0, 1, 2, 3)),
    Field("isotope", (0, 2, 3, 11, 13, 14, 15, 17, 18, 32, 35, 75, 77, 82, 123, 125, 131)),
)
BOND_FIELDS = (
    Field("type", tuple(int(getattr(Chem.BondType, n)) for n in _BOND_TYPES)),
    Field("conjugated", (0, 1)),
    Field("ring", (0, 1)),
    Field("stereo", tuple(STEREO.values())),
)
ATOM_SIZES = tuple(f.size for f in ATOM_FIELDS)
BOND_SIZES = tuple(f.size for f in BOND_FIELDS)

_TETRAHEDRAL = (Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW)
_SPECIFIED = {
    Chem.BondStereo.STEREOZ: "cis",
    Chem.BondStereo.STEREOCIS: "cis",
    Chem.BondStereo.STEREOE: "trans",
    Chem.BondStereo.STEREOTRANS: "trans",
}


def _small() -> array[int]:
    return array("B")


def _whole() -> array[int]:
    return array("i")


@dataclass
class RawFeatures:
    """Raw field values of many molecules, appended one molecule at a time in RDKit's order of atoms and bonds."""

    element: array[int] = field(default_factory=_small)
    charge: array[int] = field(default_factory=_whole)
    hydrogens: array[int] = field(default_factory=_small)
    hybridisation: array[int] = field(default_factory=_small)
    aromatic: array[int] = field(default_factory=_small)
    chirality: array[int] = field(default_factory=_small)
    ring: array[int] = field(default_factory=_whole)
    radical: array[int] = field(default_factory=_small)
    isotope: array[int] = field(default_factory=_whole)
    begin: array[int] = field(default_factory=_whole)
    end: array[int] = field(default_factory=_whole)
    bond_type: array[int] = field(default_factory=_small)
    conjugated: array[int] = field(default_factory=_small)
    in_ring: array[int] = field(default_factory=_small)
    stereo: array[int] = field(default_factory=_small)

    def add(self, mol: Chem.Mol, smiles: str, order: list[int]) -> None:
        """Append a sanitised molecule; ``smiles`` is its canonical SMILES, ``order`` its atoms in that string.

        The text tells which properties cannot differ from their default: without a bracket no atom has a charge, an
        isotope, a radical or a chiral tag; without a slash no double bond has a stereo mark.
        """
        # Half the price of iterating over GetAtoms(), a sequence class written in Python.
        atoms = [mol.GetAtomWithIdx(i) for i in range(mol.GetNumAtoms())]
        bonds = [mol.GetBondWithIdx(i) for i in range(mol.GetNumBonds())]
        rings = mol.GetRingInfo()
        self.element.extend([a.GetAtomicNum() for a in atoms])
        self.hydrogens.extend([a.GetTotalNumHs() for a in atoms])
        self.hybridisation.extend([a.GetHybridization() for a in atoms])
        self.aromatic.extend([a.GetIsAromatic() for a in atoms])
        self.ring.extend([rings.MinAtomRingSize(i) for i in range(len(atoms))])
        if "[" in smiles:
            self.charge.extend([a.GetFormalCharge() for a in atoms])
            self.radical.extend([a.GetNumRadicalElectrons() for a in atoms])
            self.isotope.extend([a.GetIsotope() for a in atoms])
        else:
            self.charge.frombytes(bytes(len(atoms) * self.charge.itemsize))
            self.radical.frombytes(bytes(len(atoms)))
            self.isotope.frombytes(bytes(len(atoms) * self.isotope.itemsize))
        self.begin.extend([b.GetBeginAtomIdx() for b in bonds])
        self.end.extend([b.GetEndAtomIdx() for b in bonds])
        if any(mark in smiles for mark in _UNUSUAL_BONDS):
            self.bond_type.extend([b.GetBondType() for b in bonds])
        else:  # numbers come at half the price of enumeration members
            self.bond_type.extend([_TYPE_OF_ORDER[b.GetBondTypeAsDouble()] for b in bonds])
        self.conjugated.extend([b.GetIsConjugated() for b in bonds])
        self.in_ring.extend([rings.NumBondRings(i) > 0 for i in range(len(bonds))])
        chirality, stereo = bytearray(len(atoms)), bytearray(len(bonds))
        tagged = [a for a in atoms if a.GetChiralTag()] if "@" in smiles else []
        marked = [b for b in bonds if b.GetStereo()] if "/" in smiles or "\\" in smiles else []
        if tagged or marked:
            _mark_stereo(mol, order, (tagged, chirality), (marked, stereo))
        self.chirality.frombytes(chirality)
        self.stereo.frombytes(stereo)

    def atom_slots(self, degree: np.ndarray) -> np.ndarray:
        """Return all atoms' slots, ``(n_atoms, n_fields)`` uint8, in the order of appending."""
        raw = (
            _ints(self.element), degree, _ints(self.charge), _ints(self.hydrogens), _ints(self.hybridisation),
            _ints(self.aromatic), _ints(self.chirality), np.minimum(_ints(self.ring), 8), _ints(self.radical),
            _ints(self.isotope),
        )  # fmt: skip
        return np.stack([f.slots(values) for f, values in zip(ATOM_FIELDS, raw, strict=True)], axis=1)

    def bond_slots(self) -> np.ndarray:
        """Return all bonds' slots, ``(n_bonds, n_fields)`` uint8, in the order of appending."""
        raw = (_ints(self.bond_type), _ints(self.conjugated), _ints(self.in_ring), _ints(self.stereo))
        return np.stack([f.slots(values) for f, values in zip(BOND_FIELDS, raw, strict=True)], axis=1)


def _mark_stereo(
    mol: Chem.Mol,
    order: list[int],
    centres: tuple[list[Chem.Atom], bytearray],
    double_bonds: tuple[list[Chem.Bond], bytearray],
) -> None:
    """Write the raw chirality of the tagged atoms and the raw stereo of the marked bonds."""
    (tagged, chirality), (marked, stereo) = centres, double_bonds
    labelled = _label(mol)
    rank = {atom: place for place, atom in enumerate(order)}
    for atom in tagged:
        code = atom.GetProp("_CIPCode") if labelled and atom.HasProp("_CIPCode") else ""
        if not code and atom.GetChiralTag() in _TETRAHEDRAL:
            code = _handedness(atom, rank)
        chirality[atom.GetIdx()] = CHIRALITY.get(code, _OTHER) if code else _OTHER
    for bond in marked:
        code = bond.GetProp("_CIPCode") if labelled and bond.HasProp("_CIPCode") else ""
        stereo[bond.GetIdx()] = STEREO.get(code or _side(bond, rank), _OTHER)


def _label(mol: Chem.Mol) -> bool:
    try:
        rdCIPLabeler.AssignCIPLabels(mol, maxRecursiveIterations=CIP_LIMIT)
    except RuntimeError:  # the limit, or a graph that the labeller cannot order
        return False
    return True


def _handedness(atom: Chem.Atom, rank: dict[int, int]) -> str:
    """Return ``@`` or ``@@`` as seen with the neighbours in canonical order."""
    places = [rank[b.GetOtherAtomIdx(atom.GetIdx())] for b in atom.GetBonds()]
    swaps = sum(places[i] > places[j] for i in range(len(places)) for j in range(i + 1, len(places)))
    clockwise = (atom.GetChiralTag() == Chem.ChiralType.CHI_TETRAHEDRAL_CW) ^ bool(swaps % 2)
    return "@@" if clockwise else "@"


def _side(bond: Chem.Bond, rank: dict[int, int]) -> str:
    """Return ``cis`` or ``trans`` of the neighbours that come first in canonical order, ``any``, or ``other``."""
    if bond.GetStereo() == Chem.BondStereo.STEREOANY:
        return "any"
    side = _SPECIFIED.get(bond.GetStereo())
    reference = list(bond.GetStereoAtoms())
    if side is None or len(reference) != 2:
        return "other"
    flips = 0
    for atom, other, chosen in (
        (bond.GetBeginAtom(), bond.GetEndAtomIdx(), reference[0]),
        (bond.GetEndAtom(), bond.GetBeginAtomIdx(), reference[1]),
    ):
        first = min((n.GetIdx() for n in atom.GetNeighbors() if n.GetIdx() != other), key=rank.__getitem__)
        flips += first != chosen
    return side if flips % 2 == 0 else ("trans" if side == "cis" else "cis")


def _ints(values: array[int]) -> np.ndarray:
    return np.frombuffer(values, dtype=np.uint8 if values.typecode == "B" else np.intc).astype(np.int64)
