"""Groups of molecules that belong together: the same Bemis-Murcko scaffold, or a cluster of similar fingerprints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rdkit import Chem, DataStructs, rdBase
from rdkit.Chem import rdFingerprintGenerator
from rdkit.Chem.Scaffolds import MurckoScaffold
from rdkit.SimDivFilters import rdSimDivPickers

from zoo.errors import InputError, unknown_name
from zoo.molecules.intake import IntakeError, read_molecule

CUTOFF = 0.4
"""Default largest Tanimoto distance between a cluster's centre and its members."""
LARGEST_EXACT = 10_000
"""Up to so many molecules all pairs are compared; above, leaders are picked, which needs memory for leaders only."""

_INTAKE = {"standardise": True, "tautomer": False, "max_atoms": 1_000_000}


def scaffold(inputs: Sequence[str], *, seed: int, options: Mapping[str, Any]) -> list[str]:
    """Return the Bemis-Murcko scaffold of each standardised molecule, without stereochemistry.

    All acyclic molecules share the empty scaffold, as in the classic definition (Bemis and Murcko 1996,
    J. Med. Chem. 39, 2887).

    Parameters
    ----------
    inputs
        ``n`` SMILES that RDKit can parse.
    seed
        Not used: scaffolds are what they are; the core shuffles whole groups.
    options
        ``generic: true`` makes every atom a carbon and every bond single, so that only the shape counts.
    """
    del seed
    _known(options, {"generic"})
    with rdBase.BlockLogs():
        return [_scaffold(text, bool(options.get("generic", False))) for text in inputs]


def _scaffold(text: str, generic: bool) -> str:
    core = MurckoScaffold.GetScaffoldForMol(standardised(text))  # type: ignore[no-untyped-call]
    if generic:
        core = MurckoScaffold.MakeScaffoldGeneric(core)  # type: ignore[no-untyped-call]
    smiles: str = Chem.MolToSmiles(core, isomericSmiles=False)
    return smiles


def cluster(inputs: Sequence[str], *, seed: int, options: Mapping[str, Any]) -> list[str]:
    """Return a cluster for each molecule: Butina's clusters of ECFP4 fingerprints (2048 bits, radius 2).

    Every member lies within ``cutoff`` of its cluster's centre (Butina 1999, J. Chem. Inf. Comput. Sci. 39, 747).
    Two members of different clusters may still lie closer than that. Above 10,000 molecules leaders are picked in
    the order of the data and every molecule joins the nearest one.

    Parameters
    ----------
    inputs
        ``n`` SMILES that RDKit can parse.
    seed
        Not used: the clusters are the same for every seed; the core shuffles whole groups.
    options
        ``cutoff``: Tanimoto distance, above 0 and below 1, by default 0.4.
    """
    del seed
    _known(options, {"cutoff"})
    cutoff = float(options.get("cutoff", CUTOFF))
    if not 0.0 < cutoff < 1.0:
        raise InputError(f"split option cutoff: {cutoff} is not a Tanimoto distance above 0 and below 1.")
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    with rdBase.BlockLogs():
        prints = [generator.GetFingerprint(standardised(text)) for text in inputs]
    labels = _butina(prints, cutoff) if len(prints) <= LARGEST_EXACT else _leaders(prints, cutoff)
    return [str(label) for label in labels]


def _butina(prints: list[Any], cutoff: float) -> np.ndarray:
    """Return ``(n,)`` cluster numbers; only pairs within the cutoff are kept in memory."""
    near = []
    for fingerprint in prints:
        similar = np.asarray(DataStructs.BulkTanimotoSimilarity(fingerprint, prints))
        near.append(np.flatnonzero(1.0 - similar <= cutoff).astype(np.int32))
    label = np.full(len(prints), -1, dtype=np.int64)
    # the most neighbours first; ties go to the later molecule, as in RDKit's own (pairwise, all in memory) version
    for centre in sorted(range(len(prints)), key=lambda i: (-len(near[i]), -i)):
        if label[centre] < 0:
            members = near[centre]
            label[members[label[members] < 0]] = centre
    return label


def _leaders(prints: list[Any], cutoff: float) -> np.ndarray:
    """Return ``(n,)`` cluster numbers by the nearest of leaders that lie more than the cutoff apart."""
    picked = list(rdSimDivPickers.LeaderPicker().LazyBitVectorPick(prints, len(prints), cutoff))
    leaders = [prints[i] for i in picked]
    nearest = [int(np.argmax(DataStructs.BulkTanimotoSimilarity(p, leaders))) for p in prints]
    return np.asarray(picked, dtype=np.int64)[nearest]


def standardised(text: str) -> Chem.Mol:
    """Return the standardised molecule of a SMILES: cleaned up, without salts and solvents, uncharged."""
    try:
        return read_molecule(text, _INTAKE, Counter()).mol
    except IntakeError as error:
        raise InputError(f"{text!r}: {error}.") from None


def _known(options: Mapping[str, Any], allowed: set[str]) -> None:
    for name in options:
        if name not in allowed:
            raise unknown_name("split option", name, allowed)
