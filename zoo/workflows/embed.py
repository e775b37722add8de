"""``zoo embed``: features of every input, or of its nodes, in one file with their ids."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from zoo.core.batching import batches
from zoo.core.cache import featurise
from zoo.core.domain import load_object
from zoo.core.files import make_folder
from zoo.core.table import Table, read_table
from zoo.core.types import Featurised
from zoo.errors import DataError, InputError, unknown_name
from zoo.workflows.embeddings import FORMATS, Embeddings, write_embeddings
from zoo.workflows.foreign import warn_of_foreign
from zoo.workflows.load import find_bundle, load_bundle
from zoo.workflows.model import Model, is_null, log_notes
from zoo.workflows.network import DTYPES
from zoo.workflows.published import published_bundle

_log = logging.getLogger("zoo")
_TOLD = 5


def embed(
    model: str | Path | Model,
    inputs: list[str] | pd.DataFrame | str | Path,
    *,
    level: str | None = None,
    layer: int | None = None,
    out: str | Path | None = None,
    input_column: str | None = None,
    id_column: str | None = None,
    on_invalid: str = "skip",
    dtype: str = "float32",
    device: str = "auto",
    includes: Sequence[Path] = (),
    mirror: Path | None = None,
) -> Embeddings:
    """Return features of inputs.

    Parameters
    ----------
    model
        A zoo model's name, a bundle, a run, published weights by name or file, or a loaded model.
    inputs
        Raw inputs, or a table (CSV, TSV, FASTA) with a column of them.
    level
        Of whole items (the default; proteins: ``sequence``), of nodes (``residue``), or of pairs of nodes (``pair``;
        proteins: probabilities of contacts).
    layer
        After which layer, 0 being the embedding; by default the last. The last is not always the best.
    out
        File to write: ``.npz``, ``.safetensors`` or ``.parquet``.
    input_column, id_column
        The column of the inputs, and that of their names; by default the training data's, and ``id`` if there is one,
        else the rows.
    on_invalid
        Inputs that cannot be read: ``skip`` leaves them out, ``error`` raises.
    dtype
        ``float32`` or ``float16``, of what is kept.
    device
        ``auto``, ``cpu`` or ``gpu``.
    includes, mirror
        Folders with more models, and one with copies of files that have a url.

    Returns
    -------
    Embeddings
        One row per input that can be read, or per node of it, in the order of the inputs.
    """
    pairs = level == "pair"
    folder: Path | None = None
    if isinstance(model, Model):
        loaded = model
    else:
        folder = _find(model, list(includes), mirror, pairs=pairs)
        loaded = load_bundle(folder, device=device)
    wanted = level or loaded.domain.item_level
    _check(loaded, wanted, layer, on_invalid=on_invalid, dtype=dtype, out=None if out is None else Path(out))
    if pairs:
        _add_pairs(loaded, folder)
    table, frame = _table(inputs, loaded)
    column = (
        loaded.input_column(list(frame.columns), input_column) if len(frame.columns) > 1 or table else frame.columns[0]
    )
    raw = ["" if is_null(v) else str(v) for v in frame[column]]
    found = featurise(loaded.domain, raw, loaded.spec.featuriser.options, cache=False)
    if table is not None:
        warn_of_foreign(table.path, raw, loaded.domain)
        log_notes(found.notes)
    if found.problems and on_invalid == "error":
        raise _refusal(table, found)
    for problem in found.problems[:_TOLD]:
        where = f"row {problem.row}" if table is None else table.where(problem.row)
        _log.info("%s left out: %r: %s", where, problem.value, problem.reason)
    names = _names(frame, id_column, table)
    embeddings = _embed(loaded, found, wanted, layer, np.dtype(dtype))
    embeddings.ids = [names[i] for i in found.position]
    embeddings.problems = found.problems
    if out is not None:
        write_embeddings(Path(out), embeddings)
    return embeddings


def _find(model: str | Path, includes: list[Path], mirror: Path | None, *, pairs: bool) -> Path:
    # Contacts need a file that other uses do without.
    folder = published_bundle(str(model), mirror, extra=True) if pairs else None
    return folder or find_bundle(model, includes, mirror)


def _check(model: Model, level: str, layer: int | None, *, on_invalid: str, dtype: str, out: Path | None) -> None:
    domain, encoder = model.domain, model.network.encoder
    levels = tuple(name for name in (domain.item_level, *domain.node_levels) if name != "token")
    if level not in levels:
        raise unknown_name("level", level, levels)
    if on_invalid not in ("skip", "error"):
        raise unknown_name("on_invalid", on_invalid, ("skip", "error"))
    if dtype not in ("float32", "float16"):
        raise unknown_name("dtype", dtype, ("float32", "float16"))
    if out is not None and out.suffix not in FORMATS:
        raise InputError(f"{out}: the file's name says its format. Allowed: {', '.join(FORMATS)}.")
    if out is not None:
        make_folder(out)
    if hasattr(encoder, "embed"):
        last = len(encoder.layers)  # type: ignore[arg-type]
        if layer is not None and not 0 <= layer <= last:
            raise InputError(f"layer {layer}: this model has layers 0 (the embedding) to {last}.")
    elif layer is not None:
        raise InputError(f"the architecture {model.spec.architecture.name} has features of its last layer only.")
    elif level not in encoder.levels:  # type: ignore[operator]
        built = ", ".join(encoder.levels)  # type: ignore[arg-type]
        raise InputError(f"this model was trained at level {built}, and has no features of level {level}.")


def _add_pairs(model: Model, folder: Path | None) -> None:
    encoder: Any = model.network.encoder
    if hasattr(encoder, "contact_head"):
        return
    if folder is None:
        raise InputError(
            "pairs need what stands in the model's bundle: give its name or folder instead of a loaded model."
        )
    load_object(model.domain.pairs)(encoder, folder)


def _table(inputs: list[str] | pd.DataFrame | str | Path, model: Model) -> tuple[Table | None, pd.DataFrame]:
    if isinstance(inputs, pd.DataFrame):
        return None, inputs
    if isinstance(inputs, str | Path):
        table = read_table(Path(inputs))
        return table, table.frame
    return None, pd.DataFrame({model.spec.input_column: list(inputs)}, dtype=object)


def _names(frame: pd.DataFrame, given: str | None, table: Table | None) -> list[str]:
    """Return the name of every row."""
    column = given or ("id" if "id" in frame.columns else None)
    if column is None:
        return [str(i) for i in range(len(frame))]
    if column not in frame.columns:
        raise DataError(f"no column {column!r} in the input; it has: {', '.join(map(str, frame.columns))}.")
    names = [str(v) for v in frame[column]]
    first = {name: row for row, name in reversed(list(enumerate(names)))}
    doubled = [(row, f"{name!r} is also row {first[name]}") for row, name in enumerate(names) if first[name] != row]
    if doubled:
        title = f"column {column!r} gives {len(doubled)} rows the name of another."
        remedy = "Make the names differ, or name another column with --ids COL."
        raise table.fail(title, doubled, remedy) if table is not None else DataError(f"{title} {remedy}")
    return names


def _refusal(table: Table | None, found: Featurised) -> DataError:
    told = [(p.row, f"{p.value!r}: {p.reason}") for p in found.problems]
    title, remedy = f"{len(told)} rows cannot be read.", "Mend them, or leave them out with --on-invalid skip."
    if table is not None:
        return table.fail(title, told, remedy)
    return DataError(f"{title} Row {told[0][0]}: {told[0][1]}. {remedy}")


@torch.inference_mode()
def _embed(model: Model, found: Featurised, level: str, layer: int | None, dtype: np.dtype[Any]) -> Embeddings:
    """Return the features of all items, worked off in batches of like cost."""
    items: Any = found.items
    sizes, source = _layout(items, level, model.domain.item_level)
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    values: np.ndarray | None = None
    for index in batches(items):
        out = _features(model, items.collate(index, DTYPES[model.spec.dtype]).to(model.device), level, layer)
        piece = out.float().cpu().numpy().astype(dtype)
        if values is None:
            values = np.empty((int(ptr[-1]), piece.shape[1]), dtype)
        start = 0
        for item in index.tolist():
            values[ptr[item] : ptr[item + 1]] = piece[start : start + sizes[item]]
            start += int(sizes[item])
    return Embeddings(
        ids=[],
        rows=found.position,
        values=np.zeros((0, 0), dtype) if values is None else values,
        ptr=None if level == model.domain.item_level else ptr,
        source=source,
        about={
            "model": model.spec.name,
            "weights": model.spec.config_sha256,
            "level": level,
            "layer": "last" if layer is None else str(layer),
        },
    )


def _layout(items: Any, level: str, item_level: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Return how many rows of features each item has, and which node of the input each is."""
    if level == item_level:
        return np.ones(len(items), np.int64), None
    if level == "pair":
        return np.diff(items.node_ptr(level)), None
    return np.diff(items.node_ptr(level)), items.node_source(level)


def _features(model: Model, inputs: Any, level: str, layer: int | None) -> Tensor:
    encoder: Any = model.network.encoder
    if hasattr(encoder, "embed"):
        features: Tensor = encoder.embed(inputs, level, layer)
        return features
    found: Tensor = encoder(inputs)[level]
    return found


def embed_command(args: argparse.Namespace) -> int:
    """Embed a file and write one file."""
    if args.threads:
        torch.set_num_threads(args.threads)
    found = embed(
        args.model,
        args.file,
        level=args.level,
        layer=args.layer,
        out=args.out,
        input_column=args.input,
        id_column=args.ids,
        on_invalid=args.on_invalid,
        dtype=args.dtype,
        device=args.device or "auto",
        includes=args.include,
        mirror=args.mirror,
    )
    if not args.quiet:
        left = f", {len(found.problems)} left out" if found.problems else ""
        shape = " x ".join(str(n) for n in found.values.shape)
        sys.stdout.write(f"{len(found.ids)} inputs{left}: {shape} {args.dtype} → {args.out}\n")
    return 0
