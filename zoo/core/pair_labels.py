"""Labels of the pairs of an input's nodes: one cell lists the pairs in contact, and no other pair is.

A pair counts once: of the two places that it has in the matrix of an item's nodes, the one below the diagonal is
masked. So is every pair of nodes too close to each other in the input, and every pair with a node that is not known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from zoo.core.labels import LabelError, bad_labels, is_missing, shorten
from zoo.core.merge import labelled_row
from zoo.core.table import Table
from zoo.core.types import Labels
from zoo.specs.target import TargetSpec


class PairMerge(NamedTuple):
    """Labels of pairs, and what could not be used: contacts too close, contacts of removed nodes, and whole rows."""

    labels: Labels
    close: int
    removed: int
    unused_rows: list[int]


def parse_pairs(
    strings: Sequence[str], target: TargetSpec, table: Table, n_source: np.ndarray, level: str
) -> list[np.ndarray | None]:
    """Read the pairs in contact of each row's input.

    A cell is a JSON list of ``[i, j]``: positions in the input from 0, in either order; ``[]`` says that there is none.

    Parameters
    ----------
    n_source
        ``(n,)``: the number of nodes of each row's input, or -1 for a row without an item (it is not read).
    level
        What a node is called.

    Returns
    -------
    list
        Per row ``(k, 2)`` int64 positions, the smaller one first, or None where the cell is missing.

    Raises
    ------
    DataError
        Some cell is no such list, or a position is outside its input. All bad rows are collected.
    """
    found: list[np.ndarray | None] = [None] * len(strings)
    bad: list[tuple[int, str]] = []
    for row, text in enumerate(strings):
        size = int(n_source[row])
        if size < 0 or is_missing(text):
            continue
        try:
            found[row] = _read(text, size, level)
        except LabelError as error:
            bad.append((row, str(error)))
    if bad:
        raise bad_labels(target, table, bad)
    return found


def lay_pairs(
    parsed: Sequence[np.ndarray | None],
    known: Mapping[int, np.ndarray] | None,
    rows: Sequence[np.ndarray],
    inputs: Sequence[str],
    *,
    ptr: np.ndarray,
    source: np.ndarray,
    pair_ptr: np.ndarray,
    separation: int,
) -> PairMerge:
    """Lay the pairs of each row's input onto the matrix of its item's nodes.

    Which row of several an item takes its labels from is as for nodes (:func:`zoo.core.merge.labelled_row`).

    Parameters
    ----------
    parsed, known, inputs
        Per row of the table: its pairs, which nodes of its input are known (None: all), and its input as given.
    ptr, source
        ``(n_items + 1,)`` offsets of each item's nodes, and for every node its index in the input order.
    pair_ptr
        ``(n_items + 1,)`` offsets of each item's pairs: its nodes' matrix, row by row.
    separation
        Pairs of nodes closer in the input than this are masked.

    Returns
    -------
    PairMerge
        Labels ``(n_pairs, 1)`` in float16, which 0 and 1 fit into: with the mask three bytes a pair.
    """
    values = np.zeros(int(pair_ptr[-1]), np.float16)
    mask = np.zeros(len(values), bool)
    close, removed, unused = 0, 0, []
    for item, own in enumerate(rows):
        row, others = labelled_row(parsed, own, inputs)
        unused += others
        pairs = None if row is None else parsed[row]
        if row is None or pairs is None:
            continue
        kept = source[ptr[item] : ptr[item + 1]].astype(np.int64)
        n = len(kept)
        block = slice(int(pair_ptr[item]), int(pair_ptr[item + 1]))
        is_known = np.ones(n, bool) if known is None else known[row][kept]
        allowed = is_known[:, None] & is_known & (kept - kept[:, None] >= separation)
        far = pairs[pairs[:, 1] - pairs[:, 0] >= separation]
        place = np.full(1 + max(pairs.max(initial=0), kept.max(initial=0)), -1)
        place[kept] = np.arange(n)
        at = place[far]
        at = at[(at >= 0).all(axis=1)]
        contacts = np.zeros((n, n), bool)
        contacts[at[:, 0], at[:, 1]] = True
        values[block], mask[block] = (contacts & allowed).ravel(), allowed.ravel()
        close, removed = close + len(pairs) - len(far), removed + len(far) - len(at)
    return PairMerge(Labels(values[:, None], mask[:, None], ptr=pair_ptr), close, removed, unused)


def _read(text: str, size: int, level: str) -> np.ndarray:
    try:
        cells = json.loads(text)
    except json.JSONDecodeError:
        cells = None
    if not isinstance(cells, list):
        raise LabelError(f"{shorten(text)} is not a JSON list of pairs [i, j] of {level}s")
    for number, cell in enumerate(cells):
        if not (isinstance(cell, list) and len(cell) == 2 and all(type(v) is int for v in cell)):
            raise LabelError(f"pair {number}: {shorten(json.dumps(cell))} is not [i, j], two whole numbers")
        _check(number, cell, size, level)
    pairs = np.sort(np.asarray(cells, np.int64).reshape(-1, 2), axis=1)
    return np.unique(pairs, axis=0)


def _check(number: int, pair: list[Any], size: int, level: str) -> None:
    if not all(0 <= v < size for v in pair):
        raise LabelError(
            f"pair {number}: {pair} is outside the input of {size} {level}s, whose positions are 0 to {size - 1}"
        )
    if pair[0] == pair[1]:
        raise LabelError(f"pair {number}: {pair} is one {level}, not two")
