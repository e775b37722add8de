"""The published ESM-2 (Lin et al. 2023), as plain data: listing them imports nothing."""

from __future__ import annotations

from zoo.specs.published import PublishedModel

BASE = "https://dl.fbaipublicfiles.com/fair-esm"
FILES = {
    "esm2-8m": "esm2_t6_8M_UR50D",
    "esm2-35m": "esm2_t12_35M_UR50D",
    "esm2-150m": "esm2_t30_150M_UR50D",
    "esm2-650m": "esm2_t33_650M_UR50D",
    "esm2-3b": "esm2_t36_3B_UR50D",
    "esm2-15b": "esm2_t48_15B_UR50D",
}
"""Name here and there. The publisher gives no checksums: those of the first download are recorded."""
SIZES = {
    "esm2-8m": (6, 320, 20),
    "esm2-35m": (12, 480, 20),
    "esm2-150m": (30, 640, 20),
    "esm2-650m": (33, 1280, 20),
    "esm2-3b": (36, 2560, 40),
    "esm2-15b": (48, 5120, 40),
}
"""Layers, width and heads that a file of that name must hold."""
CITATION = "Lin et al. 2023, doi:10.1126/science.ade2574"
LICENCE = "MIT"
TASK = "masked-residues"
DATASET = "UniRef50"
_TOKENS = 33


def n_parameters(layers: int, width: int) -> int:
    """Return the parameters of the language model, without the contact head."""
    layer = 12 * width**2 + 13 * width
    head = width**2 + 3 * width + _TOKENS
    return layers * layer + _TOKENS * width + 2 * width + head


MODELS = [
    PublishedModel(
        name=name,
        domain="proteins",
        architecture="esm2",
        parameters=n_parameters(SIZES[name][0], SIZES[name][1]),
        targets="residue",
        task=TASK,
        dataset=DATASET,
        licence=LICENCE,
        citation=CITATION,
        url=f"{BASE}/models/{file}.pt",
    )
    for name, file in FILES.items()
]
