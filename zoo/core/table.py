"""Read a delimited text file or FASTA as it stands: every cell a string, every row with its line in the file.

Nothing is guessed about cells here (no NaN, no numbers): what a blank or ``NA`` means is decided once, in
:mod:`zoo.core.labels`.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from zoo.core.fasta import fasta_records, is_fasta
from zoo.errors import DataError, did_you_mean

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon"}
_LARGEST_CELL = 1 << 26
_TOLD = 5


@dataclass(frozen=True)
class Table:
    """A file with ``n`` data rows.

    Parameters
    ----------
    frame
        ``n`` rows of ``str``; a missing cell is ``""``.
    path
        The file, for messages.
    lines
        ``(n,)`` int64: the line of the file, from 1, on which each row starts.
    sha256
        Checksum of the file's bytes, as stored (compressed files: of the compressed bytes).
    names
        What each row is called in messages beside its number, or None: the ids of FASTA records.
    origins
        For columns that come from another file: a table of that file whose rows are those of this one.
    """

    frame: pd.DataFrame
    path: Path
    lines: np.ndarray
    sha256: str
    names: Sequence[str] | None = None
    origins: Mapping[str, Table] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> list[str]:
        """Column names in file order."""
        return [str(name) for name in self.frame.columns]

    def column(self, name: str) -> list[str]:
        """Return the cells of one column.

        Raises
        ------
        DataError
            There is no such column; the columns there are, are listed.
        """
        if name not in self.frame.columns:
            remedy = (
                "The first line of the file must name its columns."
                if self.names is None
                else f"A record's header may hold it as {name}=VALUE; labels in another file go with --labels FILE."
            )
            raise DataError(
                f"{self.path}: no column {name!r}.{did_you_mean(name, self.columns)}\n"
                f"  columns: {', '.join(map(repr, self.columns))}\n"
                f"  {remedy}"
            )
        cells: list[str] = self.frame[name].tolist()
        return cells

    def origin(self, column: str) -> Table:
        """Return the table that a column's messages speak of: this one, or that of the file it comes from."""
        return self.origins.get(column, self)

    def where(self, row: int) -> str:
        """Return ``row 3 (line 5)``: rows count data rows from 0, lines count lines of the file from 1."""
        name = "" if self.names is None else f", {self.names[row]!r}"
        return f"row {row} (line {int(self.lines[row])}{name})"

    def fail(self, title: str, problems: Iterable[tuple[int, str]], remedy: str) -> DataError:
        """Return one error for many bad rows: it shows the first five ``(row, what is wrong)`` and their number."""
        told = list(problems)
        shown = [f"  {self.where(row)}: {text}" for row, text in told[:_TOLD]]
        if len(told) > _TOLD:
            shown.append(f"  ... and {len(told) - _TOLD} more rows")
        return DataError("\n".join([f"{self.path}: {title}", *shown, f"  {remedy}"]))


def read_table(path: Path | str, format: str | None = None, member: str | None = None) -> Table:  # noqa: A002
    """Read a delimited file with a header, or FASTA (see :func:`zoo.core.fasta.fasta_records` for its columns).

    Parameters
    ----------
    path
        A text file in UTF-8 (with or without a byte order mark, any line ends), plain, ``.gz``, ``.xz``, or in a
        ``.zip``.
    format
        ``fasta``; ``tsv`` for tabs; ``csv`` for tab, semicolon or comma, whichever the header uses. None: told from
        the name and the first character.
    member
        The file inside a zip archive.

    Raises
    ------
    DataError
        The file is missing, empty, not text, has no header, only a header, a column twice, or a row with more or
        fewer cells than the header. The message names the line.
    """
    path = Path(path)
    stored = _stored_bytes(path)
    text = _decoded(path, _unpacked(path, stored, member))
    digest = hashlib.sha256(stored).hexdigest()
    if format == "fasta" or (format is None and is_fasta(Path(member or path.name), text)):
        header, records, starts = fasta_records(path, text)
        frame = pd.DataFrame(records, columns=header, dtype=str)
        return Table(frame, path, np.asarray(starts, np.int64), digest, names=frame["id"].tolist())
    delimiter = "\t" if format == "tsv" else _delimiter(path, text)
    rows, lines = _records(path, text, delimiter)
    if not rows:
        raise DataError(f"{path}: the file is empty. It needs a line of column names and at least one row of data.")
    header = [name.strip() for name in rows[0]]
    _check_header(path, header, lines[0])
    if len(rows) == 1:
        raise DataError(f"{path}: the file has a header but no data. Add at least one row below line {lines[0]}.")
    _check_ragged(path, rows, lines, delimiter)
    frame = pd.DataFrame(rows[1:], columns=header, dtype=str)
    return Table(frame, path, np.asarray(lines[1:], dtype=np.int64), digest)


def _stored_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        near = did_you_mean(path.name, (p.name for p in path.parent.iterdir())) if path.parent.is_dir() else ""
        raise DataError(f"{path}: there is no such file.{near}") from None
    except OSError as error:
        raise DataError(f"{path}: the file cannot be read ({error.strerror or error}).") from None


def _unpacked(path: Path, stored: bytes, member: str | None) -> bytes:
    try:
        if path.suffix == ".zip" or member is not None:
            return _zip_member(path, stored, member)
        if path.suffix == ".xz":
            return lzma.decompress(stored)
        return gzip.decompress(stored) if path.suffix == ".gz" else stored
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: the compressed file is damaged ({error}). Fetch or pack it again.") from None


def _zip_member(path: Path, stored: bytes, member: str | None) -> bytes:
    with zipfile.ZipFile(io.BytesIO(stored)) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        wanted = member if member is not None or len(names) != 1 else names[0]
        if wanted not in names:
            raise DataError(
                f"{path}: no member {wanted!r} in the archive.{did_you_mean(wanted or '', names)} "
                f"Name one of: {', '.join(names) or 'none'}."
            )
        return archive.read(wanted)


def _decoded(path: Path, data: bytes) -> str:
    remedy = "Save the file as plain text in UTF-8 (spreadsheets: 'CSV UTF-8')."
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}: the file is in UTF-16. {remedy}")
    zero = data.find(b"\0")
    if zero >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise DataError(f"{path}, line {line}: the file is not text (it holds a zero byte). {remedy}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8. {remedy}") from None


def _delimiter(path: Path, text: str) -> str:
    """Return the delimiter that the header line uses most outside quotes; the file's suffix settles tabs."""
    names = {suffix.lower() for suffix in path.suffixes[-2:]}
    if names & {".tsv", ".tab"}:
        return "\t"
    header = next((line for line in io.StringIO(text) if line.strip()), "")
    bare = re.sub(r'"[^"]*"', "", header)
    return max(_DELIMITERS, key=bare.count)  # the first, a comma, where none occurs


def _records(path: Path, text: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    """Return all records that are not blank lines, and the line on which each starts."""
    rows: list[list[str]] = []
    lines: list[int] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    with _large_cells():
        start = 1
        try:
            for record in reader:
                if record:
                    rows.append(record)
                    lines.append(start)
                start = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{path}, line {start}: a quoted cell is not closed or is followed by text ({error})."
            ) from None
    return rows, lines


@contextmanager
def _large_cells() -> Iterator[None]:
    """Allow cells as long as a list of labels of a large item; the csv module's limit is for the whole process."""
    before = csv.field_size_limit(_LARGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _check_header(path: Path, header: list[str], line: int) -> None:
    numbers = [name for name in header if NUMBER.fullmatch(name)]
    if numbers:
        raise DataError(
            f"{path}, line {line}: the first line holds the number {numbers[0]!r}, so it seems to be data. "
            f"Put a line of column names above it."
        )
    doubled = sorted({name for name in header if header.count(name) > 1})
    if doubled:
        raise DataError(
            f"{path}, line {line}: more than one column is called {', '.join(map(repr, doubled))}. Rename all but one."
        )


def _check_ragged(path: Path, rows: list[list[str]], lines: list[int], delimiter: str) -> None:
    width = len(rows[0])
    wrong = [(row, len(cells)) for row, cells in enumerate(rows[1:]) if len(cells) != width]
    if not wrong:
        return
    shown = [f"  row {row} (line {lines[row + 1]}): {n} cells" for row, n in wrong[:_TOLD]]
    if len(wrong) > _TOLD:
        shown.append(f"  ... and {len(wrong) - _TOLD} more rows")
    raise DataError(
        "\n".join(
            [
                f"{path}: {len(wrong)} rows do not have the header's {width} cells.",
                *shown,
                f"  Put cells that hold a {_DELIMITERS[delimiter]} into double quotes.",
            ]
        )
    )
