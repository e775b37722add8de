"""The vocabulary of ESM-1b and ESM-2: 33 tokens, in fair-esm's order.

fair-esm's own alphabet is what it has to equal, and a test compares the two; importing ``esm`` for a list of 33 words
would make every start slower.
"""

from __future__ import annotations

import numpy as np

TOKENS = (
    "<cls>", "<pad>", "<eos>", "<unk>",
    *"LAGVSERTIDPKQNFYMHWCXBUZO", ".", "-",
    "<null_1>", "<mask>",
)  # fmt: skip
"""Every token by its index. ``.`` and ``-`` stand in alignments only and are no residues here."""
CLS, PAD, EOS, MASK = (TOKENS.index(name) for name in ("<cls>", "<pad>", "<eos>", "<mask>"))
AMINO_ACIDS = "LAGVSERTIDPKQNFYMHWC"
"""The twenty that the genetic code names, in the order of their tokens."""
RESIDUES = AMINO_ACIDS + "XBUZO"
"""What a sequence may hold: also unknown, Asx, selenocysteine, Glx and pyrrolysine."""
FIRST_RESIDUE = TOKENS.index("L")
N_AMINO_ACIDS = len(AMINO_ACIDS)

NOT_A_RESIDUE = 255
CODE = np.full(256, NOT_A_RESIDUE, np.uint8)
"""``(256,)``: from the ASCII code of an upper-case letter to its token, else :data:`NOT_A_RESIDUE`."""
CODE[np.frombuffer(RESIDUES.encode(), np.uint8)] = np.arange(len(RESIDUES)) + FIRST_RESIDUE


def is_standard(tokens: np.ndarray) -> np.ndarray:
    """Return whether each token is one of the twenty amino acids."""
    standard: np.ndarray = (tokens >= FIRST_RESIDUE) & (tokens < FIRST_RESIDUE + N_AMINO_ACIDS)
    return standard


def spell(tokens: np.ndarray) -> str:
    """Return residue tokens as letters."""
    return "".join(TOKENS[int(token)] for token in tokens)
