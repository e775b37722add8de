"""Rungs of one optimiser step: it runs, its loss is the one defined, hidden labels are absent, it can learn."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.core.conformance.case import Case, Meter, NotFiniteError, RungError
from zoo.core.conformance.oracle import window_loss
from zoo.core.conformance.tools import (
    Step,
    backward,
    first_items,
    hide_labels,
    is_random,
    still,
    trainable,
    window_of,
)
from zoo.core.datamodule import ZooDataModule, with_counts
from zoo.core.module import ZooModule
from zoo.core.optim import make_optimizer
from zoo.core.types import Batch, Labels, Target

_STEPS = 4
_ITEMS = 24
_POISON = (float("nan"), float("inf"), float("-inf"), 1e30)
_WRONG_CLASS = (-1, 1_000_000)
_LEARN_ITEMS = 8
_LEARN_STEPS = 400
_LEARN_RATES = (1e-3, 1e-2, 1e-4)
_LEARNT = 0.05
_WELL_LEARNT = 0.005
"""Where learning stops: below the bound, so that what is reported says how far from it the network is."""
_NOTHING = 1e-9


def one_batch(case: Case, meter: Meter) -> None:
    """Verify that forward, loss, backward and step are finite, and that a gradient reaches every trainable parameter.

    A few steps are taken, for behind a gate that starts at zero the first gradient is zero.
    """
    module, data = case.build()
    module.network.train()
    parameters = trainable(module.network)
    if not parameters:
        raise RungError("the network has no trainable parameter")
    optimizer = make_optimizer(module.network, module.train_spec)
    reached: set[str] = set()
    for window in itertools.islice(itertools.cycle(data.train_loader), _STEPS):
        found = backward(module, window)
        if not torch.isfinite(found.loss):
            raise RungError(f"the loss of the first batch is {float(found.loss)}")
        _name("the gradient is not finite of", [n for n, g in found.gradients.items() if not g.isfinite().all()])
        reached |= {n for n, g in found.gradients.items() if g.any()}
        optimizer.step()
        _name("after a step not finite:", [n for n, p in parameters.items() if not p.isfinite().all()])
    _name(f"the gradient is zero in {_STEPS} steps of", parameters.keys() - reached)
    meter.add(0.0, 0.0, "parameters without a finite gradient")


def _name(what: str, names: Any) -> None:
    if names:
        raise RungError(f"{what} {', '.join(sorted(names))}")


def loss_and_masks(case: Case, meter: Meter) -> None:
    """Verify that the loss of a window of microbatches is the one defined, and that what is masked changes no bit."""
    module, data = case.build(precision="64")
    still(module.network)
    hide_labels(data)
    pieces = np.array_split(first_items(data, _ITEMS), 3)
    if is_random(module, data.source.batch(pieces[0])):
        module.network.eval()
        meter.notes.append("looked at in evaluation mode, for in training mode the outputs are random")
    window = _last_hidden(window_of(data, pieces), data)
    step = backward(module, window)
    if len(step.outputs) != len(window):
        raise RungError("the loss does not come from one pass through the network per microbatch")
    loss, grads = window_loss(module.targets, step.outputs, window, reduction=module.train_spec.reduction)
    meter.close(step.loss, loss, 1e-12, "the loss beside its definition")
    for found, expected in zip(step.outputs, grads, strict=True):
        for name, want in expected.items():
            got = found[name].grad
            got = torch.zeros_like(found[name]) if got is None else got
            meter.close(got, torch.from_numpy(want), 1e-12, f"the gradient of {name!r} beside its definition")
    for number in range(len(_POISON)):
        _same_step(meter, backward(module, [poisoned(batch, number) for batch in window]), step)
    _metrics(module, data, meter)


def _last_hidden(window: list[Batch], data: ZooDataModule) -> list[Batch]:
    """Hide every label of the window's last microbatch, which must then add nothing."""
    targets = {n: replace(t, mask=torch.zeros_like(t.mask)) for n, t in window[-1].targets.items()}
    return with_counts(data.train_loader.losses, [*window[:-1], replace(window[-1], targets=targets)], key=(0, 0))


def poisoned(batch: Batch, number: int) -> Batch:
    """Return a batch with a wild value in every masked position."""

    def spoil(target: Target) -> Target:
        values = target.values
        wild = _POISON[number] if values.is_floating_point() else _WRONG_CLASS[number % len(_WRONG_CLASS)]
        return replace(target, values=torch.where(target.mask, values, torch.full_like(values, wild)))

    return replace(batch, targets={name: spoil(target) for name, target in batch.targets.items()})


def _same_step(meter: Meter, got: Step, want: Step) -> None:
    meter.bits(got.loss, want.loss, "the loss with wild values in masked positions")
    for name, gradient in want.gradients.items():
        meter.bits(got.gradients[name], gradient, f"the gradient of {name} with wild values in masked positions")


def _metrics(module: ZooModule, data: ZooDataModule, meter: Meter) -> None:
    batches = list(data.val_dataloader())
    if not batches:
        meter.notes.append("no metric looked at, for there is no validation part")
        return
    labels = dict(module.val_labels)
    want = _validate(module, batches)
    for number in range(len(_POISON)):
        module.val_labels = {name: _spoilt(found, number) for name, found in labels.items()}
        got = _validate(module, [poisoned(b, number) for b in batches])
        if got.keys() != want.keys():
            raise RungError("with wild values in masked positions other metrics have a value")
        for name, value in want.items():
            meter.bits(got[name], value, f"{name} with wild values in masked positions")


def _spoilt(labels: Labels, number: int) -> Labels:
    floats = labels.values.dtype.kind == "f"
    wild = _POISON[number] if floats else _WRONG_CLASS[number % len(_WRONG_CLASS)]
    with np.errstate(over="ignore"):  # small floats hold no more than inf
        return replace(labels, values=np.where(labels.mask, labels.values, wild))


@torch.no_grad()
def _validate(module: ZooModule, batches: list[Batch]) -> Mapping[str, float]:
    module.network.eval()
    module.validation.reset()
    for batch in batches:
        module.validation.update(batch, module(batch))
    return module.finish_validation()


def overfit(case: Case, meter: Meter) -> None:
    """Verify that a batch can be learnt by heart: its loss falls to a small share of that of outputs of zero."""
    shares: list[float] = []
    for rate in _LEARN_RATES:
        module, data = case.build(precision="32", microbatches=1, lr=rate, weight_decay=0.0, optimizer="adamw")
        shares.append(_learn(module, data))
        if shares[-1] <= _LEARNT:
            break
    meter.add(min(shares), _LEARNT, f"the share of the loss that is left after {_LEARN_STEPS} steps")


def _learn(module: ZooModule, data: ZooDataModule) -> float:
    still(module.network)
    module.network.train()
    window = window_of(data, [_labelled(data)])
    outputs = backward(module, window).outputs
    zero: list[Mapping[str, Tensor]] = [{n: torch.zeros_like(v) for n, v in found.items()} for found in outputs]
    start, _ = window_loss(module.targets, zero, window, reduction=module.train_spec.reduction)
    optimizer = make_optimizer(module.network, module.train_spec)
    best = float("inf")
    for _ in range(_LEARN_STEPS):
        try:
            loss = float(backward(module, window).loss)
        except NotFiniteError:  # too high a rate; the first pass was finite
            break
        start = start if start > _NOTHING else max(loss, _NOTHING)  # every label is 0
        best = min(best, loss / start)
        if best <= _WELL_LEARNT:
            break
        torch.nn.utils.clip_grad_norm_(module.network.parameters(), 1.0)
        optimizer.step()
    return best


def _labelled(data: ZooDataModule) -> np.ndarray:
    """Return a few training items, each with a label."""
    train = first_items(data, 8 * _LEARN_ITEMS)
    masks = [data.source.batch(train[i : i + 1]).targets.values() for i in range(len(train))]
    found = train[[any(t.mask.any() for t in targets) for targets in masks]][:_LEARN_ITEMS]
    if not len(found):
        raise RungError("none of the first training items has a label")
    return found
