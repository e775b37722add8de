"""Learning-rate schedules: first and last steps, empty phases, runs of one step."""

import pytest

from zoo.core.schedule import lr_factor, phases, timed_step
from zoo.specs.task import TrainSpec


@pytest.mark.parametrize("schedule", ["cosine", "wsd", "constant"])
@pytest.mark.parametrize("total", [1, 2, 3, 10, 1000])
def test_phases_sum_to_the_total_and_factors_stay_in_range(schedule, total):
    train = TrainSpec(schedule=schedule, warmup=0.3, decay=0.5, final_lr=0.1)
    assert sum(phases(total, train)) == total
    factors = [lr_factor(s, total, train) for s in range(total)]
    assert all(0.0 < f <= 1.0 for f in factors)
    assert max(factors) == 1.0


def test_one_step_uses_the_full_rate():
    for schedule in ("cosine", "constant"):
        assert lr_factor(0, 1, TrainSpec(schedule=schedule, warmup=0.9)) == 1.0


def test_cosine_by_hand():
    train = TrainSpec(schedule="cosine", warmup=0.2, final_lr=0.1)
    factors = [lr_factor(s, 10, train) for s in range(10)]
    assert factors[:3] == [0.5, 1.0, 1.0]
    assert factors[-1] == pytest.approx(0.1)
    half = [lr_factor(s, 11, TrainSpec(schedule="cosine", warmup=0.0, final_lr=0.0)) for s in range(11)]
    assert half[5] == pytest.approx(0.5)


def test_wsd_stays_and_falls_to_the_end():
    train = TrainSpec(schedule="wsd", warmup=0.0, decay=0.4, final_lr=0.2)
    factors = [lr_factor(s, 10, train) for s in range(10)]
    assert factors[:6] == [1.0] * 6
    assert factors[6:] == pytest.approx([0.8, 0.6, 0.4, 0.2])


def test_a_step_past_the_end_keeps_the_last_rate():
    train = TrainSpec()
    assert lr_factor(99, 10, train) == lr_factor(9, 10, train)


def test_budget_moves_the_schedule_on_but_never_back():
    assert timed_step(3, 100, elapsed=50.0, budget=100.0) == 50
    assert timed_step(80, 100, elapsed=50.0, budget=100.0) == 80
    assert timed_step(3, 100, elapsed=500.0, budget=100.0) == 99
    assert timed_step(3, 100, elapsed=500.0, budget=None) == 3
