"""Sequences that the tests of proteins share."""

import numpy as np
import pytest

from zoo.proteins.alphabet import AMINO_ACIDS, RESIDUES


def sequences(*lengths, seed=0, letters=RESIDUES):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(letters), n)) for n in lengths]


@pytest.fixture(name="sequences", scope="session")
def _sequences():
    return sequences


@pytest.fixture(scope="session")
def amino_acids():
    return AMINO_ACIDS
