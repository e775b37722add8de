"""Embeddings in memory and in one file."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors.numpy

from zoo.core.files import write_atomic
from zoo.core.types import RowProblem
from zoo.errors import InputError

FORMATS = (".npz", ".safetensors", ".parquet")


@dataclass
class Embeddings:
    """Features of ``n`` inputs.

    Parameters
    ----------
    ids, rows
        The name and the row of each input.
    values
        ``(n, d)``, or ``(N, d)`` for all nodes (or pairs of nodes) of all inputs.
    ptr
        ``(n + 1,)`` where the nodes of each input begin; None for whole inputs.
    source
        ``(N,)`` which node of its input each is, counted from 0; None for whole inputs and pairs.
    about
        Model, checksum of its weights, level and layer.
    problems
        Inputs that were left out.
    """

    ids: list[str]
    rows: np.ndarray
    values: np.ndarray
    ptr: np.ndarray | None
    source: np.ndarray | None
    about: dict[str, str]
    problems: list[RowProblem] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, name: str) -> np.ndarray:
        """Return the features of one input by its id: ``(d,)``, ``(nodes, d)``, or ``(nodes, nodes)`` for pairs."""
        if name not in self.ids:
            raise InputError(f"no input is called {name!r}, or it was left out.")
        i = self.ids.index(name)
        if self.ptr is None:
            found: np.ndarray = self.values[i]
            return found
        own = self.values[self.ptr[i] : self.ptr[i + 1]]
        side = round(len(own) ** 0.5)
        return own.reshape(side, side) if self.about["level"] == "pair" else own

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by name, but for the ids."""
        arrays = {"values": self.values, "rows": self.rows, "ptr": self.ptr, "source": self.source}
        return {name: array for name, array in arrays.items() if array is not None}


def write_embeddings(path: Path, found: Embeddings) -> None:
    """Write a file in the format of its suffix, whole or not at all.

    ``.npz``: arrays ``ids``, ``values``, ``rows``, with nodes ``ptr`` and ``source``, and ``about`` as JSON; nothing in
    it is pickled. ``.safetensors``: the same arrays, ``ids`` as JSON and the rest in the metadata. ``.parquet``: a row
    per input (``id``, ``row``, ``values``) or node (with ``source``).

    Raises
    ------
    InputError
        For another suffix, or Parquet without pyarrow.
    """
    make = {".npz": _npz, ".safetensors": _safetensors, ".parquet": _parquet}.get(path.suffix)
    if make is None:
        raise InputError(f"{path}: the file's name says its format. Allowed: {', '.join(FORMATS)}.")
    write_atomic(path, make(found))


def _npz(found: Embeddings) -> bytes:
    buffer = io.BytesIO()
    about = np.asarray(json.dumps(found.about))
    np.savez(buffer, ids=np.asarray(found.ids, dtype=np.str_), about=about, **found.arrays())  # type: ignore[arg-type]
    return buffer.getvalue()


def _safetensors(found: Embeddings) -> bytes:
    arrays = {name: np.ascontiguousarray(array) for name, array in found.arrays().items()}
    data: bytes = safetensors.numpy.save(arrays, {**found.about, "ids": json.dumps(found.ids)})
    return data


def _parquet(found: Embeddings) -> bytes:
    sizes = np.ones(len(found), np.int64) if found.ptr is None else np.diff(found.ptr)
    columns = {
        "id": np.repeat(np.asarray(found.ids, dtype=object), sizes),
        "row": np.repeat(found.rows, sizes),
        **({} if found.source is None else {"source": found.source}),
        "values": list(found.values),
    }
    frame = pd.DataFrame(columns)
    frame.attrs.update(found.about)
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, engine="pyarrow", index=False)
    except ImportError:
        raise InputError(
            "Parquet needs pyarrow: pip install 'scizoo[parquet]', or write .npz or .safetensors."
        ) from None
    return buffer.getvalue()
