"""Learning-rate schedules as pure functions of the step; phases are whole numbers of steps and may be empty."""

from __future__ import annotations

import math

from zoo.specs.task import TrainSpec


def phases(total: int, train: TrainSpec) -> tuple[int, int, int]:
    """Return the steps of warm-up, main phase and final decay; they sum to ``total``, the main phase may be empty.

    Only WSD has a final decay. Every run has a step at the full rate: its last of warm-up, or one of the main phase.
    """
    warm = min(round(train.warmup * total), total - 1)
    decay = min(round(train.decay * total), total - max(warm, 1)) if train.schedule == "wsd" else 0
    return warm, total - warm - decay, decay


def lr_factor(step: int, total: int, train: TrainSpec) -> float:
    """Return the rate of step ``step`` (from 0) as a share of the peak rate.

    Warm-up rises linearly to 1 at its last step. Cosine falls from 1 at its first step to ``final_lr`` at the last (and
    stays at 1 if it has one step only); WSD stays at 1 and falls linearly to ``final_lr`` at the last step; constant
    stays.
    """
    step = min(max(step, 0), total - 1)
    warm, main, decay = phases(total, train)
    if step < warm:
        return (step + 1) / warm
    if train.schedule == "cosine":
        progress = (step - warm) / (main - 1) if main > 1 else 0.0
        return train.final_lr + (1 - train.final_lr) * 0.5 * (1 + math.cos(math.pi * progress))
    if train.schedule == "wsd" and step >= warm + main:
        return 1 - (1 - train.final_lr) * (step - warm - main + 1) / decay
    return 1.0


def timed_step(step: int, total: int, elapsed: float, budget: float | None) -> int:
    """Return the step that a wall-clock budget stands at: the further of steps done and time used.

    Without a budget the schedule is a pure function of the step. With one it follows the clock, so that the final rate
    is reached when the time is used up, and two runs, or a run and its resumption, differ: a budget is exempt from
    equality to the bit.
    """
    if budget is None:
        return step
    return max(step, min(total - 1, int(total * elapsed / budget)))
