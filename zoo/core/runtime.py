"""What is settled before the first step: how a step is cut to fit into memory, compiled code, and what to compare with.

Everything here works on copies of the data's heaviest or first step and forgets the outcome: no weight, gradient or
random state is left changed, so that a run has the same bits with and without it. What was settled about sizes is in
the checkpoint, and a resumed run keeps it.
"""

from __future__ import annotations

import os
from typing import Any

import lightning as L
import numpy as np
import torch

from zoo.core.batching import batches
from zoo.core.callbacks import RunLog
from zoo.core.compiled import CompiledNetwork, first_line, give_up_note
from zoo.core.datamodule import ZooDataModule, move_window
from zoo.core.memory import find_evaluation_limit, find_microbatches, is_out_of_memory
from zoo.core.module import ZooModule
from zoo.core.precision import peak_dtype
from zoo.core.ranks import is_main, ranks, sum_over_ranks
from zoo.core.throughput import count_flops, peak_flops, size_of
from zoo.core.types import Batch

PROBE = "ZOO_PROBE"
"""Environment variable: 1 tries the heaviest step on a CPU too, 0 nowhere. Without it, only a GPU's memory is tried:
a host lends more memory than it has, and ends a process that uses it instead of raising an error."""


def prepare(module: ZooModule, data: ZooDataModule, trainer: L.Trainer) -> None:
    """Settle the sizes, compile, and measure; every process of a job calls it before the fit."""
    device = trainer.strategy.root_device
    module.to(device)
    module.train()
    with trainer.precision_plugin.train_step_context():
        settle_sizes(module, data, device)
        window = first_window(data, device)
        log = next((c for c in trainer.callbacks if isinstance(c, RunLog)), None)
        if log is not None and log.folder is not None and is_main() and len(window[0]):
            flops = count_flops(lambda: try_out(module, window[:1]))
            log.meter.flops_per_size = None if flops is None else flops / _first_size(data)
            log.meter.peak = peak_flops(device, peak_dtype(module.train_spec.precision))
        if module.train_spec.compile:
            compile_network(module, data, window)


def settle_sizes(module: ZooModule, data: ZooDataModule, device: torch.device) -> None:
    """Set the microbatches of a step and the limit of an evaluation batch: those of the checkpoint, or what fits.

    With other processes or another kind of device than the checkpoint's, the search starts anew.
    """
    here = {"ranks": ranks(), "device": device.type}
    if any(module.sizes.get(key) != value for key, value in here.items()):
        loader = data.train_loader
        if os.environ.get(PROBE, "1" if device.type == "cuda" else "0") == "1":
            # The optimiser's state and averaged weights come later, and must find room.
            copies = 2 + (module.train_spec.ema is not None)
            room = [torch.empty_like(p) for p in module.network.parameters() for _ in range(copies)]
            loader.microbatches = find_microbatches(data, lambda w: try_out(module, _moved(w, device)))
            data.eval_limit = find_evaluation_limit(data, lambda items: _evaluate(module, data, items))
            del room
        module.sizes = here | {"microbatches": loader.microbatches, "evaluation": data.eval_limit}
    adopt_sizes(module, data)


def adopt_sizes(module: ZooModule, data: ZooDataModule) -> None:
    """Give the data the sizes that the module's checkpoint names, if it names any."""
    if module.sizes:
        data.train_loader.microbatches = module.sizes["microbatches"]
        data.eval_limit = module.sizes["evaluation"]


def try_out(module: ZooModule, window: list[Batch]) -> None:
    """Work off a window's first two microbatches, gradients accumulated, and forget them.

    Two show the most memory that any number of microbatches needs.
    """
    counts = window[0].counts
    if counts is None:
        raise ValueError("training batches carry the counts of their window")
    with _random_state_kept(module.device):
        try:
            for batch in window[:2]:
                torch.autograd.backward(module.microbatch_loss(batch, counts))
        finally:
            module.network.zero_grad(set_to_none=True)


def compile_network(module: ZooModule, data: ZooDataModule, window: list[Batch]) -> None:
    """Compile the network on a window, forward and backward, in training and in evaluation; or leave it as it is.

    If one process cannot, none does.
    """
    compiled = CompiledNetwork(module.network, module.reseed)
    reason = None
    module.run = compiled.once
    try:
        try_out(module, window)
        index = data.train_loader.index
        _evaluate(module, data, index[next(batches(data.source.items, index, data.eval_limit))], through=module)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        reason = first_line(error)
    failed = float(sum_over_ranks(torch.tensor([reason is not None], dtype=torch.float64)))
    if failed:
        module.run = module.network.__call__
        if is_main():
            give_up_note(reason or "another process cannot compile it")
    else:
        module.run = compiled


def _evaluate(module: ZooModule, data: ZooDataModule, items: np.ndarray, through: Any = None) -> None:
    """Evaluate some items and forget the outputs: with the network itself, or ``through`` the module's forward."""
    module.eval()
    try:
        # The batch is made in this mode too, as in a validation: compiled code asks what kind its tensors are of.
        with torch.inference_mode(), _random_state_kept(module.device):
            (through or module.network)(data.source.batch(items).to(module.device))
    finally:
        module.train()


def first_window(data: ZooDataModule, device: torch.device) -> list[Batch]:
    """Return this process's first window of the first epoch, wherever the loader stands."""
    loader = data.train_loader
    return _moved(loader.window(_first_members(data), 0, 0), device)


def _first_size(data: ZooDataModule) -> float:
    loader = data.train_loader
    return size_of(loader, loader.shares(_first_members(data))[0])


def _first_members(data: ZooDataModule) -> np.ndarray:
    loader = data.train_loader
    return loader.plan.epoch(loader.seed, 0)[0]


def _moved(window: list[Batch], device: torch.device) -> list[Batch]:
    moved = move_window(window, device)
    return moved if isinstance(moved, list) else [moved]


def _random_state_kept(device: torch.device) -> Any:
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
