"""The rung of finite differences: the gradient is that of the loss."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from zoo.core.conformance.case import Case, Meter
from zoo.core.conformance.tools import backward, first_items, is_random, still, trainable, window_of
from zoo.core.module import ZooModule
from zoo.core.types import Batch

_ITEMS = 6
_TOLERANCE = 1e-4
_STEPS = (1e-6, 1e-5, 1e-7)
_FLOOR = 1e-2
"""Derivatives are compared relative to themselves, or to this share of the largest one where they are smaller."""


def finite_differences(case: Case, meter: Meter) -> None:
    """Verify that central differences agree with the gradient, for a few weights of every trainable tensor."""
    module, data = case.build(precision="64")
    still(module.network)
    window = window_of(data, [first_items(data, _ITEMS)])
    if is_random(module, window[0]):
        module.network.eval()
        meter.notes.append("looked at in evaluation mode, for in training mode the outputs are random")
    gradients = backward(module, window).gradients
    floor = _FLOOR * max(float(g.abs().max()) for g in gradients.values() if g.numel())
    rng = np.random.default_rng(0)
    for name, parameter in trainable(module.network).items():
        for at in _weights(gradients[name], rng):
            exact = float(gradients[name][at])
            # A kink of the network within a step spoils one difference, not those of other steps.
            errors = []
            for step in _STEPS:
                slope = _difference(module, window, parameter, at, step)
                errors.append(abs(slope - exact) / max(abs(exact), floor, 1e-12))
                if errors[-1] <= _TOLERANCE:
                    break
            meter.add(min(errors), _TOLERANCE, f"the derivative with respect to {name}{list(at)}")


def _weights(gradient: Tensor, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Return the place of the steepest weight, of one that matters at all, and of any one."""
    flat = gradient.flatten().numpy()
    if not len(flat):
        return []
    felt = np.flatnonzero(flat)
    chosen = {int(np.abs(flat).argmax()), int(rng.choice(felt if len(felt) else len(flat))), int(rng.choice(len(flat)))}
    return [tuple(int(i) for i in np.unravel_index(c, gradient.shape)) for c in sorted(chosen)]


@torch.no_grad()
def _difference(
    module: ZooModule, window: list[Batch], parameter: nn.Parameter, at: tuple[int, ...], step: float
) -> float:
    before = float(parameter[at])
    step *= max(1.0, abs(before))
    values = []
    for shift in (step, -step):
        parameter[at] = before + shift
        values.append(float(_loss(module, window)))
    parameter[at] = before
    return (values[0] - values[1]) / (2 * step)


def _loss(module: ZooModule, window: list[Batch]) -> Tensor:
    counts = window[0].counts
    if counts is None:
        raise ValueError("the window has no counts")
    return torch.stack([module.microbatch_loss(batch, counts) for batch in window]).sum()
