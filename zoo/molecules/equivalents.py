"""The same molecules written otherwise: what a prediction must not depend on."""

from __future__ import annotations

import numpy as np
from rdkit import Chem, rdBase

from zoo.molecules.items import MolItems


def random_smiles(smiles: str, seed: int) -> str:
    """Return another SMILES string of the same molecule, by RDKit's random traversal.

    A string that RDKit cannot read, or one with an extension (``CCO |...|``), whose atom numbers would no longer fit,
    is returned as it is.
    """
    with rdBase.BlockLogs():
        molecule = None if "|" in smiles else Chem.MolFromSmiles(smiles)
    if molecule is None or not molecule.GetNumAtoms():
        return smiles
    found: str = Chem.MolToRandomSmilesVect(molecule, 1, randomSeed=seed + 1)[0]
    return found


def permuted(items: MolItems, seed: int) -> MolItems:
    """Return the same molecules with atoms, bonds and the ends of each bond in a random order."""
    rng = np.random.default_rng(seed)
    atoms, bonds = _within(items.atom_ptr, rng), _within(items.bond_ptr, rng)
    place = np.empty_like(atoms)
    place[atoms] = np.arange(len(atoms))
    start = np.repeat(items.atom_ptr[:-1], np.diff(items.bond_ptr))[:, None]
    ends = (place[items.ends + start] - start)[bonds]
    turned = rng.random(len(ends)) < 0.5
    ends[turned] = ends[turned, ::-1]
    return type(items).build(
        {
            "atom_ptr": items.atom_ptr,
            "bond_ptr": items.bond_ptr,
            "n_atoms_source": items.n_atoms_source,
            "n_bonds_source": items.n_bonds_source,
            "descriptors": items.descriptors,
            "atoms": items.atoms[atoms],
            "atom_source": items.atom_source[atoms],
            "bonds": items.bonds[bonds],
            "bond_source": items.bond_source[bonds],
            "ends": ends.astype(np.int32),
        }
    )


def _within(ptr: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a random order of all nodes in which each molecule's stay together."""
    owner = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    return np.lexsort((rng.random(len(owner)), owner))
