"""The rung of the device: an epoch in production precision on a GPU gives the losses of the CPU."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from zoo.core.callbacks import RunLog
from zoo.core.conformance.case import Case, Meter, RungError, SkipRung
from zoo.core.conformance.tools import still
from zoo.core.fit import fit, make_trainer

_TOLERANCE = {"64": 1e-8, "32": 1e-3, "bf16": 5e-2, "fp16": 5e-2}


def device_batch(case: Case, meter: Meter) -> None:
    """Verify that on a GPU, in the case's own precision and in bfloat16, an epoch's loss is that of the CPU."""
    if not torch.cuda.is_available():
        raise SkipRung("torch sees no GPU here")
    own = case.build()[0].train_spec.precision
    compare_devices(case, meter, "gpu", [own, "bf16"])


def compare_devices(case: Case, meter: Meter, device: str, precisions: Iterable[str]) -> None:
    """Compare an epoch on a device in some precisions with one in float64 on the CPU."""
    want = _epoch_loss(case, "64", "cpu")
    for precision in dict.fromkeys(precisions):
        got = _epoch_loss(case, precision, device)
        if not math.isfinite(got):
            raise RungError(f"the loss on the device is {got} in precision {precision}")
        meter.close(got, want, _TOLERANCE[precision], f"the loss in precision {precision}")


def _epoch_loss(case: Case, precision: str, device: str) -> float:
    module, data = case.build(precision=precision, epochs=1)
    still(module.network)
    trainer = make_trainer(module, folder=None, device=device, has_val=bool(len(data.parts.get("val", ()))))
    fit(module, data, trainer)
    log = next(c for c in trainer.callbacks if isinstance(c, RunLog))
    return log.rows[-1]["train_loss"]
