"""The one featuriser of molecules: the same function in training and prediction."""

from __future__ import annotations

import io
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from zoo.core.options import with_defaults
from zoo.core.types import Featurised, RowProblem
from zoo.errors import InputError, unknown_name
from zoo.molecules.descriptors import SETS
from zoo.molecules.extract import Extract, extract, join
from zoo.molecules.items import MolItems

NAME = "molecular-graph"
VERSION = 1
OPTIONS: dict[str, Any] = {"standardise": True, "tautomer": False, "max_atoms": 1000, "descriptors": "none"}
"""``standardise``: cleanup, parent fragment, neutralise. ``tautomer``: canonical tautomer as well. ``max_atoms``: a
larger molecule is a problem of its row. ``descriptors``: ``none`` or ``rdkit2d``."""

_PARALLEL_FROM = {"none": 5_000, "rdkit2d": 500}
"""Strings from which on worker processes pay for their start."""
_MOST_WORKERS = 8


def featurise(inputs: list[str], options: Mapping[str, Any]) -> Featurised:
    """Parse, standardise and featurise SMILES strings; a bad one goes to ``problems`` and never raises.

    Parameters
    ----------
    inputs
        SMILES, extended SMILES (``CCO |&1:1|``) included.
    options
        Any of :data:`OPTIONS`; the rest keep their defaults.

    Returns
    -------
    Featurised
        Items with atoms in the order of the canonical SMILES of the standardised molecule, which is the key.
    """
    full = check_options(options)
    found = _extract(inputs, full)
    return Featurised(
        position=found.position,
        key=found.key,
        items=MolItems.build(found.arrays),
        problems=[RowProblem(row, inputs[row], reason) for row, reason in found.problems],
        notes=found.notes,
    )


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with defaults filled in; unknown names and values are errors."""
    full = with_defaults("featuriser option", OPTIONS, options)
    if full["descriptors"] not in SETS:
        raise unknown_name("set of descriptors", full["descriptors"], SETS)
    if full["max_atoms"] < 1:
        raise InputError(f"featuriser option max_atoms must be at least 1, got {full['max_atoms']}")
    return full


def _extract(inputs: Sequence[str], options: Mapping[str, Any]) -> Extract:
    workers = _n_workers()
    if workers < 2 or len(inputs) < _PARALLEL_FROM[options["descriptors"]]:
        return extract(inputs, options)
    bounds = [len(inputs) * i // workers for i in range(workers + 1)]
    slices = [inputs[a:b] for a, b in itertools.pairwise(bounds)]
    # This process takes the first slice itself while threads wait for the others.
    with ThreadPoolExecutor(workers - 1) as pool:
        others = [pool.submit(_remote, part, options) for part in slices[1:]]
        parts = [extract(slices[0], options), *(f.result() for f in others)]
    return join(parts, bounds[:-1])


def _n_workers() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(_MOST_WORKERS, cores)


def _remote(inputs: Sequence[str], options: Mapping[str, Any]) -> Extract:
    """Extract in a fresh interpreter, or in this one if that fails.

    A plain subprocess, since neither forking a process with threads nor re-importing the user's script (as
    ``multiprocessing`` does) is safe in a library.
    """
    root = str(Path(__file__).resolve().parents[2])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]).strip(os.pathsep),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "zoo.molecules.extract_worker"],
            input=json.dumps({"inputs": list(inputs), "options": dict(options)}).encode(),
            capture_output=True,
            env=environment,
            check=True,
        )
        return unpack(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return extract(inputs, options)


def unpack(data: bytes) -> Extract:
    """Read what a worker wrote: arrays, and the text parts as JSON (no pickle)."""
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    text = json.loads(arrays.pop("_text").tobytes())
    problems = [(int(row), str(reason)) for row, reason in text["problems"]]
    return Extract(arrays.pop("_position"), text["key"], arrays, problems, text["notes"])
