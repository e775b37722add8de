"""The rung of saving and loading: what comes back from a file is the same to the bit."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from zoo.core.bundle import load_strict
from zoo.core.conformance.case import Case, Meter, RungError
from zoo.core.conformance.composition import TOLERANCE
from zoo.core.conformance.tools import first_items, stir
from zoo.core.module import ZooModule

_ITEMS = 16


def save_and_load(case: Case, meter: Meter) -> None:
    """Verify that a network that was saved and loaded has the same state and the same outputs, to the bit."""
    for precision in TOLERANCE:
        module, data = case.build(precision=precision)
        stir(module.network)
        with tempfile.TemporaryDirectory() as folder:
            reload = case.reload or functools.partial(_by_state, case)
            loaded = reload(module, Path(folder))
        if loaded is module.network:
            raise RungError("`reload` returned the network that it was given")
        want, got = module.network.state_dict(), loaded.state_dict()
        if want.keys() != got.keys():
            raise RungError(f"after loading, the state differs in {', '.join(sorted(want.keys() ^ got.keys()))}")
        for name, tensor in want.items():
            meter.bits(got[name], tensor, f"{name} after loading")
        batch = data.source.batch(first_items(data, _ITEMS))
        with torch.no_grad():
            module.network.eval()
            before, after = module(batch), loaded.eval()(batch)
        for name, output in before.items():
            meter.bits(after[name], output, f"outputs of {name!r} after loading")
    if case.examples is not None:
        module, _ = case.build()
        tolerance = TOLERANCE["64" if module.train_spec.precision == "64" else "32"]
        for got_value, want_value in case.examples():
            meter.close(got_value, want_value, tolerance, "recorded predictions")


def _by_state(case: Case, module: ZooModule, folder: Path) -> nn.Module:
    """Save the state and load it into a network that was just made."""
    path = folder / "weights.safetensors"
    # Tied tensors are stored twice here; a bundle stores them once.
    save_file({name: tensor.clone().contiguous() for name, tensor in module.network.state_dict().items()}, path)
    other, _ = case.build(precision=module.train_spec.precision)
    load_strict(other.network, load_file(path), str(path))
    return other.network
