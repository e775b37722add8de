"""From a table and featurised inputs to items with labels: one item per distinct thing, every lost row reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from zoo.core.labels import parse_labels
from zoo.core.merge import POLICIES, merge_labels, node_labels
from zoo.core.node_labels import known_nodes, mask_unknown, parse_node_labels
from zoo.core.pair_labels import lay_pairs, parse_pairs
from zoo.core.report import Report
from zoo.core.table import NUMBER, Table
from zoo.core.types import Featurised, Labels, RowProblem
from zoo.errors import DataError, unknown_name
from zoo.specs.dataset import DatasetSpec
from zoo.specs.target import TargetSpec

UNLABELLED = "no label in any target"
CONFLICT = "no label left: it differs from that of a duplicate"


@dataclass
class Records:
    """``n`` items of a data set with their labels.

    Parameters
    ----------
    items
        The domain's items, ``len(items) == n``.
    rows
        Per item all its rows in the table, ascending; the first one stands for it.
    keys
        Per item the identity of its input. Two items share a key only where their ``features`` or official parts
        differ.
    labels
        By target name.
    groups
        Per item a group that must stay together in a split (rows connected by a group column), or None.
    weight
        ``(n,)`` sample weights, or None; every one of ``labels`` carries them too.
    features, feature_names
        ``(n, f)`` numbers from the table's feature columns, or None.
    inputs
        Per item its input as its first row gives it.
    n_rows
        Number of rows of the table.
    """

    items: Any
    rows: list[np.ndarray]
    keys: list[str]
    labels: dict[str, Labels]
    groups: list[str] | None
    weight: np.ndarray | None
    features: np.ndarray | None
    feature_names: list[str]
    inputs: list[str]
    n_rows: int
    report: Report

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def first_rows(self) -> np.ndarray:
        """``(n,)`` int64: the row that stands for each item."""
        return np.asarray([r[0] for r in self.rows], dtype=np.int64)


def assemble(
    table: Table,
    dataset: DatasetSpec,
    targets: Sequence[TargetSpec],
    featurised: Featurised,
    *,
    duplicates: str,
    apart: Sequence[str] | None = None,
    paired: str = "",
) -> Records:
    """Join the rows of a table with the items its inputs became.

    Parameters
    ----------
    featurised
        What the domain made of the input column of all rows of ``table``.
    duplicates
        Policy for unequal labels: ``mean``, ``median``, ``first``, ``drop`` or ``error``.
    apart
        Per row of the table a text; rows with different texts are never merged. For official splits whose parts
        share inputs (``overlap: allow``): the part of each row.
    paired
        The level of the nodes that level ``pair`` makes pairs of, if the domain has it.

    Raises
    ------
    DataError
        A label, weight or feature cannot be read; no row has a usable input, or none has a label.
    """
    if duplicates not in POLICIES:
        raise unknown_name("policy for duplicates", duplicates, POLICIES)
    columns = [table.column(c.name) for c in dataset.by_role("input")]
    if len(featurised.position) == 0:
        bad = [(p.row, p.reason) for p in featurised.problems]
        raise table.fail("no row has a usable input.", bad, f"Check column {dataset.by_role('input')[0].name!r}.")
    names, numbers = _features(table, dataset, featurised.position)
    members = _members(featurised, numbers, apart)
    rows = [featurised.position[m] for m in members]
    first = np.asarray([m[0] for m in members], dtype=np.int64)
    items = featurised.items.subset(first)
    report = Report(dropped=list(featurised.problems), notes=dict(featurised.notes))
    labels = _labels(
        table,
        targets,
        featurised,
        rows=rows,
        items=items,
        inputs=columns[0],
        duplicates=duplicates,
        report=report,
        paired=paired,
    )
    weight = _weights(table, dataset, rows)
    for own in labels.values():
        own.weight = weight
    records = Records(
        items=items,
        rows=rows,
        keys=[featurised.key[i] for i in first],
        labels=labels,
        groups=_groups(table, dataset, rows),
        weight=weight,
        features=None if numbers is None else numbers[first],
        feature_names=names,
        inputs=[columns[0][r[0]] for r in rows],
        n_rows=len(table),
        report=report,
    )
    return _labelled_only(records, table.origin(targets[0].source).path)


def _members(featurised: Featurised, numbers: np.ndarray | None, apart: Sequence[str] | None) -> list[np.ndarray]:
    """Return per distinct thing the indices into ``featurised``, in order of first appearance."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(featurised.key):
        extra = () if numbers is None else tuple(numbers[i])
        part = "" if apart is None else apart[int(featurised.position[i])]
        found.setdefault((key, part, *extra), []).append(i)
    return [np.asarray(m, dtype=np.int64) for m in found.values()]


def _labels(
    table: Table,
    targets: Sequence[TargetSpec],
    featurised: Featurised,
    *,
    rows: list[np.ndarray],
    items: Any,
    inputs: list[str],
    duplicates: str,
    report: Report,
    paired: str,
) -> dict[str, Labels]:
    labels: dict[str, Labels] = {}
    for target in targets:
        if target.objective == "masked":
            classes, allowed = items.node_classes(target.level)
            labels[target.name] = Labels(classes, allowed, ptr=items.node_ptr(target.level))
            continue
        strings = table.column(target.source)
        if not target.of_nodes:
            parsed = parse_labels(strings, target, table.origin(target.source))
            labels[target.name], merged = merge_labels(parsed, rows, target, duplicates=duplicates, table=table)
            report.masked += parsed.problems
            report.merged += merged
            continue
        length = np.full(len(table), -1, dtype=np.int64)
        length[featurised.position] = featurised.items.n_source(paired if target.level == "pair" else target.level)
        if target.level == "pair":
            labels[target.name] = _pairs(
                table, target, length, rows=rows, items=items, inputs=inputs, level=paired, report=report
            )
            continue
        given = parse_node_labels(strings, target, table.origin(target.source), length)
        what = f"{target.level} labels of {target.name}"
        if target.mask_column is not None:
            known = table.column(target.mask_column)
            given, count = mask_unknown(given, known, target, table.origin(target.mask_column))
            report.counts[f"{what} masked, 0 in {target.mask_column}"] = count
        found = node_labels(
            given,
            rows,
            inputs,
            ptr=items.node_ptr(target.level),
            source=items.node_source(target.level),
            integer=target.kind == "multiclass",
        )
        labels[target.name] = found.labels
        report.counts[f"{what} masked, censored"] = sum(own.censored for own in given if own is not None)
        report.counts[f"{what} dropped, {target.level} removed"] = found.removed
        report.counts[f"duplicate rows without use of their {what}"] = len(found.unused_rows)
    return labels


def _pairs(
    table: Table,
    target: TargetSpec,
    length: np.ndarray,
    *,
    rows: list[np.ndarray],
    items: Any,
    inputs: list[str],
    level: str,
    report: Report,
) -> Labels:
    """Return the labels of all pairs of nodes of a level; ``length`` ``(n,)`` is the number of nodes of each row."""
    pairs = parse_pairs(table.column(target.source), target, table.origin(target.source), length, level)
    known = None
    if target.mask_column is not None:
        sizes = {row: int(length[row]) for row, own in enumerate(pairs) if own is not None}
        column = table.column(target.mask_column)
        known = known_nodes(column, sizes, target, table.origin(target.mask_column), level)
    found = lay_pairs(
        pairs,
        known,
        rows,
        inputs,
        ptr=items.node_ptr(level),
        source=items.node_source(level),
        pair_ptr=items.node_ptr(target.level),
        separation=target.separation,
    )
    report.counts[f"pairs of {target.name} left out, closer than {target.separation} {level}s"] = found.close
    report.counts[f"pairs of {target.name} dropped, {level} removed"] = found.removed
    report.counts[f"duplicate rows without use of their pairs of {target.name}"] = len(found.unused_rows)
    return found.labels


def _features(table: Table, dataset: DatasetSpec, position: np.ndarray) -> tuple[list[str], np.ndarray | None]:
    """Return the numbers of the feature columns for the rows that have an item."""
    specs = dataset.by_role("feature")
    if not specs:
        return [], None
    return [s.name for s in specs], np.stack([_finite(table, s.name, position, "feature") for s in specs], axis=1)


def _finite(table: Table, name: str, position: np.ndarray, role: str) -> np.ndarray:
    cells = table.column(name)
    bad = [(int(r), f"{cells[r]!r} is not a finite number") for r in position if not _is_finite(cells[r])]
    if bad:
        title = f"column {name!r} (role {role}): {len(bad)} rows hold no finite number."
        raise table.fail(title, bad, "Fill in these cells, remove the rows, or give the column another role.")
    return np.asarray([float(cells[r]) for r in position], dtype=np.float64)


def _is_finite(text: str) -> bool:
    return NUMBER.fullmatch(text.strip()) is not None and bool(np.isfinite(float(text)))


def _weights(table: Table, dataset: DatasetSpec, rows: list[np.ndarray]) -> np.ndarray | None:
    """Return the mean weight of each item's rows."""
    specs = dataset.by_role("weight")
    if not specs:
        return None
    position = np.concatenate(rows)
    flat = _finite(table, specs[0].name, position, "weight")
    negative = [(int(r), f"{w:g} is below 0") for r, w in zip(position, flat, strict=True) if w < 0]
    if negative:
        raise table.fail(f"column {specs[0].name!r}: weights must be at least 0.", negative, "Correct these weights.")
    if not flat.any():
        raise DataError(f"{table.path}: every weight in column {specs[0].name!r} is 0, so nothing can be learnt.")
    starts = np.cumsum([0, *(len(r) for r in rows[:-1])])
    weight: np.ndarray = np.add.reduceat(flat, starts) / np.asarray([len(r) for r in rows])
    return weight


def _groups(table: Table, dataset: DatasetSpec, rows: list[np.ndarray]) -> list[str] | None:
    """Return per item the group it belongs to; an item whose rows name two groups makes one of them.

    A blank cell names no group.
    """
    specs = dataset.by_role("group")
    if not specs:
        return None
    columns = [(spec.name, table.column(spec.name)) for spec in specs]
    named = [[(name, cells[r].strip()) for name, cells in columns for r in own] for own in rows]
    return connected([[f"{name}={text}" for name, text in own if text] for own in named])


def connected(texts: Sequence[Sequence[str]]) -> list[str]:
    """Return one group name per item, equal for two items that share a text, directly or through other items."""
    known: dict[str, int] = {}
    links = [(item, known.setdefault(text, len(known))) for item, own in enumerate(texts) for text in own]
    n, m = len(texts), len(known)
    left = [item for item, _ in links]
    right = [n + text for _, text in links]
    graph = coo_array((np.ones(len(links), dtype=np.int8), (left, right)), shape=(n + m, n + m))
    group: np.ndarray = connected_components(graph, directed=False)[1][:n]
    return [str(g) for g in group]


def _labelled_only(records: Records, path: Path) -> Records:
    """Leave out the items that have no label in any target."""
    labelled = np.zeros(len(records), dtype=bool)
    for labels in records.labels.values():
        if labels.ptr is None:
            labelled |= labels.mask.reshape(len(records))
        else:
            flags = np.concatenate([[0], np.cumsum(labels.mask.reshape(-1))])
            labelled |= flags[labels.ptr[1:]] > flags[labels.ptr[:-1]]
    report = records.report
    if not labelled.any():
        names = ", ".join(map(repr, records.labels))
        raise DataError(f"{path}: no row with a usable input has a label of {names}. Name a column with labels.")
    kept = np.flatnonzero(labelled)
    torn = {row for merged in report.merged for row in merged.rows}
    for item in np.flatnonzero(~labelled):
        reason = UNLABELLED if torn.isdisjoint(records.rows[item].tolist()) else CONFLICT
        report.dropped += [RowProblem(int(r), records.inputs[item], reason) for r in records.rows[item]]
    report.dropped.sort(key=lambda problem: problem.row)
    merged_rows = sum(len(records.rows[i]) - 1 for i in kept)
    report.counts = {
        "rows": records.n_rows,
        "items": len(kept),
        "duplicate rows merged": merged_rows,
        "rows dropped": len(report.dropped),
        **report.counts,
    }
    return records if labelled.all() else _subset(records, kept)


def _subset(records: Records, kept: np.ndarray) -> Records:
    return Records(
        items=records.items.subset(kept),
        rows=[records.rows[i] for i in kept],
        keys=[records.keys[i] for i in kept],
        labels={name: _subset_labels(labels, kept) for name, labels in records.labels.items()},
        groups=None if records.groups is None else [records.groups[i] for i in kept],
        weight=None if records.weight is None else records.weight[kept],
        features=None if records.features is None else records.features[kept],
        feature_names=records.feature_names,
        inputs=[records.inputs[i] for i in kept],
        n_rows=records.n_rows,
        report=records.report,
    )


def _subset_labels(labels: Labels, kept: np.ndarray) -> Labels:
    weight = None if labels.weight is None else labels.weight[kept]
    if labels.ptr is None:
        return Labels(labels.values[kept], labels.mask[kept], weight)
    nodes = np.concatenate([np.arange(labels.ptr[i], labels.ptr[i + 1]) for i in kept])
    ptr = np.concatenate([[0], np.cumsum(np.diff(labels.ptr)[kept])]).astype(labels.ptr.dtype)
    return Labels(labels.values[nodes], labels.mask[nodes], weight, ptr)
