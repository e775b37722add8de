"""Join files whose rows belong together by an id: sequences in one, labels in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from zoo.core.table import Table
from zoo.errors import DataError, did_you_mean


def rename(table: Table, names: Mapping[str, str]) -> Table:
    """Return a table whose columns ``names`` (old to new) are called otherwise.

    Raises
    ------
    DataError
        There is no such column, or two columns would have one name.
    """
    for old in names:
        table.column(old)
    columns = [names.get(name, name) for name in table.columns]
    doubled = sorted({name for name in columns if columns.count(name) > 1})
    if doubled:
        raise DataError(f"{table.path}: after renaming, two columns are called {doubled[0]!r}. Choose another name.")
    return replace(table, frame=table.frame.set_axis(columns, axis=1))


def join(tables: Sequence[Table], key: str) -> Table:
    """Return the rows of the first table, with the other tables' columns at the rows of the same id.

    A row of the first table that another lacks has blank cells in its columns. Order, rows and messages are those of
    the first table; a message about a column of another table names that table's file and line.

    Parameters
    ----------
    key
        The column of the ids, which every table has; in each an id stands once.

    Raises
    ------
    DataError
        An id is blank or stands twice, a table has an id that the first lacks, or two tables share another column.
    """
    first, *others = tables
    row_of = _rows_by_id(first, key)
    frames, origins = [first.frame], dict(first.origins)
    for other in others:
        shared = [name for name in other.columns if name != key and any(name in frame.columns for frame in frames)]
        if shared:
            raise DataError(
                f"{other.path}: the column {shared[0]!r} stands in another file too. Give it another name (`rename`)."
            )
        found = _rows_by_id(other, key)
        _check_known(other, found, row_of, first)
        at = np.asarray([found.get(name, -1) for name in row_of], dtype=np.int64)
        columns = [name for name in other.columns if name != key]
        frames.append(other.frame[columns].reindex(at).fillna("").set_axis(first.frame.index, axis=0))
        lines = np.where(at < 0, 0, other.lines[at])
        origins.update(dict.fromkeys(columns, replace(other, lines=lines, names=list(row_of))))
    return replace(first, frame=pd.concat(frames, axis=1), names=list(row_of), origins=origins)


def _rows_by_id(table: Table, key: str) -> dict[str, int]:
    """Return the row of every id, in order."""
    found: dict[str, int] = {}
    bad: list[tuple[int, str]] = []
    for row, name in enumerate(table.column(key)):
        if not name.strip():
            bad.append((row, "the id is blank"))
        elif name in found:
            bad.append((row, f"the id {name!r} is that of {table.where(found[name])} too"))
        found.setdefault(name, row)
    if bad:
        raise table.fail(f"column {key!r}: {len(bad)} rows have no id of their own.", bad, "Give each row its own id.")
    return found


def _check_known(other: Table, found: Mapping[str, int], known: Mapping[str, int], first: Table) -> None:
    strange = [(row, name) for name, row in found.items() if name not in known]
    if strange:
        bad = [(row, f"{name!r} is not there.{did_you_mean(name, known)}") for row, name in strange[:5]]
        bad += [(row, "") for row, _ in strange[5:]]
        raise other.fail(f"{len(strange)} ids do not stand in {first.path}.", bad, "Both files need the same ids.")
