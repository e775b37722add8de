"""Masked losses against hand computation and torch's own reductions."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from zoo.core.losses import MaskedLoss
from zoo.core.reduction import local_counts, step_loss
from zoo.core.types import SumCount, Target
from zoo.specs.target import TargetSpec


def loss(kind="regression", **extra):
    return MaskedLoss(TargetSpec(name="y", level="molecule", kind=kind, **extra))


@pytest.mark.parametrize(("name", "function"), [("mse", F.mse_loss), ("mae", F.l1_loss), ("huber", F.huber_loss)])
def test_regression_losses_equal_torchs_on_the_valid_elements(name, function):
    generator = torch.Generator().manual_seed(0)
    pred, true = (torch.randn(40, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    mask = torch.rand(40, 3, generator=generator) < 0.6
    found = loss(loss=name)(pred, Target(true, mask))
    assert found.count == mask.sum()
    torch.testing.assert_close(found.mean(), function(pred[mask], true[mask]), rtol=1e-12, atol=1e-12)


def test_positive_weight_leaves_the_count_alone():
    pred = torch.tensor([[0.3], [-1.2], [2.0]], dtype=torch.float64)
    true = torch.tensor([[1.0], [0.0], [1.0]], dtype=torch.float64)
    found = loss("binary", pos_weight=3.0)(pred, Target(true, torch.tensor([[True], [True], [False]])))
    by_hand = -3.0 * np.log(1 / (1 + np.exp(-0.3))) - np.log(1 - 1 / (1 + np.exp(1.2)))
    assert float(found.total) == pytest.approx(by_hand, rel=1e-12)
    assert found.count == 2


def test_class_weights_enter_the_count():
    pred = torch.zeros(3, 2, dtype=torch.float64)
    target = Target(torch.tensor([0, 1, 1]), torch.tensor([True, True, False]))
    found = loss("multiclass", classes=["a", "b"], class_weights=[1.0, 4.0])(pred, target)
    assert found.count == 5
    assert float(found.mean()) == pytest.approx(np.log(2), rel=1e-7)


def test_nan_in_masked_positions_reaches_neither_value_nor_gradient():
    pred = torch.tensor([[1.0], [float("nan")], [3.0]], requires_grad=True)
    target = Target(torch.tensor([[0.0], [1.0], [float("nan")]]), torch.tensor([[True], [False], [False]]))
    found = loss()(pred, target)
    found.total.backward()
    assert found.total == 1.0
    assert found.count == 1
    assert pred.grad.tolist() == [[2.0], [0.0], [0.0]]


def test_shapes_that_would_broadcast_are_refused():
    with pytest.raises(ValueError, match=r"\(4, 1\).*\(4,\)"):
        loss()(torch.zeros(4, 1), Target(torch.zeros(4), torch.ones(4, dtype=torch.bool)))


def test_half_precision_is_summed_in_float32():
    pred = torch.full((3000, 1), 1.0, dtype=torch.bfloat16)
    found = loss()(pred, Target(torch.zeros(3000, 1), torch.ones(3000, 1, dtype=torch.bool)))
    assert found.total.dtype == torch.float32
    assert found.total == 3000  # bfloat16 would stop at 256


def test_mean_of_nothing_is_zero():
    zero = torch.zeros((), dtype=torch.float64)
    assert SumCount(zero, zero).mean() == 0.0


def test_window_counts_add_up_and_pooled_divides_by_all():
    losses = {"a": loss(), "b": loss()}
    full, half = torch.tensor([[True], [True]]), torch.tensor([[True], [False]])
    part = {"a": Target(torch.zeros(2, 1), full), "b": Target(torch.zeros(2, 1), half)}
    counts = local_counts(losses, [part, part])
    assert counts.tolist() == [4.0, 2.0]
    sums = [torch.tensor(8.0), torch.tensor(6.0)]
    assert step_loss(sums, counts, [1.0, 0.5], "per_target") == 8 / 4 + 0.5 * 6 / 2
    assert float(step_loss(sums, counts, [1.0, 0.5], "pooled")) == pytest.approx((8 + 3) / 6)
