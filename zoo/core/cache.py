"""Featurised items on disk, so that a second run starts training at once.

A file is keyed by the raw inputs, the featuriser's name, version and options, and the versions of the packages it rests
on. It holds numbers and JSON only. A damaged or unwritable cache is never an error: the work is then done again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from zoo.core.bundle import canonical_json
from zoo.core.domain import Domain, load_object
from zoo.core.files import write_atomic
from zoo.core.options import with_defaults
from zoo.core.types import Featurised, RowProblem
from zoo.errors import ZooError
from zoo.resources import cache_dir


def featuriser_options(domain: Domain, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every option of a domain's featuriser; an unknown one is an error."""
    return with_defaults(f"option of the featuriser {domain.featuriser}", domain.featuriser_options, given)


def featurise(domain: Domain, inputs: list[str], options: Mapping[str, Any], *, cache: bool = True) -> Featurised:
    """Featurise a column of raw inputs by the domain's one featuriser, through the cache."""
    options = featuriser_options(domain, options)
    if not cache:
        return domain.featurise(inputs, options)
    path = _path(domain, inputs, options)
    found = _read(path)
    if found is None:
        found = domain.featurise(inputs, options)
        _write(path, found)
    return found


def _path(domain: Domain, inputs: list[str], options: Mapping[str, Any]) -> Path:
    packages = {p: metadata.version(p) for p in domain.packages}
    key = canonical_json([domain.featuriser, domain.featuriser_version, dict(options), packages])
    digest = hashlib.sha256(key)
    for text in inputs:
        digest.update(text.encode())
        digest.update(b"\n")
    return cache_dir() / "featurised" / f"{domain.name}-{digest.hexdigest()[:32]}.safetensors"


def _read(path: Path) -> Featurised | None:
    try:
        data = path.read_bytes()
        arrays = load(data)
        text = json.loads(arrays.pop("meta").tobytes())
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
    items = load_object(text["items"]).from_arrays({k[6:]: v for k, v in arrays.items() if k.startswith("items.")})
    problems = [RowProblem(row, value, reason) for row, value, reason in text["problems"]]
    return Featurised(arrays["position"], text["key"], items, problems, text["notes"])


def _write(path: Path, found: Featurised) -> None:
    kind = type(found.items)
    meta = {
        "items": f"{kind.__module__}:{kind.__qualname__}",
        "key": found.key,
        "problems": [[p.row, p.value, p.reason] for p in found.problems],
        "notes": found.notes,
    }
    arrays = {f"items.{name}": np.ascontiguousarray(a) for name, a in found.items.arrays().items()}
    arrays["position"] = np.ascontiguousarray(found.position)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, save(arrays))
    except (OSError, ZooError):
        return
