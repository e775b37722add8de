"""Loading: from a zoo model's name, a bundle or a run to a :class:`~zoo.workflows.model.Model`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from zoo.core.bundle import read_example, read_spec, read_weights
from zoo.errors import BundleError, InputError, did_you_mean
from zoo.specs.catalog import Catalog
from zoo.workflows.model import Model
from zoo.workflows.published import published_bundle, published_names
from zoo.workflows.rebuild import rebuild


def load_model(
    model: str | Path, *, device: str = "auto", includes: list[Path] | None = None, mirror: Path | None = None
) -> Model:
    """Load a zoo model by name, a bundle by its folder (or the run folder it stands in), or published weights.

    Raises
    ------
    BundleError
        If it is no bundle, was changed by a byte, or needs another version of its featuriser or architecture.
    """
    return load_bundle(find_bundle(model, includes, mirror), device=device)


def find_bundle(model: str | Path, includes: list[Path] | None = None, mirror: Path | None = None) -> Path:
    """Return the folder of a zoo model's name, a bundle, or a run; published weights are converted to a bundle once."""
    path = Path(model)
    for folder in (path, path / "bundle"):
        if (folder / "config.json").is_file():
            return folder
    if path.is_dir():
        raise BundleError(_why_no_bundle(path))
    catalog = Catalog(includes or [])
    if str(model) in catalog.names("model"):
        return catalog.model_path(str(model))
    found = published_bundle(str(model), mirror)
    if found is not None:
        return found
    if path.is_file():
        raise BundleError(_why_no_bundle(path))
    known = [*catalog.names("model"), *published_names()]
    raise BundleError(
        f"no model {str(model)!r}: neither a folder nor a zoo model.{did_you_mean(str(model), known)} "
        f"Zoo models: {', '.join(known) or 'none yet'}."
    )


def _why_no_bundle(path: Path) -> str:
    """Say what a path is instead of a bundle, and what to type."""
    general = " A bundle is the folder `bundle/` of a run."
    if path.is_file():
        folder = path.parent
        known = any((folder / name).is_file() for name in ("config.json", "run.json"))
        return f"{path} is a file, not a bundle.{f' Give its folder: {folder}' if known else general}"
    if (path / "run.json").is_file():
        return (
            f"{path} holds a run that is not finished, so there is no bundle in it yet. Finish it first: "
            f"zoo train --resume --out {path}"
        )
    below = sorted(p for p in path.iterdir() if any((f / "config.json").is_file() for f in (p, p / "bundle")))
    hint = f" Did you mean {below[-1]}?" if below else general
    return f"{path} is not a bundle: it has no config.json.{hint}"


def load_bundle(folder: Path, *, device: str = "auto") -> Model:
    """Load a bundle and check that this installation makes the same features and layers."""
    spec = read_spec(folder)
    return rebuild(spec, read_weights(folder), str(folder), pick_device(device))


def check_example(folder: Path, model: Model, tolerance: float = 1e-4) -> float:
    """Predict a bundle's examples; return the largest difference (relative above 1), raise above ``tolerance``."""
    example = read_example(folder)
    frame = pd.DataFrame(example["inputs"])
    got = model.predict(frame, input_column=model.spec.input_column)
    worst = 0.0
    for name, want in example["outputs"].items():
        for a, b in zip(got[name], want, strict=True):
            worst = max(worst, _difference(a, b))
    if worst > tolerance:
        raise BundleError(f"{folder}: its example is off by {worst:.2g} (allowed {tolerance:g}).")
    return worst


def _difference(a: Any, b: Any) -> float:
    if isinstance(a, str) and a.startswith("["):
        got, want = json.loads(a), json.loads(b)
        if len(got) != len(want):
            return float("inf")
        return max((_difference(x, y) for x, y in zip(got, want, strict=True)), default=0.0)
    if isinstance(a, float) and isinstance(b, float | int):
        return abs(a - b) / max(1.0, abs(b))
    return 0.0 if a == b else float("inf")


def pick_device(device: str) -> torch.device:
    """Return the device that a name stands for; ``gpu`` without one is an error."""
    if device == "gpu" and not torch.cuda.is_available():
        raise InputError("--device gpu: torch sees no GPU here. Use --device cpu.")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
