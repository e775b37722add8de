"""A frozen encoder's features in one file, by item: a second run, or one on a few more inputs, computes only new ones.

The file is safetensors: ``keys`` ``(m, 16)``, the hash of each input, and for every level ``values.LEVEL`` ``(N, d)``
with ``ptr.LEVEL`` ``(m + 1,)``. What the features depend on beside the input stands in the file's name. A damaged or
unwritable file is never an error: the features are then computed again, or kept in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from zoo.core.batching import batches, knows_cost
from zoo.core.frozen import FrozenItems
from zoo.resources import locked

_TYPES = {"uint8": "U8", "int64": "I64", "float32": "F32", "float64": "F64"}
_KEY_BYTES = 16
_log = logging.getLogger(__name__)
_SAY_EVERY = 30.0

Arrays = dict[str, np.ndarray]


def frozen_items(
    encoder: nn.Module,
    items: Any,
    inputs: Sequence[str],
    sizes: Mapping[str, np.ndarray],
    *,
    path: Path,
    dtype: torch.dtype,
    device: torch.device,
) -> FrozenItems:
    """Return items that hold an encoder's features, from the file where they stand in it.

    Parameters
    ----------
    encoder
        It is used in evaluation mode and moved to the device.
    items, inputs
        The items, and the text of each, which its features depend on and nothing else.
    sizes
        For every level asked for, how many rows of features each item has.
    path
        The file.
    dtype, device
        Of the computing; features are kept in ``dtype``.
    """
    keys = np.frombuffer(b"".join(_key(text) for text in inputs), np.uint8).reshape(-1, _KEY_BYTES)
    with contextlib.ExitStack() as held:
        target: Path | None = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(path.with_name(path.name + ".lock")))
        except OSError:
            target = None  # a cache that may not be written
        found = _read(path, sizes)
        place = {key.tobytes(): i for i, key in enumerate(found["keys"])} if found else {}
        new = np.asarray([i for i, key in enumerate(keys) if key.tobytes() not in place], dtype=np.int64)
        # Once each: two items may share a text and differ in what stands beside it.
        new = new[np.sort(np.unique(keys[new], axis=0, return_index=True)[1])] if len(new) else new
        place |= {keys[item].tobytes(): len(place) + i for i, item in enumerate(new.tolist())}
        if len(new) or found is None:
            found = _extended(
                found, encoder, items, keys=keys, new=new, sizes=sizes, path=target, dtype=dtype, device=device
            )
    position = np.asarray([place[key.tobytes()] for key in keys], dtype=np.int64)
    return FrozenItems(
        items,
        {level: found[f"values.{level}"] for level in sizes},
        {level: found[f"ptr.{level}"] for level in sizes},
        position,
    )


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=_KEY_BYTES).digest()


def _extended(
    old: Arrays | None,
    encoder: nn.Module,
    items: Any,
    *,
    keys: np.ndarray,
    new: np.ndarray,
    sizes: Mapping[str, np.ndarray],
    path: Path | None,
    dtype: torch.dtype,
    device: torch.device,
) -> Arrays:
    """Return what the file held and the features of the items ``new``; the file then holds them too."""
    n_old = 0 if old is None else len(old["keys"])
    dims: Mapping[str, int] = encoder.dims  # type: ignore[assignment]
    kind = "float64" if dtype == torch.float64 else "float32"
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {"keys": ("uint8", (n_old + len(new), _KEY_BYTES))}
    ptr = {}
    for level, counts in sizes.items():
        before = np.zeros(1, np.int64) if old is None else old[f"ptr.{level}"]
        ptr[level] = np.concatenate([before, before[-1] + np.cumsum(counts[new])]).astype(np.int64)
        shapes[f"ptr.{level}"] = ("int64", ptr[level].shape)
        shapes[f"values.{level}"] = (kind, (int(ptr[level][-1]), dims[level]))
    with _writing(path, shapes) as arrays:
        arrays["keys"][:n_old] = 0 if old is None else old["keys"]
        arrays["keys"][n_old:] = keys[new]
        for level in sizes:
            arrays[f"ptr.{level}"][:] = ptr[level]
            if old is not None:
                arrays[f"values.{level}"][: ptr[level][n_old]] = old[f"values.{level}"]

        def keep(index: np.ndarray, features: Mapping[str, np.ndarray]) -> None:
            for level, values in features.items():
                start = 0
                for i in index.tolist():
                    a, b = ptr[level][n_old + i : n_old + i + 2]
                    arrays[f"values.{level}"][a:b] = values[start : start + b - a]
                    start += b - a

        _compute(encoder, items.subset(new), list(sizes), keep, dtype=dtype, device=device)
    return arrays


@torch.inference_mode()
def _compute(
    encoder: nn.Module,
    items: Any,
    levels: list[str],
    keep: Callable[[np.ndarray, Mapping[str, np.ndarray]], None],
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    encoder = encoder.to(device, dtype).eval()
    work = items.cost() if knows_cost(items) else np.ones(len(items))
    total, done, started = float(work.sum()), 0.0, time.monotonic()
    said = started
    for index in batches(items):
        outputs = encoder(items.collate(index, dtype).to(device))
        keep(index, {level: outputs[level].cpu().numpy() for level in levels})
        done += float(work[index].sum())
        now = time.monotonic()
        if now - said > _SAY_EVERY:
            said = now
            left = (now - started) * (total - done) / done
            _log.info("features of the frozen encoder: %.0f %%, %.0f s left", 100 * done / total, left)
    encoder.to("cpu")


@contextlib.contextmanager
def _writing(path: Path | None, shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> Iterator[Arrays]:
    """Yield arrays to fill, which are a file's when all went well; in memory where the disk refuses."""
    if path is None:
        yield _in_memory(shapes)
        return
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        arrays = _allocate(temporary, shapes)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        _log.info("%s: features are kept in memory (%s)", path, error.strerror or error)
        yield _in_memory(shapes)
        return
    try:
        yield arrays
        for array in arrays.values():
            if isinstance(array, np.memmap):
                array.flush()
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _in_memory(shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> Arrays:
    return {name: np.empty(shape, kind) for name, (kind, shape) in shapes.items()}


def _allocate(path: Path, shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> Arrays:
    """Make a safetensors file of the right size and map its tensors; the disk's space is taken at once."""
    header, end = {}, 0
    for name, (kind, shape) in shapes.items():
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        header[name] = {"dtype": _TYPES[kind], "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as handle:
        handle.write(len(text).to_bytes(8, "little") + text)
        handle.flush()
        if end and hasattr(os, "posix_fallocate"):  # a hole that the disk cannot fill would end the process
            os.posix_fallocate(handle.fileno(), 8 + len(text), end)
        else:
            handle.truncate(8 + len(text) + end)
    return _mapped(path, "r+")


def _mapped(path: Path, mode: Any) -> Arrays:
    """Return a safetensors file's tensors, mapped."""
    with path.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        header = json.loads(handle.read(length))
    kinds = {text: kind for kind, text in _TYPES.items()}
    arrays: Arrays = {}
    for name, about in header.items():
        shape, kind = tuple(about["shape"]), kinds[about["dtype"]]
        start = 8 + length + about["data_offsets"][0]
        # An empty array cannot be mapped.
        whole = int(np.prod(shape))
        arrays[name] = np.memmap(path, kind, mode, start, shape) if whole else np.empty(shape, kind)
    return arrays


def _read(path: Path, sizes: Mapping[str, np.ndarray]) -> Arrays | None:
    """Return what the file holds; None if there is none, or it is damaged."""
    try:
        with safe_open(path, framework="numpy") as opened:
            names = set(opened.keys())
    except (OSError, SafetensorError):
        return None
    wanted = {"keys", *(f"{kind}.{level}" for kind in ("ptr", "values") for level in sizes)}
    return _mapped(path, "r") if names == wanted else None
