"""The rung of two ranks: two processes that share every step end with the weights of one."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from zoo.core.conformance.case import Case, Make, Meter, RungError, SkipRung, built, reference
from zoo.core.conformance.tools import hide_labels, is_random, still
from zoo.core.datamodule import ZooDataModule
from zoo.core.fit import fit, make_trainer
from zoo.core.launch import load_function, run_on_ranks
from zoo.core.module import ZooModule
from zoo.core.ranks import is_main, rank
from zoo.errors import ZooError

_WINDOWS = 4
_EPOCHS = 2
_WEIGHTS = 1e-10
_METRICS = 1e-12


def two_ranks(case: Case, meter: Meter) -> None:
    """Verify that two ranks with unequal numbers of valid labels give what one gives, in float64, without dropout."""
    if case.train_size < 2:
        raise SkipRung("two ranks need two training items or more")
    payload: dict[str, Any] = {
        "make": reference(case.make),
        "options": json.loads(json.dumps(dict(case.options))),
        "batch_size": _odd(-(-case.train_size // _WINDOWS)),
        "epochs": _EPOCHS,
    }
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        job({**payload, "out": one})
        try:
            run_on_ranks(f"{__name__}:job", {**payload, "out": two}, world=2)
        except ZooError as error:
            raise RungError(str(error)) from error
        facts = json.loads(Path(one, "facts-0.json").read_text())
        if facts["random"]:
            raise SkipRung("in training mode the outputs are random though dropout is off, so ranks cannot agree")
        counts = [json.loads(Path(two, f"facts-{r}.json").read_text())["counts"] for r in (0, 1)]
        if counts[0] == counts[1]:
            raise RungError("both ranks have the same numbers of valid labels, so nothing was verified")
        _compare(Path(one), Path(two), meter)


def _odd(n: int) -> int:
    """Return an odd batch size of 3 or more, which two ranks cannot share evenly."""
    return max(3, n + 1 - n % 2)


def _compare(one: Path, two: Path, meter: Meter) -> None:
    want, got = (json.loads((folder / "facts-0.json").read_text())["metrics"] for folder in (one, two))
    if want.keys() != got.keys():
        raise RungError(f"on two ranks these metrics have a value: {', '.join(got)}; on one: {', '.join(want)}")
    for name, value in want.items():
        meter.close(got[name], value, _METRICS, f"{name} before the fit")
    weights = load_file(two / "weights.safetensors")
    for name, tensor in load_file(one / "weights.safetensors").items():
        meter.close(weights[name], tensor, _WEIGHTS, f"{name} after the fit")


def job(payload: dict[str, Any]) -> None:
    """Fit a case on the ranks there are, and write weights, metrics and this rank's counts to files."""
    make: Make = load_function(payload["make"])
    module, data = built(
        make(
            **payload["options"],
            precision="64",
            batch_size=payload["batch_size"],
            microbatches=1,
            epochs=payload["epochs"],
            lr=1e-3,
            optimizer="adamw",
            ema=None,
            patience=None,
            select="last",
        )
    )
    still(module.network)
    hide_labels(data)
    windows = list(data.train_loader)
    out = Path(payload["out"])
    facts = {
        "random": is_random(module, windows[0][0]),
        "counts": [window[0].counts.tolist() for window in windows if window[0].counts is not None],
        "metrics": _metrics(module, data),
    }
    (out / f"facts-{rank()}.json").write_text(json.dumps(facts))
    has_val = bool(len(data.parts.get("val", ())))
    fit(module, data, make_trainer(module, folder=None, device="cpu", has_val=has_val))
    if is_main():
        state: dict[str, Tensor] = {n: t.clone().contiguous() for n, t in module.network.state_dict().items()}
        save_file(state, out / "weights.safetensors")


@torch.no_grad()
def _metrics(module: ZooModule, data: ZooDataModule) -> dict[str, float]:
    """Return the metrics of the initial weights, over all ranks."""
    module.network.eval()
    module.validation.reset()
    loader = data.val_dataloader()
    for batch in loader:
        module.validation.update(batch, module(batch))
    module.network.train()
    if not loader:
        return {}
    found = module.finish_validation()
    return {name: value for name, value in found.items() if value == value}  # noqa: PLR0124 - NaN differs from itself
