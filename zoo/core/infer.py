"""Say what kind of target a column is, with the reason, for a user who named only the column."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zoo.core.labels import DECIMAL_COMMA, is_censored, is_missing
from zoo.core.table import NUMBER, Table
from zoo.errors import DataError
from zoo.specs.target import TargetKind

MOST_CLASSES = 20
"""More different words than this are taken for free text, not for classes."""
_MOST_CODES = 10
_ROWS_PER_CODE = 5
_LETTERED, _NEAR = 0.8, 5
_PAIRS = re.compile(r"\[\s*\[")
_POSITIVE = {"true", "yes", "y", "t", "active", "positive", "pos", "toxic", "on", "+"}


@dataclass(frozen=True)
class Inferred:
    """What a column was taken for: pieces of a :class:`zoo.specs.target.TargetSpec`, and why.

    ``nodes`` says that each cell is a list with one label per node, so that the target needs a node level; ``pairs``
    that it lists pairs of nodes.
    """

    kind: TargetKind
    classes: list[str] | None
    positive: str | None
    nodes: bool
    reason: str
    pairs: bool = False


def infer_kind(strings: Sequence[str], column: str, table: Table, lengths: Mapping[int, int] | None = None) -> Inferred:
    """Take a column for a regression, binary or multiclass target.

    Numbers are regression, except 0 and 1 only, two different whole numbers only, or three to ten consecutive whole
    numbers from 0 or 1 that each occur five times on average (class codes). Words are classes, up to twenty.

    Parameters
    ----------
    strings, column, table
        The cells, the column's name, and the table that messages name.
    lengths
        For some rows the number of nodes of the input. Where nearly all cells have as many letters, each letter is
        the class of a node.

    Raises
    ------
    DataError
        No label at all, one label throughout, text and numbers mixed, or more than twenty different words.
    """
    cells = {row: text.strip() for row, text in enumerate(strings) if not is_missing(text)}
    if not cells:
        raise _no_label(column, table)
    if _is_lettered(cells, lengths or {}):
        return _letters(cells, column, table)
    if any(_PAIRS.match(text) for text in cells.values()):
        return Inferred("binary", None, None, False, f"{column!r} is binary: each cell lists pairs [i, j]", pairs=True)
    nodes = next(iter(cells.values())).startswith("[")
    values = [(row, value) for row, text in cells.items() for value in (_listed(text) if nodes else [text])]
    values = [(row, value) for row, value in values if not is_missing(value)]
    if not values and any(text.strip("[] ") for text in cells.values()):
        raise _no_label(column, table)
    if not values:
        raise DataError(
            f"{table.path}: all lists of column {column!r} are empty, so nothing can be learnt. Name a column with "
            "labels of nodes or with pairs of them."
        )
    kind, classes, reason = _kind(values, column, table, _nearly_lettered(cells, lengths or {}))
    positive = _positive_of(classes) if kind == "binary" and classes else None
    where = "each cell is a list, one label per node; " if nodes else ""
    return Inferred(kind, classes, positive, nodes, f"{column!r} is {kind}: {where}{reason}")


def _is_lettered(cells: Mapping[int, str], lengths: Mapping[int, int]) -> bool:
    """Say whether cells hold a letter for each node: nearly all are as long as their inputs, which differ in length."""
    told = [(len(cells[row]), length) for row, length in lengths.items() if row in cells]
    fitting = [given for given, length in told if given == length]
    return len(fitting) >= _LETTERED * len(told) and len(set(fitting)) > 1


def _letters(cells: Mapping[int, str], column: str, table: Table) -> Inferred:
    counts = Counter("".join(cells.values()))
    names = sorted(name for name in counts if not is_missing(name))
    if not names:
        raise _no_label(column, table)
    if len(names) == 1:
        raise _one_label(counts[names[0]], names[0], column, table)
    kind: TargetKind = "binary" if len(names) == 2 else "multiclass"
    shown = ", ".join(f"{name!r} ({counts[name]})" for name in names)
    reason = f"{column!r} is {kind}: each cell has a letter per node; {len(names)} different ones: {shown}"
    return Inferred(kind, names, _positive_of(names) if kind == "binary" else None, True, reason)


def _nearly_lettered(cells: Mapping[int, str], lengths: Mapping[int, int]) -> str:
    """Return a hint where cells would be letters of nodes, were there as many as nodes; else nothing."""
    told = [(row, len(cells[row]), length) for row, length in lengths.items() if row in cells and cells[row].isalpha()]
    near = [own for own in told if 0 < abs(own[1] - own[2]) <= _NEAR]
    if len(near) < _LETTERED * max(len(cells), 1):
        return ""
    row, given, length = near[0]
    return f" If each letter is the class of a node, they do not fit: row {row} has {given} for {length} nodes."


def _kind(
    values: list[tuple[int, str]], column: str, table: Table, hint: str
) -> tuple[TargetKind, list[str] | None, str]:
    words = [(row, text) for row, text in values if not (NUMBER.fullmatch(text) or is_censored(text))]
    distinct = Counter(text for _, text in values)
    if words and len(words) < len(values):
        raise _mixed(values, words, column, table)
    if len(distinct) == 1:
        raise _one_label(len(values), next(iter(distinct)), column, table)
    if not words:
        return _number_kind(values)
    if len(distinct) > MOST_CLASSES:
        raise DataError(
            f"{table.path}: column {column!r} holds {len(distinct)} different texts, which is too many for classes "
            f"(at most {MOST_CLASSES}).{hint} Name a column of numbers or of classes."
        )
    names = sorted(distinct)
    counts = ", ".join(f"{name!r} ({distinct[name]})" for name in names)
    return ("binary" if len(names) == 2 else "multiclass"), names, f"{len(names)} different words: {counts}"


def _number_kind(values: list[tuple[int, str]]) -> tuple[TargetKind, list[str] | None, str]:
    if any(is_censored(text) for _, text in values):
        return "regression", None, "numbers, some of them censored"
    distinct = sorted({float(text) for _, text in values})
    whole = all(number.is_integer() for number in distinct)
    codes = [str(int(number)) for number in distinct] if whole else []
    if codes == ["0", "1"]:
        return "binary", None, "only 0 and 1"
    if whole and len(codes) == 2:
        return "binary", codes, f"only two whole numbers, {codes[0]} and {codes[1]}"
    consecutive = whole and distinct[0] in (0.0, 1.0) and distinct[-1] - distinct[0] == len(distinct) - 1
    if consecutive and 3 <= len(codes) <= _MOST_CODES and len(values) >= _ROWS_PER_CODE * len(codes):
        return "multiclass", codes, f"{len(codes)} consecutive whole numbers from {codes[0]}, taken for class codes"
    return "regression", None, f"{len(distinct)} different numbers from {distinct[0]:g} to {distinct[-1]:g}"


def _positive_of(classes: list[str]) -> str:
    """Return the class whose probability is reported: the one that says yes, else the second in order."""
    yes = [name for name in classes if name.casefold() in _POSITIVE or name.endswith("+")]
    return yes[0] if len(yes) == 1 else classes[1]


def _listed(text: str) -> list[str]:
    """Return the entries of a JSON list as cells; a broken list is left for the reading of labels to report."""
    try:
        cells = json.loads(text)
    except json.JSONDecodeError:
        return []
    return ["" if c is None else str(c) for c in cells] if isinstance(cells, list) else []


def _no_label(column: str, table: Table) -> DataError:
    return DataError(f"{table.path}: every label of column {column!r} is missing. Name a column that holds labels.")


def _one_label(count: int, label: str, column: str, table: Table) -> DataError:
    return DataError(
        f"{table.path}: all {count} labels of column {column!r} are {label!r}, so nothing can be learnt. Name a column "
        "with different labels."
    )


def _mixed(values: list[tuple[int, str]], words: list[tuple[int, str]], column: str, table: Table) -> DataError:
    numbers = len(values) - len(words)
    title = f"column {column!r} mixes numbers ({numbers} labels) with text ({len(words)} labels)."
    if len(words) <= numbers:
        odd = words
    else:
        texts = {id(pair) for pair in words}
        odd = [pair for pair in values if id(pair) not in texts]
    comma = any(DECIMAL_COMMA.fullmatch(text) for _, text in odd)
    hint = "Write decimal commas as points. " if comma else ""
    remedy = f"{hint}Make them all numbers or all classes; a blank cell or NA is a missing label, which is allowed."
    return table.fail(title, [(row, repr(text)) for row, text in odd], remedy)
