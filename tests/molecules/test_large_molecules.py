"""A molecule of hundreds of atoms predicts the same alone and in company, in float32."""

import numpy as np
import pytest
import torch

from zoo.core.domain import get_domain, load_object
from zoo.molecules.featurise import featurise

ARCHITECTURES = dict(get_domain("molecules").architectures)
LARGE = {
    "glycol": "CCO" * 167,
    "fluorinated": "C(F)(F)" * 166 + "F",
    "peptide": "N[C@@H](Cc1ccccc1)C(=O)N[C@@H](CO)C(=O)" * 36 + "O",
    "alkane": "C" * 1000,
}
SMALL = ["CC(=O)Nc1ccc(O)cc1", "C", "CCO", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C"]
BATCHES = ([0, 1, 2, 3, 4], [4, 0], [4, 4, 1], [0, 1, 2, 3] * 15 + [4])


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_large_molecule_is_the_same_alone_and_in_a_batch(name, large):
    items = featurise([*SMALL, LARGE[large]], {"standardise": False}).items
    assert items.size()[4] >= 495
    options = {"steps": 4} if name == "attentivefp" else {}
    for seed in range(3):
        torch.manual_seed(seed)
        model = load_object(ARCHITECTURES[name])(["molecule"], **options).eval()
        with torch.no_grad():
            alone = model(items.collate(np.array([4]), torch.float32))["molecule"][0]
            for index in BATCHES:
                found = model(items.collate(np.array(index), torch.float32))["molecule"]
                for row in found[[i == 4 for i in index]]:
                    torch.testing.assert_close(row, alone, rtol=1e-5, atol=1e-5)
