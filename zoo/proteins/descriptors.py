"""Descriptors of whole sequences that the study of peptides goes by: composition, charge, hydropathy, moments.

Nothing here imports torch.
"""

from __future__ import annotations

import numpy as np

from zoo.proteins.alphabet import AMINO_ACIDS, FIRST_RESIDUE, N_AMINO_ACIDS

SETS = ("none", "peptide")
HYDROPATHY = {
    "A": 1.8, "C": 2.5, "D": -3.5, "E": -3.5, "F": 2.8, "G": -0.4, "H": -3.2, "I": 4.5, "K": -3.9, "L": 3.8,
    "M": 1.9, "N": -3.5, "P": -1.6, "Q": -3.5, "R": -4.5, "S": -0.8, "T": -0.7, "V": 4.2, "W": -0.9, "Y": -1.3,
}  # fmt: skip
"""Kyte and Doolittle 1982, J. Mol. Biol. 157, 105, doi:10.1016/0022-2836(82)90515-0."""
HYDROPHOBICITY = {
    "A": 0.62, "C": 0.29, "D": -0.90, "E": -0.74, "F": 1.19, "G": 0.48, "H": -0.40, "I": 1.38, "K": -1.50, "L": 1.06,
    "M": 0.64, "N": -0.78, "P": 0.12, "Q": -0.85, "R": -2.53, "S": -0.18, "T": -0.05, "V": 1.08, "W": 0.81, "Y": 0.26,
}  # fmt: skip
"""Eisenberg's consensus scale; Eisenberg 1984, Annu. Rev. Biochem. 53, 595, doi:10.1146/annurev.bi.53.070184.003115."""
CHARGE = {"K": 1.0, "R": 1.0, "D": -1.0, "E": -1.0}
"""Charges of side chains near pH 7, in elementary charges; histidine and the ends of the chain do not count."""
ANGLES = {"helix": 100.0, "strand": 160.0}
"""Degrees from one residue to the next, seen along the axis."""
WINDOW = 11
"""Residues over which a hydrophobic moment is taken."""

NAMES = [
    *(f"fraction_{letter}" for letter in AMINO_ACIDS),
    "log_length",
    "net_charge",
    "charge_per_residue",
    "hydropathy",
    *(f"{what}_moment_{fold}" for fold in ANGLES for what in ("largest", "mean", "whole")),
]


def describe(tokens: np.ndarray) -> np.ndarray:
    """Return the descriptors :data:`NAMES` of one sequence, ``(30,)`` float64.

    Parameters
    ----------
    tokens
        ``(n,)``, one or more residues. Those that are none of the twenty amino acids count in the length alone.

    Notes
    -----
    ``fraction_*`` are shares of all residues, ``log_length`` is the natural logarithm of their number,
    ``hydropathy`` the mean of Kyte and Doolittle's scale (GRAVY). The hydrophobic moment of ``n`` residues is
    ``|sum_i H_i exp(i k angle)| / n`` (Eisenberg, Weiss and Terwilliger 1984, Proc. Natl. Acad. Sci. USA 81, 140,
    doi:10.1073/pnas.81.1.140): the largest and the mean one of all windows of eleven residues, and that of the whole.
    """
    n = len(tokens)
    code = np.where(tokens < FIRST_RESIDUE + N_AMINO_ACIDS, tokens.astype(np.int64) - FIRST_RESIDUE, N_AMINO_ACIDS)
    fractions = np.bincount(code, minlength=N_AMINO_ACIDS + 1)[:N_AMINO_ACIDS] / n
    charge = _CHARGE[code].sum()
    values = [*fractions, np.log(n), charge, charge / n, _HYDROPATHY[code].mean()]
    width = min(WINDOW, n)
    for angle in ANGLES.values():
        sums = np.cumsum([0, *(_HYDROPHOBICITY[code] * np.exp(1j * np.deg2rad(angle) * np.arange(n)))])
        moments = np.abs(sums[width:] - sums[:-width]) / width
        values += [moments.max(), moments.mean(), abs(sums[-1]) / n]
    return np.asarray(values, np.float64)


def _scale(values: dict[str, float]) -> np.ndarray:
    """Return a scale by the order of the amino acids; the last, of everything else, is 0."""
    return np.asarray([*(values.get(letter, 0.0) for letter in AMINO_ACIDS), 0.0])


_HYDROPATHY, _HYDROPHOBICITY, _CHARGE = _scale(HYDROPATHY), _scale(HYDROPHOBICITY), _scale(CHARGE)
