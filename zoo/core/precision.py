"""In which precision a network computes: autocast around its forward, and scaled losses for float16.

Weights, gradients and optimiser stay in float32 (or float64) throughout. Under ``bf16`` and ``fp16`` the forward alone
runs under autocast and its outputs are cast to float32, so that losses, denominators and scores are never in half
precision. Small gradients vanish in float16, so ``fp16`` multiplies losses by a scale before the backward and divides
the gradients by it before they are clipped; a step whose gradients overflow is skipped, and the scale halved.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from lightning.pytorch.plugins import MixedPrecision, Precision
from lightning.pytorch.plugins.precision import DoublePrecision
from torch import Tensor

from zoo.errors import InputError

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
SMALLEST_SCALE = 2.0**-10
"""A gradient that overflows at this scale of the loss too, 26 halvings below the first one, is not to be rescued."""


class ScaledLosses(MixedPrecision):
    """Lightning's scaling of losses for float16 without its autocast, which would also hold the losses.

    Only :meth:`forward_context` differs; scaling, unscaling before the hook that clips, and skipped steps are its own.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__("16-mixed", device.type)

    def forward_context(self) -> AbstractContextManager[None]:
        """Return a context that does nothing: the module's own forward enters autocast."""
        return nullcontext()


def make_plugin(precision: str, device: torch.device) -> Precision:
    """Return the trainer's plugin for a precision of :class:`~zoo.specs.task.TrainSpec`."""
    check_precision(precision, device)
    if precision == "64":
        return DoublePrecision()
    return ScaledLosses(device) if precision == "fp16" else Precision()


def check_precision(precision: str, device: torch.device) -> None:
    """Raise if a device does not compute in a precision.

    Raises
    ------
    InputError
        If float16 is asked of a CPU.
    """
    if precision == "fp16" and device.type == "cpu":
        raise InputError(
            "train.precision is fp16, which needs a GPU, and this run is on the CPU. Allowed there: 32, 64, bf16. "
            "Type --set train.precision=bf16, or run on a GPU with --device gpu."
        )


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context of a network's forward."""
    dtype = HALF.get(precision)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def full(outputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a network's outputs in at least float32; those that are there already are the same objects."""
    return {name: out if out.dtype == torch.float64 else out.float() for name, out in outputs.items()}


def peak_dtype(precision: str) -> torch.dtype:
    """Return the type that the matrix products of a precision are in."""
    return HALF.get(precision, torch.float64 if precision == "64" else torch.float32)
