"""The rung of resuming: a fit that was stopped twice and resumed ends with the bits of one that was not."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback

from zoo.core.callbacks import TIMING
from zoo.core.conformance.case import Case, Meter, RungError, SkipRung
from zoo.core.fit import FitResult, fit, make_trainer
from zoo.core.module import ZooModule
from zoo.core.resume import NAME, SaveEvery, read_checkpoint

_WINDOWS = 4
_EPOCHS = 2
_CLOCK = ("elapsed", *TIMING)


class _StopAt(Callback):
    """Asks for a stop during a step, as a signal would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: L.Trainer, pl_module: ZooModule, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Ask in the middle of the step, by its number from 1."""
        if pl_module.step + 1 == self.step:
            pl_module.request_stop("verification")


def resume(case: Case, meter: Meter) -> None:
    """Verify that a fit stopped in the middle of the first epoch and again of the second ends as if it had not been."""
    if case.train_size < 2:
        raise SkipRung("a fit can only be stopped within an epoch of two training items or more")
    windows = -(-case.train_size // _batch_size(case.train_size))
    middle = max(1, windows // 2)
    with tempfile.TemporaryDirectory() as root:
        whole, stopped, straight = (Path(root, name) for name in ("whole", "stopped", "straight"))
        network, result = _fit(case, whole)
        _stop(case, stopped, middle)
        _stop(case, stopped, windows + middle)
        if middle + 1 < windows:
            # What only the past knows, such as the best weights so far, must be there before a validation renews it.
            for folder in (stopped, straight):
                _stop(case, folder, windows + middle + 1)
            _compare(stopped, straight, meter)
        resumed_network, resumed = _fit(case, stopped)
        if resumed != result:
            raise RungError(f"the resumed fit ended otherwise: {_differences(resumed, result)}")
        for name, tensor in network.items():
            meter.bits(resumed_network[name], tensor, f"the selected weights, {name}")
        _compare(stopped, whole, meter)
        rows, expected = ((folder / "metrics.csv").read_text().splitlines() for folder in (stopped, whole))
        meter.add(float(rows != expected), 0.0, "rows of metrics.csv")


def _stop(case: Case, folder: Path, step: int) -> None:
    """Fit up to a step."""
    _, part = _fit(case, folder, stop=step)
    if not part.interrupted or part.steps != step:
        raise RungError(f"asked to stop at step {step}, the fit ended at step {part.steps} ({part.stopped})")


def _batch_size(n: int) -> int:
    return math.ceil(n / _WINDOWS)


def _fit(case: Case, folder: Path, stop: int | None = None) -> tuple[dict[str, torch.Tensor], FitResult]:
    """Fit, from the folder's checkpoint if it has one, with every kind of state there is."""
    folder.mkdir(exist_ok=True)
    module, data = case.build(
        epochs=_EPOCHS,
        batch_size=_batch_size(case.train_size),
        microbatches=2,
        ema=0.9,
        validations=1,
        patience=_EPOCHS,  # counts validations, and is not to end the fit
    )
    has_val = bool(len(data.parts.get("val", ())))
    trainer = make_trainer(module, folder=folder, device="cpu", has_val=has_val, save=SaveEvery(None, None))
    if stop is not None:
        trainer.callbacks.insert(0, _StopAt(stop))
    path = folder / NAME
    result = fit(module, data, trainer, resume=read_checkpoint(path) if path.exists() else None)
    return module.network.state_dict(), result


def _leaves(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of nested mappings and sequences with its path, but for the clock's."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in _CLOCK:
                yield from _leaves(inner, f"{where}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _leaves(inner, f"{where}[{i}]")
    else:
        yield where, value


def _compare(folder: Path, reference: Path, meter: Meter) -> None:
    """Ask that two folders have the same checkpoint."""
    got, want = (dict(_leaves(read_checkpoint(place / NAME))) for place in (folder, reference))
    if got.keys() != want.keys():
        raise RungError(f"the checkpoints differ in {', '.join(sorted(got.keys() ^ want.keys())[:5])}")
    for name, value in want.items():
        if isinstance(value, torch.Tensor | float) and type(got[name]) is type(value):
            meter.bits(got[name], value, f"{name} of the checkpoint")
        elif got[name] != value:
            raise RungError(f"{name} of the checkpoint is {_said(got[name])} instead of {_said(value)}")


def _differences(got: FitResult, want: FitResult) -> str:
    """Say in which fields two results differ."""
    names = [field.name for field in fields(want) if getattr(got, field.name) != getattr(want, field.name)]
    return ", ".join(f"{name} {getattr(got, name)!r} instead of {getattr(want, name)!r}" for name in names)


def _said(value: Any) -> str:
    return f"a tensor {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
