"""A fixed list of RDKit's 2-D descriptors, chosen to be finite for ions and metals and quick to compute.

Left out: everything that rests on Gasteiger charges or their eigenvalues (undefined for metals), ``Ipc`` (grows beyond
any scale) with ``AvgIpc``, ``qed`` and ``SPS`` (slow). Families that RDKit computes
together are asked for once. Nothing here imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

import numpy as np
from rdkit import Chem
from rdkit.Chem import Descriptors, Fragments, GraphDescriptors, rdMolDescriptors
from rdkit.Chem.EState import EState, EState_VSA

from zoo.errors import unknown_name

_Function = Callable[[Chem.Mol], Sequence[float]]
_T = TypeVar("_T")

_SINGLE: dict[str, Callable[[Chem.Mol], float]] = {
    "MolWt": Descriptors.MolWt,  # type: ignore[attr-defined]
    "HeavyAtomMolWt": Descriptors.HeavyAtomMolWt,
    "NumValenceElectrons": Descriptors.NumValenceElectrons,
    "NumRadicalElectrons": Descriptors.NumRadicalElectrons,
    "FormalCharge": Chem.GetFormalCharge,
    "HeavyAtomCount": rdMolDescriptors.CalcNumHeavyAtoms,
    "NumHeteroatoms": rdMolDescriptors.CalcNumHeteroatoms,
    "NHOHCount": rdMolDescriptors.CalcNumLipinskiHBD,
    "NumHDonors": rdMolDescriptors.CalcNumHBD,
    "NOCount": rdMolDescriptors.CalcNumLipinskiHBA,
    "NumHAcceptors": rdMolDescriptors.CalcNumHBA,
    "NumRotatableBonds": rdMolDescriptors.CalcNumRotatableBonds,
    "NumAmideBonds": rdMolDescriptors.CalcNumAmideBonds,
    "RingCount": rdMolDescriptors.CalcNumRings,
    "NumAromaticRings": rdMolDescriptors.CalcNumAromaticRings,
    "NumAromaticCarbocycles": rdMolDescriptors.CalcNumAromaticCarbocycles,
    "NumAromaticHeterocycles": rdMolDescriptors.CalcNumAromaticHeterocycles,
    "NumAliphaticRings": rdMolDescriptors.CalcNumAliphaticRings,
    "NumAliphaticHeterocycles": rdMolDescriptors.CalcNumAliphaticHeterocycles,
    "NumSaturatedRings": rdMolDescriptors.CalcNumSaturatedRings,
    "NumSaturatedHeterocycles": rdMolDescriptors.CalcNumSaturatedHeterocycles,
    "NumHeterocycles": rdMolDescriptors.CalcNumHeterocycles,
    "NumBridgeheadAtoms": rdMolDescriptors.CalcNumBridgeheadAtoms,
    "NumSpiroAtoms": rdMolDescriptors.CalcNumSpiroAtoms,
    "NumAtomStereoCenters": rdMolDescriptors.CalcNumAtomStereoCenters,
    "FractionCSP3": rdMolDescriptors.CalcFractionCSP3,
    "TPSA": rdMolDescriptors.CalcTPSA,
    "LabuteASA": rdMolDescriptors.CalcLabuteASA,
    "HallKierAlpha": rdMolDescriptors.CalcHallKierAlpha,
    "Kappa1": rdMolDescriptors.CalcKappa1,
    "Kappa2": rdMolDescriptors.CalcKappa2,
    "Kappa3": rdMolDescriptors.CalcKappa3,
    "Phi": rdMolDescriptors.CalcPhi,
    **{f"Chi{k}{v}": getattr(rdMolDescriptors, f"CalcChi{k}{v}") for v in "nv" for k in range(5)},
    "BalabanJ": GraphDescriptors.BalabanJ,
    "BertzCT": GraphDescriptors.BertzCT,
    **{name: getattr(Fragments, name) for name in sorted(dir(Fragments)) if name.startswith("fr_")},
}


def estate_indices(mol: Chem.Mol) -> np.ndarray:
    """Return the electrotopological state of every atom, ``(n_atoms,)`` (Hall, Mohney and Kier 1991).

    The same numbers as RDKit's ``EStateIndices``, whose loop over pairs of atoms in Python took a third of the time
    of all descriptors.
    """
    outer = Chem.GetPeriodicTable().GetNOuterElecs
    atoms = [mol.GetAtomWithIdx(i) for i in range(mol.GetNumAtoms())]
    degree = np.array([a.GetDegree() for a in atoms])
    quantum = np.array([EState.GetPrincipleQuantumNumber(a.GetAtomicNum()) for a in atoms])  # type: ignore[no-untyped-call]
    valence = np.array([outer(a.GetAtomicNum()) - a.GetTotalNumHs() for a in atoms])
    intrinsic = np.where(degree > 0, (4.0 / quantum**2 * valence + 1) / np.maximum(degree, 1), 0.0)
    distance = Chem.GetDistanceMatrix(mol) + 1
    near = np.where(distance < 1e6, distance, np.inf)  # another fragment
    shift: np.ndarray = ((intrinsic[:, None] - intrinsic) / near**2).sum(axis=1)
    indices: np.ndarray = intrinsic + shift
    return indices


def _estate_extremes(mol: Chem.Mol) -> list[float]:
    indices = estate_indices(mol)
    mol._eStateIndices = indices  # noqa: SLF001 - where RDKit's own functions below look for them
    sizes = np.abs(indices)
    return [float(indices.max()), float(indices.min()), float(sizes.max()), float(sizes.min())]


def _estate_vsa(mol: Chem.Mol) -> list[float]:
    values = EState_VSA.EState_VSA_(mol, force=0), EState_VSA.VSA_EState_(mol, force=0)  # type: ignore[no-untyped-call]
    return [float(v) for v in np.concatenate(values)]


_FAMILIES: list[tuple[list[str], _Function]] = [
    (["MolLogP", "MolMR"], rdMolDescriptors.CalcCrippenDescriptors),
    ([f"SlogP_VSA{i}" for i in range(1, 13)], rdMolDescriptors.SlogP_VSA_),
    ([f"SMR_VSA{i}" for i in range(1, 11)], rdMolDescriptors.SMR_VSA_),
    (["MaxEStateIndex", "MinEStateIndex", "MaxAbsEStateIndex", "MinAbsEStateIndex"], _estate_extremes),
    ([*(f"EState_VSA{i}" for i in range(1, 12)), *(f"VSA_EState{i}" for i in range(1, 11))], _estate_vsa),
]

SETS = ("none", "rdkit2d")


class DescriptorError(ValueError):
    """Why a molecule has no descriptors, in words."""


@cache
def descriptor_names(which: str) -> list[str]:
    """Return the names of a set of descriptors, in order."""
    if which not in SETS:
        raise unknown_name("set of descriptors", which, SETS)
    return [] if which == "none" else [*_SINGLE, *(name for names, _ in _FAMILIES for name in names)]


def describe(mol: Chem.Mol, which: str = "rdkit2d") -> np.ndarray:
    """Return the descriptors of one sanitised molecule, ``(n,)`` float64, in RDKit's units.

    Raises
    ------
    DescriptorError
        If RDKit cannot compute one, or its value is not finite; the message names it.
    """
    names = descriptor_names(which)
    if not names:
        return np.zeros(0)
    values: list[float] = []
    for name, function in _SINGLE.items():
        values.append(_call(name, function, mol))
    for family, vector in _FAMILIES:
        values.extend(_call(family[0], vector, mol))
    if not all(map(math.isfinite, values)):
        wrong = next(n for n, v in zip(names, values, strict=True) if not math.isfinite(v))
        raise DescriptorError(f"the descriptor {wrong} is not finite for this molecule; use descriptors: none")
    return np.asarray(values, np.float64)


def _call(name: str, function: Callable[[Chem.Mol], _T], mol: Chem.Mol) -> _T:
    try:
        return function(mol)
    except (RuntimeError, ValueError, ArithmeticError) as error:
        raise DescriptorError(f"RDKit cannot compute the descriptor {name}: {error}") from error
