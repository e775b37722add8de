"""Files written whole or not at all, and what to say where the disk refuses."""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from zoo.core.faults import fault
from zoo.errors import InputError, ZooError


def disk_error(error: OSError, path: Path) -> ZooError:
    """Return the message for a file that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ZooError(f"no space left while writing {path}: free some space or choose another place with --out.")
    return ZooError(f"cannot write {path}: {error.strerror or error}. Choose another place with --out.")


def make_folder(path: Path) -> None:
    """Make the folder that a file is to be written into.

    Raises
    ------
    InputError
        If it cannot be made or written to.
    """
    way = in_the_way(path.parent)
    if way is not None:
        what = f"no permission to write into {way}" if way.is_dir() else f"{way} is no folder"
        raise InputError(f"cannot write {path}: {what}. Name another file.")
    path.parent.mkdir(parents=True, exist_ok=True)


def in_the_way(folder: Path) -> Path | None:
    """Return what keeps a folder from being made or written to: the nearest path there is; None if nothing does."""
    nearest = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    return None if nearest.is_dir() and os.access(nearest, os.W_OK) else nearest


def write_flushed(path: Path, data: bytes, name: str | None = None) -> None:
    """Write a file and flush it to the disk; ``name`` is what it will be called."""
    view, half = memoryview(data), len(data) // 2
    with path.open("wb") as handle:
        handle.write(view[:half])
        fault(f"half-written/{name or path.name}")
        handle.write(view[half:])
        handle.flush()
        os.fsync(handle.fileno())


def flush_file(path: Path) -> None:
    """Flush a file that somebody else wrote to the disk."""
    with path.open("rb+") as handle:
        os.fsync(handle.fileno())


def flush_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: temporary file beside it, flush, replace, flush of the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write_flushed(temporary, data, path.name)
        temporary.replace(path)
        flush_folder(path.parent)
    except OSError as error:
        raise disk_error(error, path) from error
    finally:
        temporary.unlink(missing_ok=True)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV text with plain line ends."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
