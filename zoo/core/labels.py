"""Turn strings into labels and a mask, once; nothing after this module knows another notion of missing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from zoo.core.table import NUMBER, Table
from zoo.core.types import Labels, RowProblem
from zoo.errors import DataError, did_you_mean
from zoo.specs.target import TargetSpec

MISSING = frozenset({"", "nan", "na", "n/a", "#n/a", "<na>", "null", "none", "-", "--", "?", "."})
"""What stands for a missing label, in any case and with blanks around it (unless it is the name of a class)."""

_CENSORED = re.compile(r"(?:[<>]=?|[~≈≤≥])\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_TRUE_FALSE = {"true": 1.0, "false": 0.0}


class LabelError(ValueError):
    """A cell that is no label; the message says why."""


class CensoredError(LabelError):
    """A label of which only a bound is known."""


@dataclass(frozen=True)
class Parsed:
    """Labels of one target for the ``n`` rows of a table.

    ``values`` and ``mask`` are ``(n, 1)`` float64 and bool (multiclass: ``(n,)`` int64 and bool); masked values are
    0. ``problems`` names the rows whose censored label was masked.
    """

    values: np.ndarray
    mask: np.ndarray
    problems: list[RowProblem] = field(default_factory=list)


def is_missing(text: str) -> bool:
    """Say whether a cell stands for a missing label."""
    return text.strip().casefold() in MISSING


def is_censored(text: str) -> bool:
    """Say whether a cell is a bound such as ``>5.0`` or ``~3`` instead of a value."""
    return _CENSORED.fullmatch(text.strip()) is not None


def parse_labels(strings: Sequence[str], target: TargetSpec, table: Table) -> Parsed:
    """Read one label per row.

    Raises
    ------
    DataError
        Some cell is neither missing nor a label of this target. All bad rows are collected: the first five are
        shown with row and line.
    """
    read = label_reader(target)
    values = np.zeros(len(strings), dtype=np.int64 if target.kind == "multiclass" else np.float64)
    mask = np.zeros(len(strings), dtype=bool)
    bad: list[tuple[int, str]] = []
    censored: list[RowProblem] = []
    for row, text in enumerate(strings):
        try:
            value = read(text)
        except LabelError as error:
            if isinstance(error, CensoredError) and target.censoring == "mask":
                censored.append(RowProblem(row, text, f"the censored label of {target.name!r} was masked"))
            else:
                bad.append((row, str(error)))
            continue
        if value is not None:
            values[row], mask[row] = value, True
    if bad:
        raise bad_labels(target, table, bad)
    if target.kind != "multiclass":
        values, mask = values[:, None], mask[:, None]
    return Parsed(values, mask, censored)


def check_trainable(target: TargetSpec, labels: Labels, index: np.ndarray | None = None) -> None:
    """Raise unless a target has at least two different labels (among the items ``index``, by default all).

    Raises
    ------
    DataError
        Every label is missing, or all valid labels are equal.
    """
    keep = np.ones(len(labels.mask), dtype=bool)
    if index is not None:
        of_item = np.zeros((len(labels.ptr) - 1 if labels.ptr is not None else len(keep)), dtype=bool)
        of_item[index] = True
        keep = of_item if labels.ptr is None else np.repeat(of_item, np.diff(labels.ptr))
    valid = labels.values[keep][labels.mask[keep]]
    if valid.size == 0:
        raise DataError(
            f"target {target.name!r}: every label of column {target.source!r} is missing, so nothing can be learnt. "
            f"Name a column with labels, or leave the target out."
        )
    if valid.size > 1 and np.all(valid == valid[0]):
        shown = target.class_names[int(valid[0])] if target.kind in ("binary", "multiclass") else f"{valid[0]:g}"
        raise DataError(
            f"target {target.name!r}: all {valid.size} labels of column {target.source!r} are {shown}, so nothing can "
            f"be learnt. Add rows with other labels, or leave the target out."
        )


def label_reader(target: TargetSpec) -> Callable[[str], float | None]:
    """Return the function from a cell to a value, or None where it is missing; it raises :class:`LabelError`."""
    if target.kind == "regression":
        return _positive if target.scaling == "log10" else _number
    if target.kind in ("binary", "multiclass"):
        return _ClassReader(target.class_names)
    raise DataError(
        f"target {target.name!r}: labels of kind {target.kind!r} cannot be read from a table column. "
        f"Allowed there: regression, binary, multiclass."
    )


def _number(text: str) -> float | None:
    bare = text.strip()
    if NUMBER.fullmatch(bare):
        value = float(bare)
        if math.isfinite(value):
            return value
    elif bare.casefold() in MISSING:
        return None
    if _CENSORED.fullmatch(bare):
        raise CensoredError(f"{bare!r} is a censored label; --set censoring=mask leaves such labels out")
    if _INFINITE.fullmatch(bare) or NUMBER.fullmatch(bare):
        raise LabelError(f"{bare!r} is not finite")
    hint = " (a decimal comma? write a point)" if DECIMAL_COMMA.fullmatch(bare) else ""
    raise LabelError(f"{shorten(bare)} is not a number{hint}")


def _positive(text: str) -> float | None:
    value = _number(text)
    if value is not None and value <= 0:
        raise LabelError(f"{text.strip()!r} is not above 0, so it has no logarithm (transform log10)")
    return value


class _ClassReader:
    """Match a cell with class names: as written, then as equal numbers, then true and false with 1 and 0."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.exact = {name: float(i) for i, name in enumerate(names)}
        numbers = {float(name): float(i) for i, name in enumerate(names) if NUMBER.fullmatch(name)}
        self.numeric = numbers if len(numbers) == len(names) else {}

    def __call__(self, text: str) -> float | None:
        bare = text.strip()
        if bare in self.exact:
            return self.exact[bare]
        if bare.casefold() in MISSING:
            return None
        value = float(bare) if NUMBER.fullmatch(bare) else _TRUE_FALSE.get(bare.casefold())
        if value is not None and value in self.numeric:
            return self.numeric[value]
        if _CENSORED.fullmatch(bare):
            raise CensoredError(f"{bare!r} is a censored label; --set censoring=mask leaves such labels out")
        allowed = ", ".join(map(repr, self.names))
        raise LabelError(f"{shorten(bare)} is none of the classes {allowed}.{did_you_mean(bare, self.names)}")


def shorten(text: str) -> str:
    """Return a cell for a message: quoted, and cut where it is long."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def bad_labels(target: TargetSpec, table: Table, bad: Iterable[tuple[int, str]]) -> DataError:
    """Return the error for rows ``(row, what is wrong)`` whose labels cannot be read."""
    told = list(bad)
    title = (
        f"column {target.source!r}: {len(told)} rows have no usable label of target {target.name!r} ({target.kind})."
    )
    remedy = "Correct these cells; a blank cell or NA is a missing label, which is allowed."
    return table.fail(title, told, remedy)
