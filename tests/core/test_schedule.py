"""Learning-rate schedules: first and last steps, empty phases, runs of one step, wall-clock budgets."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from zoo.core.optim import make_optimizer
from zoo.core.schedule import lr_factor, phases, timed_step
from zoo.specs.task import TrainSpec


def factors(total, **train):
    return [lr_factor(step, total, TrainSpec(**train)) for step in range(total)]


@pytest.mark.parametrize("schedule", ["cosine", "wsd", "constant"])
@pytest.mark.parametrize(("warmup", "decay"), [(0.0, 0.0), (0.3, 0.5), (0.0, 1.0), (0.5, 0.5), (0.99, 0.01)])
@pytest.mark.parametrize("total", [1, 2, 3, 10, 1000])
def test_every_run_has_whole_phases_a_full_step_and_no_step_without_a_rate(schedule, warmup, decay, total):
    train = {"schedule": schedule, "warmup": warmup, "decay": decay, "final_lr": 0.1}
    sizes = phases(total, TrainSpec(**train))
    assert sum(sizes) == total
    assert all(isinstance(size, int) and size >= 0 for size in sizes)
    found = factors(total, **train)
    assert all(0.0 < f <= 1.0 for f in found)
    assert max(found) == 1.0
    assert found[: sizes[0]] == [(step + 1) / sizes[0] for step in range(sizes[0])]


@pytest.mark.parametrize(
    ("schedule", "by_hand"),
    [
        ("cosine", {1: [1.0], 2: [1.0, 0.2], 3: [1.0, 0.6, 0.2]}),
        ("wsd", {1: [1.0], 2: [1.0, 0.2], 3: [1.0, 0.6, 0.2]}),
        ("constant", {1: [1.0], 2: [1.0, 1.0], 3: [1.0, 1.0, 1.0]}),
    ],
)
@pytest.mark.parametrize("total", [1, 2, 3])
def test_runs_of_one_two_and_three_steps(schedule, by_hand, total):
    train = {"schedule": schedule, "warmup": 0.0, "decay": 0.6, "final_lr": 0.2}
    assert factors(total, **train) == pytest.approx(by_hand[total])


@pytest.mark.parametrize(
    ("schedule", "by_hand"),
    [
        ("cosine", {1: [1.0], 2: [1.0, 1.0], 3: [0.5, 1.0, 1.0]}),
        ("wsd", {1: [1.0], 2: [1.0, 1.0], 3: [0.5, 1.0, 0.2]}),
        ("constant", {1: [1.0], 2: [1.0, 1.0], 3: [0.5, 1.0, 1.0]}),
    ],
)
@pytest.mark.parametrize("total", [1, 2, 3])
def test_short_runs_with_a_long_warm_up(schedule, by_hand, total):
    train = {"schedule": schedule, "warmup": 0.7, "decay": 0.2, "final_lr": 0.2}
    assert factors(total, **train) == pytest.approx(by_hand[total])


@pytest.mark.parametrize("schedule", ["cosine", "wsd"])
def test_the_last_step_may_have_no_rate(schedule):
    assert factors(10, schedule=schedule, final_lr=0.0)[-1] == pytest.approx(0.0, abs=1e-15)


def test_cosine_by_hand():
    found = factors(10, schedule="cosine", warmup=0.2, final_lr=0.1)
    assert found[:3] == [0.5, 1.0, 1.0]
    assert found[2:] == pytest.approx([0.1 + 0.9 * math.cos(math.pi * i / 14) ** 2 for i in range(8)])
    assert found[-1] == pytest.approx(0.1)


def test_wsd_stays_and_falls_to_the_end():
    found = factors(10, schedule="wsd", warmup=0.0, decay=0.4, final_lr=0.2)
    assert found[:6] == [1.0] * 6
    assert found[6:] == pytest.approx([0.8, 0.6, 0.4, 0.2])


def test_wsd_of_warm_up_and_decay_alone_has_no_main_phase():
    train = {"schedule": "wsd", "warmup": 0.5, "decay": 0.5, "final_lr": 0.0}
    assert phases(4, TrainSpec(**train)) == (2, 0, 2)
    assert factors(4, **train) == [0.5, 1.0, 0.5, 0.0]


def test_wsd_shares_above_one_are_refused_with_a_remedy():
    with pytest.raises(ValidationError, match=r"warmup 0\.6 and decay 0\.5 .* sum to 1\.1.* train\.decay=0\.4"):
        TrainSpec(schedule="wsd", warmup=0.6, decay=0.5)
    assert TrainSpec(schedule="wsd", warmup=0.7, decay=0.3).decay == 0.3
    assert phases(10, TrainSpec(schedule="cosine", warmup=0.6, decay=0.5)) == (6, 4, 0)


@pytest.mark.parametrize("setting", [{"warmup": 1.0}, {"warmup": -0.1}, {"decay": 1.1}, {"final_lr": 1.5}])
def test_shares_outside_their_range_are_refused(setting):
    with pytest.raises(ValidationError, match=next(iter(setting))):
        TrainSpec(**setting)


def test_a_step_outside_the_run_has_the_rate_of_the_nearest():
    train = TrainSpec()
    assert lr_factor(99, 10, train) == lr_factor(9, 10, train)
    assert lr_factor(-1, 100, train) == lr_factor(0, 100, train)


def test_groups_of_different_rates_follow_the_schedule_each_from_its_own():
    net = nn.Module()
    net.encoder, net.head = nn.Linear(3, 3), nn.Linear(3, 1)
    train = TrainSpec(lr=0.1, encoder_lr_scale=0.25, schedule="wsd", warmup=0.25, decay=0.5, final_lr=0.0)
    optimizer = make_optimizer(net, train)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: lr_factor(step, 8, train))
    for factor in [0.5, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]:
        rates = {group["name"]: group["lr"] for group in optimizer.param_groups}
        assert rates == {
            "head/decay": pytest.approx(0.1 * factor),
            "head/no_decay": pytest.approx(0.1 * factor),
            "encoder/decay": pytest.approx(0.025 * factor),
            "encoder/no_decay": pytest.approx(0.025 * factor),
        }
        optimizer.step()
        schedule.step()


def test_budget_moves_the_schedule_on_but_never_back():
    assert timed_step(3, 100, elapsed=50.0, budget=100.0) == 50
    assert timed_step(80, 100, elapsed=50.0, budget=100.0) == 80
    assert timed_step(3, 100, elapsed=500.0, budget=100.0) == 99
    assert timed_step(3, 100, elapsed=500.0, budget=None) == 3


@pytest.mark.parametrize("schedule", ["cosine", "wsd"])
def test_a_run_that_its_budget_cuts_short_still_goes_through_every_phase(schedule):
    train = TrainSpec(schedule=schedule, warmup=0.1, decay=0.3, final_lr=0.05)
    # A run planned for 1,000 steps that makes 20 in its ten seconds.
    at = [timed_step(step, 1000, elapsed=step * 0.5, budget=10.0) for step in range(21)]
    assert at == [*range(0, 1000, 50), 999]
    found = [lr_factor(step, 1000, train) for step in at]
    assert found[:3] == [0.01, 0.51, 1.0]
    assert found[-1] == pytest.approx(0.05)
    assert found[2:] == sorted(found[2:], reverse=True)
