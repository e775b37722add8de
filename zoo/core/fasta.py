"""Read FASTA as a table: one row per record, whatever its letters stand for (residues, labels, a mask)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from zoo.errors import DataError

RESERVED = frozenset({"id", "description", "sequence"})
SUFFIXES = frozenset({".fasta", ".fa", ".faa", ".fas", ".fsa"})

_FIELD = re.compile(r"(?:^|(?<=\s))([A-Za-z][A-Za-z0-9_]*)=(.*?)(?=\s+[A-Za-z][A-Za-z0-9_]*=|$)")
_TOLD = 5


def is_fasta(path: Path, text: str) -> bool:
    """Say whether a file is FASTA: by its suffix (before ``.gz`` or ``.xz``), or because it begins with ``>``."""
    return not SUFFIXES.isdisjoint(suffix.lower() for suffix in path.suffixes[-2:]) or text.lstrip()[:1] == ">"


def fasta_records(path: Path, text: str) -> tuple[list[str], list[list[str]], list[int]]:
    """Return the header, the rows and the line of each row, as :func:`zoo.core.table.read_table` makes a table of.

    The columns are ``id`` (the first word of a header), ``sequence`` (all lines of the record joined, white space left
    out), ``description`` (what follows the id, where any record has it), and one for every ``KEY=value`` that stands
    in a header, blank for the records that lack it; a value ends where the next key begins. Blank lines and any line
    ends are allowed. A record without a sequence keeps its row, with a blank cell: whether it can be used is for the
    domain to say.

    Raises
    ------
    DataError
        There is text before the first ``>``, no record, a record without an id, or an id twice. The message names
        the lines.
    """
    names: dict[str, int] = {}
    header = {"id": None, "sequence": None}
    rows: list[dict[str, str]] = []
    lines: list[int] = []
    doubled: list[str] = []
    for line, head, sequence in _records(path, text):
        name, _, rest = head.partition(" ")
        if not name:
            raise DataError(f"{path}, line {line}: a record without a name. Write an id after the '>'.")
        if name in names:
            doubled.append(f"  {name!r} on lines {lines[names[name]]} and {line}")
        names.setdefault(name, len(rows))
        rows.append({"id": name, "sequence": sequence, **_header_fields(rest)})
        header.update(dict.fromkeys(rows[-1]))
        lines.append(line)
    if not rows:
        raise DataError(f"{path}: the file holds no record. A record is a line '>id' with its sequence below.")
    if doubled:
        raise _doubled(path, doubled)
    return list(header), [[own.get(name, "") for name in header] for own in rows], lines


def _records(path: Path, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield per record its line, the header with single blanks, and the sequence."""
    start, head, pieces = 0, "", list[str]()
    for line, content in enumerate(_lines(text), start=1):
        if content.startswith(">"):
            if start:
                yield start, head, "".join(pieces)
            start, head, pieces = line, " ".join(content[1:].split()), []
        elif start:
            pieces.append("".join(content.split()))
        elif content.strip():
            raise DataError(
                f"{path}, line {line}: FASTA begins with '>', here stands {content.strip()[:40]!r}. "
                f"Write a line '>id' above each sequence."
            )
    if start:
        yield start, head, "".join(pieces)


def _lines(text: str) -> Iterable[str]:
    """Return the lines, whatever ends them (``str.splitlines`` would also cut at form feeds)."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _header_fields(rest: str) -> dict[str, str]:
    """Return the ``KEY=value`` fields of a header, and as ``description`` what stands before them, if anything does."""
    found = [field for field in _FIELD.finditer(rest) if field[1] not in RESERVED]
    before = rest[: found[0].start()].strip() if found else rest
    return {**({"description": before} if before else {}), **{field[1]: field[2] for field in found}}


def _doubled(path: Path, told: list[str]) -> DataError:
    shown = told[:_TOLD] + [f"  ... and {len(told) - _TOLD} more"] * (len(told) > _TOLD)
    return DataError(
        "\n".join([f"{path}: {len(told)} records have the id of an earlier one.", *shown, "  Give each its own id."])
    )
