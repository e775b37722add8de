"""What becomes of the labels of rows that are the same thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zoo.core.labels import Parsed
from zoo.core.node_labels import NodeLabels
from zoo.core.table import Table
from zoo.core.types import Labels
from zoo.errors import DataError
from zoo.specs.target import TargetSpec

POLICIES = ("mean", "median", "first", "drop", "error")


@dataclass(frozen=True)
class Merged:
    """Labels of several rows made one: ``rows`` (from 0), the target, their values as text, what was done.

    ``spread`` is the largest minus the smallest value (regression), else 0.
    """

    rows: list[int]
    target: str
    values: list[str]
    action: str
    spread: float = 0.0


def merge_labels(
    parsed: Parsed, rows: Sequence[np.ndarray], target: TargetSpec, *, duplicates: str, table: Table
) -> tuple[Labels, list[Merged]]:
    """Give each item the one label of its rows.

    Parameters
    ----------
    parsed
        Labels of all rows of the table.
    rows
        Per item its rows, the first one its representative.
    duplicates
        For unequal labels: ``mean``, ``median``, ``first``, ``drop`` (mask the label) or ``error``. Classes have no
        mean and no median: there the label is masked.

    Raises
    ------
    DataError
        Under ``error``, some item has unequal labels.
    """
    first = np.asarray([r[0] for r in rows], dtype=np.int64)
    values, mask = parsed.values[first].copy(), parsed.mask[first].copy()
    merged: list[Merged] = []
    for item, own in enumerate(rows):
        if len(own) == 1:
            continue
        valid = own[parsed.mask[own].reshape(len(own))]
        found = parsed.values[valid].reshape(len(valid))
        if len(found) == 0:
            continue
        mask[item] = True
        if np.all(found == found[0]):
            values[item] = found[0]
            continue
        value, action = _settle(found, target, duplicates)
        values[item], mask[item] = (0, False) if value is None else (value, True)
        spread = float(np.ptp(found)) if target.kind == "regression" else 0.0
        merged.append(Merged(valid.tolist(), target.name, [_text(v, target) for v in found], action, spread))
    if merged and duplicates == "error":
        raise _conflict(merged, target, table)
    return Labels(values, mask), merged


def _settle(found: np.ndarray, target: TargetSpec, duplicates: str) -> tuple[float | None, str]:
    """Return the one value for unequal labels, or None for a masked label, and what was done in words."""
    if duplicates == "first":
        return found[0], "first label kept"
    if duplicates in ("drop", "error") or target.kind != "regression":
        return None, "label masked"
    return float(np.mean(found) if duplicates == "mean" else np.median(found)), f"{duplicates} taken"


def _text(value: float, target: TargetSpec) -> str:
    return f"{value:.6g}" if target.kind == "regression" else target.class_names[int(value)]


def _conflict(merged: list[Merged], target: TargetSpec, table: Table) -> DataError:
    title = f"target {target.name!r}: {len(merged)} items stand in several rows with different labels."
    bad = [(m.rows[0], f"rows {', '.join(map(str, m.rows))} say {', '.join(m.values)}") for m in merged]
    return table.fail(
        title, bad, f"Correct the rows, or choose another policy for duplicates: {', '.join(POLICIES[:-1])}."
    )


def labelled_row(
    parsed: Sequence[object | None], own: np.ndarray, inputs: Sequence[str]
) -> tuple[int | None, list[int]]:
    """Return the row whose node labels an item of these rows takes, and the other rows with labels.

    It is the first row with labels that is written as the item's first row is.
    """
    labelled = [int(r) for r in own if parsed[r] is not None]
    same = [r for r in labelled if inputs[r] == inputs[own[0]]]
    return (same[0] if same else None), [r for r in labelled if r not in same[:1]]


@dataclass(frozen=True)
class NodeMerge:
    """Labels at a node level with what could not be used: labels of removed nodes, and whole rows."""

    labels: Labels
    removed: int
    unused_rows: list[int]


def node_labels(
    parsed: Sequence[NodeLabels | None],
    rows: Sequence[np.ndarray],
    inputs: Sequence[str],
    *,
    ptr: np.ndarray,
    source: np.ndarray,
    integer: bool,
) -> NodeMerge:
    """Lay the labels of each row's input nodes onto its item's nodes.

    The labels of an item are those of its first row. Where that row has none, those of the next row that is written
    in the very same way are taken: a row written differently counts its nodes in another order.

    Parameters
    ----------
    parsed, inputs
        Per row of the table: its labels in input order, and its input as given.
    ptr, source
        ``(n_items + 1,)`` offsets of each item's nodes, and for every node its index in the input order.
    integer
        Whether values are class indices, ``(n_nodes,)`` int64, instead of ``(n_nodes, 1)`` float64.
    """
    values = np.zeros(len(source), dtype=np.int64 if integer else np.float64)
    mask = np.zeros(len(source), dtype=bool)
    removed, unused = 0, []
    for item, own in enumerate(rows):
        row, others = labelled_row(parsed, own, inputs)
        unused += others
        labels = None if row is None else parsed[row]
        if labels is None:
            continue
        nodes = slice(int(ptr[item]), int(ptr[item + 1]))
        kept = source[nodes]
        values[nodes], mask[nodes] = labels.values[kept], labels.mask[kept]
        removed += int(labels.mask.sum() - labels.mask[np.unique(kept)].sum())
    if not integer:
        values, mask = values[:, None], mask[:, None]
    return NodeMerge(Labels(values, mask, ptr=ptr), removed, unused)
