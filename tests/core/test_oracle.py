"""The loss and gradient of every oracle case, through the real module and the real trainer, in one process."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.core.datamodule import with_counts
from zoo.core.losses import MaskedLoss

sys.path.insert(0, str(Path(__file__).parent))
from oracle_case import CASES, check, run, spec, windows


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_loss_and_gradient_equal_the_oracle(case):
    check(case, *run(case))


@pytest.mark.parametrize("poison", [float("inf"), 1e30, 0.0])
def test_what_stands_in_masked_positions_changes_no_bit(poison):
    case = next(c for c in CASES if c["name"].startswith("two ranks x two"))
    for got, want in itertools.zip_longest(run(case, poison)[0], run(case)[0]):
        assert all(torch.equal(got[name], want[name]) for name in want)


def test_counts_are_those_of_the_file():
    for case in CASES:
        for made, want in zip(windows(case, 0.0), case["expected"], strict=True):
            targets = {t["name"]: spec(t) for t in case["targets"]}
            counts = with_counts({n: MaskedLoss(t) for n, t in targets.items()}, made, key=())[0].counts
            np.testing.assert_allclose(counts, want["denominators"], rtol=1e-12)
