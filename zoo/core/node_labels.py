"""Labels of the nodes of an input: one cell holds them all, as a JSON list or, for classes of one letter, as a string.

A second column may say which of them are known (resolved residues): a label that is not known is masked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo.core.labels import CensoredError, LabelError, bad_labels, is_missing, label_reader, shorten
from zoo.core.table import Table
from zoo.specs.target import TargetSpec

_KNOWN = {"1": True, "0": False, "1.0": True, "0.0": False, "true": True, "false": False}


@dataclass(frozen=True)
class NodeLabels:
    """Labels of one target for the nodes of one row's input, in input order: ``values`` and ``mask`` are ``(m,)``.

    ``censored`` counts the labels that were masked because only a bound is known.
    """

    values: np.ndarray
    mask: np.ndarray
    censored: int = 0


def parse_node_labels(
    strings: Sequence[str], target: TargetSpec, table: Table, n_source: np.ndarray
) -> list[NodeLabels | None]:
    """Read the labels of every node of each row's input.

    A cell is a JSON list with ``null`` where a label is missing. Where every class has one letter it may also be a
    string of as many letters as there are nodes (``HHHEEC``), with ``-``, ``.`` or ``?`` where a label is missing.

    Parameters
    ----------
    n_source
        ``(n,)``: the number of labels that each row must have, or -1 for a row without an item (it is not read).

    Returns
    -------
    list
        Per row its labels, or None where the whole cell is missing or the row has no item.

    Raises
    ------
    DataError
        Some row has labels too few or too many, or one that is none of this target. All bad rows are collected.
    """
    read = label_reader(target)
    letters = set(target.class_names) if target.kind in ("binary", "multiclass") else set()
    letters = letters if all(len(name) == 1 for name in letters) else set()
    found: list[NodeLabels | None] = [None] * len(strings)
    bad: list[tuple[int, str]] = []
    for row, text in enumerate(strings):
        length = int(n_source[row])
        # "NA" may be two labels as well as a missing cell; the classes and the length decide.
        if length < 0 or (is_missing(text) and not (text and len(text) == length and letters.issuperset(text))):
            continue
        try:
            found[row] = _read(_entries(text, length, target.level, bool(letters)), read, target)
        except LabelError as error:
            bad.append((row, str(error)))
    if bad:
        raise bad_labels(target, table, bad)
    return found


def mask_unknown(
    found: Sequence[NodeLabels | None], strings: Sequence[str], target: TargetSpec, table: Table
) -> tuple[list[NodeLabels | None], int]:
    """Mask the labels of nodes that are not known.

    Parameters
    ----------
    found
        Per row the labels of its input's nodes.
    strings
        Per row one 1 (known) or 0 for each node, as a string (``0111``) or a JSON list of 0 and 1 or true and false.

    Returns
    -------
    found, masked
        The labels, and how many of them were masked.

    Raises
    ------
    DataError
        Some row with labels has no such mask, one of another length, or other signs.
    """
    sizes = {row: len(labels.mask) for row, labels in enumerate(found) if labels is not None}
    known = known_nodes(strings, sizes, target, table, target.level)
    result: list[NodeLabels | None] = [None] * len(found)
    masked = 0
    for row, labels in enumerate(found):
        if labels is not None:
            masked += int((labels.mask & ~known[row]).sum())
            kept = labels.mask & known[row]
            result[row] = NodeLabels(np.where(kept, labels.values, 0), kept, labels.censored)
    return result, masked


def known_nodes(
    strings: Sequence[str], sizes: Mapping[int, int], target: TargetSpec, table: Table, level: str
) -> dict[int, np.ndarray]:
    """Return which nodes of ``level`` are known, ``(m,)`` for each row of ``sizes`` (row -> ``m``).

    Raises as :func:`mask_unknown` does.
    """
    known: dict[int, np.ndarray] = {}
    bad: list[tuple[int, str]] = []
    for row, size in sizes.items():
        try:
            known[row] = _known(strings[row], size, level)
        except LabelError as error:
            bad.append((row, str(error)))
    if bad:
        title = f"column {target.mask_column!r}: {len(bad)} rows do not say which labels of {target.name!r} are known."
        raise table.fail(title, bad, f"Give a 1 or a 0 for every {level}.")
    return known


def _known(text: str, length: int, level: str) -> np.ndarray:
    known = [_KNOWN.get(cell.casefold()) for cell in _entries(text, length, level, letters=True)]
    if None in known:
        at = known.index(None)
        raise LabelError(f"{level} {at}: neither 1 nor 0 in {shorten(text)}")
    return np.asarray(known, dtype=bool)


def _entries(text: str, length: int, level: str, letters: bool) -> list[str]:
    """Return the entries of a cell, as many as the input has nodes."""
    bare = text.strip()
    listed = bare.startswith("[") or not letters
    entries = _listed(bare, level) if listed else list(bare)
    if len(entries) != length:
        what = "list" if listed else "string"
        raise LabelError(f"the {what} has {len(entries)} values, the input has {length} {level}s")
    return entries


def _listed(text: str, level: str) -> list[str]:
    try:
        cells = json.loads(text)
    except json.JSONDecodeError:
        raise LabelError(f"{shorten(text)} is not a JSON list, one value per {level} with null for missing") from None
    if not isinstance(cells, list):
        raise LabelError(f"{shorten(text)} is not a list, one value per {level}")
    return [_cell_text(cell) for cell in cells]


def _cell_text(cell: Any) -> str:
    """Return what a JSON value would be called in a plain cell; lists and objects stay unreadable."""
    return "" if cell is None else cell if isinstance(cell, str) else json.dumps(cell)


def _read(entries: list[str], read: Callable[[str], float | None], target: TargetSpec) -> NodeLabels:
    values = np.zeros(len(entries), dtype=np.int64 if target.kind == "multiclass" else np.float64)
    mask = np.zeros(len(entries), dtype=bool)
    censored = 0
    for node, cell in enumerate(entries):
        try:
            value = read(cell)
        except CensoredError as error:
            if target.censoring == "mask":
                censored += 1
                continue
            raise LabelError(f"{target.level} {node}: {error}") from None
        except LabelError as error:
            raise LabelError(f"{target.level} {node}: {error}") from None
        if value is not None:
            values[node], mask[node] = value, True
    return NodeLabels(values, mask, censored)
