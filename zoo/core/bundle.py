"""Bundles: a trained model as a folder of JSON and safetensors, written whole or not at all.

One byte off and a bundle is refused.
Nothing here unpickles. ``schema_version`` and the migrations between schemas live in this file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from zoo.core.faults import fault
from zoo.core.files import disk_error, flush_file, flush_folder, write_flushed
from zoo.errors import BundleError, ZooError
from zoo.resources import sha256_of
from zoo.specs.model import SCHEMA_VERSION, FileDigest, ModelSpec

CONFIG, WEIGHTS, EXAMPLE, README = "config.json", "model.safetensors", "example.json", "README.md"
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""``n -> function`` that turns a configuration of schema ``n`` into one of schema ``n + 1``."""


def canonical_json(value: Any) -> bytes:
    """Return a JSON document as bytes that depend only on its content."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def sha256(data: bytes) -> str:
    """Return the hexadecimal digest."""
    return hashlib.sha256(data).hexdigest()


def save_bundle(
    folder: Path,
    spec: ModelSpec,
    state: dict[str, Tensor],
    example: dict[str, Any],
    readme: str,
    *,
    extra: Mapping[str, bytes] | None = None,
) -> ModelSpec:
    """Write a bundle whole: into a temporary folder beside it, flushed to disk, then renamed.

    ``extra`` are more files by name. Returns the spec with the checksums filled in.

    Raises
    ------
    ZooError
        If the folder exists, or the disk is full or not writable; no half-written bundle is left.
    """
    if folder.exists():
        raise ZooError(f"{folder} exists already; a bundle is never overwritten. Choose another folder.")
    contents = {EXAMPLE: json.dumps(example, indent=1, allow_nan=False).encode(), **(extra or {})}
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write_weights(temporary / WEIGHTS, state)
        for name, data in contents.items():
            write_flushed(temporary / name, data)
        written = [temporary / name for name in (WEIGHTS, *contents)]
        files = {path.name: FileDigest(sha256=sha256_of(path), bytes=path.stat().st_size) for path in written}
        spec = spec.model_copy(update={"files": files, "config_sha256": ""})
        spec = spec.model_copy(update={"config_sha256": sha256(canonical_json(spec.model_dump(mode="json")))})
        write_flushed(temporary / CONFIG, json.dumps(spec.model_dump(mode="json"), indent=1, allow_nan=False).encode())
        write_flushed(temporary / README, readme.encode())
        temporary.chmod(0o755)
        temporary.rename(folder)
        flush_folder(folder.parent)
    except OSError as error:
        raise disk_error(error, folder) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return spec


def _write_weights(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write tensors without a second copy of them in memory, and flush the file to the disk."""
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in sorted(state.items())}, path)
    except SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))
        if code is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error
    path.chmod(0o644)
    flush_file(path)
    fault(f"written/{path.name}")


def read_spec(folder: Path) -> ModelSpec:
    """Read and check ``config.json``: schema, own hash, and the checksum of every file it lists.

    Raises
    ------
    BundleError
        If a file is missing, changed by a byte, or of a newer schema.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise BundleError(f"{folder} is not a bundle: it has no {CONFIG}. A bundle is the folder `bundle/` of a run.")
    try:
        raw = json.loads(path.read_bytes())
        version = int(raw["schema_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{path} is damaged: {error}. Copy the bundle again.") from error
    if version > SCHEMA_VERSION:
        raise BundleError(
            f"{path} has schema {version}, this version of scizoo reads up to {SCHEMA_VERSION}. "
            "Update with: pip install -U scizoo"
        )
    claimed = raw.get("config_sha256")
    if sha256(canonical_json({**raw, "config_sha256": ""})) != claimed:
        raise BundleError(
            f"{path} was changed after it was written (its checksum does not match). Copy the bundle again."
        )
    for old in range(version, SCHEMA_VERSION):
        raw = MIGRATIONS[old](raw)
    try:
        spec = ModelSpec.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        raise BundleError(f"{path}: {where}: {first['msg']}") from error
    for name, digest in spec.files.items():
        _check_file(folder / name, digest)
    return spec


def _check_file(path: Path, digest: FileDigest) -> None:
    if not path.is_file():
        raise BundleError(f"{path} is missing. Copy the whole bundle again.")
    size, found = path.stat().st_size, sha256_of(path)
    if (size, found) != (digest.bytes, digest.sha256):
        raise BundleError(
            f"{path} is damaged: {size} bytes with checksum {found[:12]}…, "
            f"expected {digest.bytes} bytes with {digest.sha256[:12]}…. Copy the bundle again."
        )


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Return the tensors of a checked bundle, mapped from the file until somebody writes to them."""
    try:
        tensors: dict[str, Tensor] = load_file(folder / WEIGHTS)
    except SafetensorError as error:
        raise BundleError(f"{folder / WEIGHTS} is not a safetensors file: {error}") from error
    return tensors


def load_strict(module: nn.Module, state: dict[str, Tensor], where: str) -> None:
    """Load tensors into a module; every key, shape and dtype must match, and the error names those that do not."""
    own = module.state_dict()
    problems = [f"missing {k}" for k in own.keys() - state.keys()] + [f"unknown {k}" for k in state.keys() - own.keys()]
    problems += [
        f"{k}: {tuple(state[k].shape)} {state[k].dtype} in the file, {tuple(own[k].shape)} {own[k].dtype} in the model"
        for k in own.keys() & state.keys()
        if state[k].shape != own[k].shape or state[k].dtype != own[k].dtype
    ]
    if problems:
        raise BundleError(f"{where} does not fit its architecture: {'; '.join(sorted(problems)[:5])}")
    with torch.no_grad():
        module.load_state_dict(state, strict=True)


def read_example(folder: Path) -> dict[str, Any]:
    """Return the example inputs with their expected outputs."""
    example: dict[str, Any] = json.loads((folder / EXAMPLE).read_bytes())
    return example
