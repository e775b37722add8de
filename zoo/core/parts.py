"""Parts of a split as files and columns name them."""

from __future__ import annotations

from pathlib import Path

from zoo.core.table import Table, read_table
from zoo.errors import did_you_mean
from zoo.specs.dataset import Part
from zoo.specs.task import SplitSpec

PARTS: tuple[Part, ...] = ("train", "val", "calibration", "test")
_ALSO: dict[str, Part] = {"training": "train", "valid": "val", "validation": "val", "dev": "val", "testing": "test"}
_VALIDATES = {"true": True, "1": True, "false": False, "0": False, "": False}


def as_part(text: str) -> Part | None:
    """Return the part that a cell names, by its name or one that others use for it; None for no part."""
    bare = text.strip().casefold()
    named: dict[str, Part] = {**{part: part for part in PARTS}, **_ALSO}
    return named.get(bare)


def read_split_file(path: Path, n_rows: int) -> dict[int, Part]:
    """Return the part of every row that a split file (columns ``row,part``) lists.

    Raises
    ------
    DataError
        A row that the data of ``n_rows`` rows does not have, one listed twice, or a part that is none.
    """
    table = read_table(path, "csv")
    by_row: dict[int, Part] = {}
    bad: list[tuple[int, str]] = []
    for i, (row, text) in enumerate(zip(table.column("row"), table.column("part"), strict=True)):
        part = as_part(text)
        if not row.isdecimal() or int(row) >= n_rows:
            bad.append((i, f"{row!r} is not a row of the data (0 to {n_rows - 1})"))
        elif part is None:
            bad.append((i, f"{text!r} is not a part.{did_you_mean(text, PARTS)}"))
        elif int(row) in by_row:
            bad.append((i, f"row {row} stands twice"))
        else:
            by_row[int(row)] = part
    if bad:
        raise table.fail("the split file cannot be used.", bad, f"Parts are {', '.join(PARTS)}.")
    return by_row


def official_parts(spec: SplitSpec, table: Table) -> list[str]:
    """Return the part of every row as the column of the split says it, with its validation rows if marked apart.

    Raises
    ------
    DataError
        The mark of a row is neither true nor false (nor blank), or a row outside the part train is marked.
    """
    parts = table.column(str(spec.column))
    if spec.val_column is None:
        return parts
    marks = [_VALIDATES.get(text.strip().casefold()) for text in table.column(spec.val_column)]
    origin, bad = table.origin(spec.val_column), []
    for row, (part, mark) in enumerate(zip(parts, marks, strict=True)):
        if mark is None:
            bad.append((row, f"{table.column(spec.val_column)[row]!r} is neither true nor false"))
        elif mark and as_part(part) != "train":
            bad.append((row, f"a row of the part {part!r} cannot validate"))
    if bad:
        raise origin.fail(f"column {spec.val_column!r} (val_column of the split) cannot be used.", bad, "Correct them.")
    return ["val" if mark else part for part, mark in zip(parts, marks, strict=True)]
