"""A network compiled by ``torch.compile``, and eager again for good where that fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from zoo.core.memory import is_out_of_memory
from zoo.core.types import Batch

_log = logging.getLogger(__name__)


class CompiledNetwork:
    """Calls a network in compiled form, for sizes that change from batch to batch.

    The network itself stays what it was: it is not wrapped, so the keys of its state do not change. Compiled code is
    made for a network, a mode (training or evaluation) and the first sizes it meets; :func:`zoo.core.runtime.prepare`
    lets it meet the same ones in every run and resumed run.

    Parameters
    ----------
    network
        What is compiled.
    reseed
        Called with the batch before a failed forward is repeated, since it may have drawn random numbers.
    """

    def __init__(self, network: nn.Module, reseed: Callable[[Batch], None]) -> None:
        self.network = network
        self.reseed = reseed
        self.forward: Any = torch.compile(network, dynamic=True, options={"fallback_random": True})

    def once(self, batch: Batch) -> dict[str, Tensor]:
        """Return the network's outputs, without a fall-back."""
        outputs: dict[str, Tensor] = self.forward(batch)
        return outputs

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Return the network's outputs."""
        try:
            outputs = self.once(batch)
        except Exception as error:
            # Whatever went wrong, the network as it is decides: if the fault is its own, it is raised from there.
            if self.forward is self.network or is_out_of_memory(error):
                raise
            self.forward = self.network
            give_up_note(first_line(error))
            self.reseed(batch)
            outputs = self.network(batch)
        return outputs


def give_up_note(reason: str) -> None:
    """Say why the network is not compiled."""
    _log.warning("compile: fell back to eager: %s", reason)


def first_line(error: BaseException) -> str:
    """Return what an error says in one line; the compiler's wrapping is taken off."""
    inner = getattr(error, "inner_exception", None) or error
    lines = [line.strip() for line in str(inner).splitlines() if line.strip()]
    return f"{type(inner).__name__}: {lines[0]}" if lines else type(inner).__name__
