"""How fast a run trains: items and their sizes per second, and the share of the device's peak that it reaches."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from lightning.fabric.utilities.throughput import get_available_flops
from torch.utils.flop_counter import FlopCounterMode

from zoo.core.datamodule import WindowLoader
from zoo.core.ranks import ranks


class Meter:
    """Measures the rates of a lap, from its start to the end of its last step; validation is not counted.

    ``flops_per_size`` are the floating-point operations of training per unit of ``items.size()``, ``peak`` those of
    this process's device per second; None where they are not known.
    """

    def __init__(self) -> None:
        self.flops_per_size: float | None = None
        self.peak: float | None = None
        self.began = self.ended = time.monotonic()
        self.place = (0, 0)
        self.steps = 0

    def begin(self, loader: WindowLoader | None) -> None:
        """Start a lap at the loader's place."""
        self.place = (0, 0) if loader is None else (loader.epoch, loader.start_window)
        self.steps = 0
        self.began = self.ended = time.monotonic()

    def step(self) -> None:
        """Count a step that is done."""
        self.steps += 1
        self.ended = time.monotonic()

    def rates(self, loader: WindowLoader | None) -> dict[str, float]:
        """Return the rates of the lap over all processes; nothing if no step was made.

        ``size_per_second`` counts what the domain calls an item's size (atoms, residues), where it says so, and
        ``share_of_peak`` the operations of matrix products and convolutions over what the devices could do.
        """
        seconds = self.ended - self.began
        if loader is None or not self.steps or seconds <= 0:
            return {}
        epoch, window = self.place
        windows = loader.plan.epoch(loader.seed, epoch)[window : window + self.steps]
        done = loader.index[np.concatenate(windows)]
        found = {"items_per_second": round(len(done) / seconds, 2)}
        size = size_of(loader, done)
        if hasattr(loader.source.items, "size"):
            found["size_per_second"] = round(size / seconds, 2)
        if self.flops_per_size and self.peak:
            found["share_of_peak"] = float(f"{self.flops_per_size * size / seconds / (self.peak * ranks()):.4g}")
        return found


def size_of(loader: WindowLoader, positions: np.ndarray) -> float:
    """Return the summed sizes of items; those that do not know theirs count one each."""
    items = loader.source.items
    return float(items.size()[positions].sum()) if hasattr(items, "size") else float(len(positions))


def count_flops(work: Callable[[], None]) -> float | None:
    """Return the floating-point operations of the matrix products and convolutions in a piece of work, if any."""
    try:
        with FlopCounterMode(display=False) as counter:
            work()
    except Exception:  # noqa: BLE001 - a measurement must not end a run
        return None
    return float(counter.get_total_flops()) or None


def peak_flops(device: torch.device, dtype: torch.dtype) -> float | None:
    """Return a device's floating-point operations per second: as Lightning knows a GPU, else as measured."""
    if device.type == "cuda":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown GPU is measured
            known = get_available_flops(device, dtype)
        if known:
            return float(known)
    try:
        return measured_flops(device, dtype, torch.get_num_threads())
    except RuntimeError:  # no room for the matrices, or no product of this type: a measurement must not end a run
        return None


@functools.lru_cache
def measured_flops(device: torch.device, dtype: torch.dtype, threads: int) -> float:  # noqa: ARG001 - part of the key
    """Return the best rate of square matrix products on a device with the present number of threads.

    Sizes grow until one product takes 5 ms, at most to 1024 on a CPU and 8192 on a GPU.
    """
    best = 0.0
    for n in (256, 512, 1024) if device.type == "cpu" else (1024, 2048, 4096, 8192):
        matrix = torch.ones(n, n, dtype=dtype, device=device)
        seconds = min(_seconds(matrix) for _ in range(2))
        best = max(best, 2 * n**3 / seconds)
        if seconds > 5e-3:
            break
    return best


def _seconds(matrix: torch.Tensor) -> float:
    if matrix.is_cuda:
        torch.cuda.synchronize(matrix.device)
    started = time.perf_counter()
    torch.mm(matrix, matrix)
    if matrix.is_cuda:
        torch.cuda.synchronize(matrix.device)
    return max(time.perf_counter() - started, 1e-9)
