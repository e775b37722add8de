"""Where files are: bundled tasks, data sets and cards, user folders, the mirror, the cache, and the net.

Only the standard library is imported here: every verb, ``zoo --help`` included, passes through this module.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import logging
import math
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from zoo.errors import DownloadError, InputError, ZooError

if sys.platform != "win32":
    import fcntl

FOLDERS = ("datasets", "tasks", "cards")
_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 30.0
_log = logging.getLogger("zoo")


class DeclaredFile(Protocol):
    """What :func:`locate` needs to know of a file; :class:`zoo.specs.dataset.FileSpec` is one."""

    @property
    def name(self) -> str:
        """File name, without a folder."""

    @property
    def url(self) -> str | None:
        """Where it can be fetched, or None."""

    @property
    def sha256(self) -> str:
        """Checksum of the file as it is downloaded."""

    @property
    def bytes(self) -> int:
        """Size of the file as it is downloaded."""


def bundled_root() -> Path:
    """Return the folder that holds the zoo's own ``datasets/``, ``tasks/`` and ``cards/``.

    An installed package carries them inside; a checkout has them beside the package, and is recognised by its
    ``pyproject.toml`` (a bare ``datasets`` folder in ``site-packages`` is somebody else's).
    """
    package = Path(__file__).resolve().parent
    inside = package / "_bundled"
    if inside.is_dir():
        return inside
    if (package.parent / "pyproject.toml").is_file():
        return package.parent
    raise ZooError(f"the bundled tasks and data sets are missing from {package}. Install scizoo again.")


def roots(includes: Iterable[Path | str] = ()) -> list[Path]:
    """Return every folder to search: the bundled one, then those of ``ZOO_INCLUDE``, then ``includes``."""
    named = [Path(p) for p in os.environ.get("ZOO_INCLUDE", "").split(os.pathsep) if p]
    found = {bundled_root().resolve(): None}
    for folder in [*named, *map(Path, includes)]:
        if not folder.is_dir():
            raise InputError(f"--include {folder}: there is no such folder.")
        if not any((folder / inner).is_dir() for inner in FOLDERS):
            raise InputError(f"--include {folder}: it holds none of the folders {', '.join(FOLDERS)}.")
        found[folder.resolve()] = None
    return list(found)


def cache_dir() -> Path:
    """Return the cache: ``ZOO_CACHE``, or ``~/.cache/scizoo``. It may not exist yet."""
    named = os.environ.get("ZOO_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "scizoo"


def mirror_dir(mirror: Path | str | None = None) -> Path | None:
    """Return the mirror given, else that of ``ZOO_MIRROR``, else None."""
    named = mirror or os.environ.get("ZOO_MIRROR")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise InputError(f"the mirror {folder} is not a folder (given by --mirror or ZOO_MIRROR).")
    return folder


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def locate(file: DeclaredFile, folder: Path, mirror: Path | str | None = None) -> Path:
    """Return the path of a declared file whose checksum has been verified.

    Looked for in ``folder`` (the data set's own), in the mirror by file name, in the cache, and at the url. What is
    fetched is stored in the cache.

    Raises
    ------
    InputError
        The bundled or the mirrored file is not the one declared: both checksums are named.
    DownloadError
        The file is nowhere, or could not be fetched: every place looked at is named.
    """
    if Path(file.name).name != file.name or file.name in (".", ".."):
        raise InputError(f"file name {file.name!r}: a data set names its files without a folder.")
    own = folder / file.name
    if own.is_file():
        _check(file, own, f"restore the file, or correct sha256 and bytes in {folder / 'dataset.yaml'}")
        return own
    looked = [f"bundled: {own} (absent)"]
    mirrored = mirror_dir(mirror)
    if mirrored is None:
        looked.append("mirror: none given (--mirror DIR or ZOO_MIRROR)")
    elif (mirrored / file.name).is_file():
        _check(file, mirrored / file.name, "put the declared file into the mirror, or remove this one")
        return mirrored / file.name
    else:
        looked.append(f"mirror: {mirrored / file.name} (absent)")
    return _cached_or_fetched(file, looked)


@dataclass(frozen=True)
class _Published:
    """A file that its publisher gives no checksum of."""

    name: str
    url: str
    sha256: str = ""
    bytes: int = 0


def locate_published(url: str, mirror: Path | str | None = None) -> tuple[Path, str]:
    """Return a file that is published without a checksum, and the checksum it has here.

    Looked for by its name in the mirror and the cache, and at the url. What is fetched is stored in the cache beside
    its checksum; if the two no longer agree, it is fetched again.

    Raises
    ------
    DownloadError
        The file is nowhere, or could not be fetched: every place looked at is named.
    """
    file = _Published(url.rsplit("/", 1)[-1], url)
    mirrored = mirror_dir(mirror)
    looked = ["mirror: none given (--mirror DIR or ZOO_MIRROR)"]
    if mirrored is not None:
        if (mirrored / file.name).is_file():
            return mirrored / file.name, sha256_of(mirrored / file.name)
        looked = [f"mirror: {mirrored / file.name} (absent)"]
    cached = _cached_or_fetched(file, looked)
    return cached, _record(cached).read_text()


def _record(path: Path) -> Path:
    """Return where the checksum of a file without a declared one is kept."""
    return path.with_name(path.name + ".sha256")


def _check(file: DeclaredFile, path: Path, remedy: str) -> None:
    given = sha256_of(path)
    if given != file.sha256:
        raise InputError(
            f"{path} is not the file that the data set declares.\n"
            f"  declared sha256 {file.sha256} ({file.bytes} bytes)\n"
            f"  found    sha256 {given} ({path.stat().st_size} bytes)\n"
            f"Remedy: {remedy}."
        )


def _cached_or_fetched(file: DeclaredFile, looked: list[str]) -> Path:
    # The checksum is part of the path, so that two versions of one name never meet.
    cached = cache_dir() / "files" / (file.sha256[:16] or "published") / file.name
    if _is_intact(file, cached):
        return cached
    looked.append(f"cache: {cached} ({'damaged' if cached.exists() else 'absent'})")
    if not file.url:
        raise _nowhere(file, [*looked, "url: none declared"], f"put {file.name} into a folder and give it as --mirror")
    if os.environ.get("ZOO_OFFLINE", "") not in ("", "0"):
        raise _nowhere(
            file,
            [*looked, f"url: {file.url} (forbidden by ZOO_OFFLINE)"],
            f"unset ZOO_OFFLINE, or put {file.name} into a folder and give it as --mirror",
        )
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with locked(cached.with_name(cached.name + ".lock")):
            if not _is_intact(file, cached):  # another process may have fetched it while we waited
                _fetch(file, cached)
    except (OSError, http.client.HTTPException) as error:
        # urllib's errors are OSErrors; so are a full disk and a cache that may not be written.
        reason = f"{error.code} {error.reason}" if isinstance(error, urllib.error.HTTPError) else str(error)
        remedy = f"try again, or put {file.name} into a folder and give it as --mirror"
        raise _nowhere(file, [*looked, f"url: {file.url} ({reason})"], remedy) from error
    return cached


def _is_intact(file: DeclaredFile, path: Path) -> bool:
    if not file.sha256:
        return path.is_file() and _record(path).is_file() and sha256_of(path) == _record(path).read_text()
    return path.is_file() and path.stat().st_size == file.bytes and sha256_of(path) == file.sha256


def _nowhere(file: DeclaredFile, looked: list[str], remedy: str) -> DownloadError:
    places = "".join(f"\n  {place}" for place in looked)
    return DownloadError(f"the file {file.name} was not found. Looked at:{places}\nRemedy: {remedy}.")


@contextlib.contextmanager
def locked(path: Path, *, seconds: float = math.inf) -> Iterator[None]:
    """Hold an exclusive lock on a file; the system frees it when the process dies, so a stale file blocks nobody.

    Where the system has no such locks (Windows, some network file systems) nothing is held.

    Raises
    ------
    TimeoutError
        If another process holds it for longer than this.
    """
    end = time.monotonic() + seconds
    with path.open("a") as handle:
        while sys.platform != "win32":
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= end:
                    raise TimeoutError(f"{path} is locked by another process") from error
                time.sleep(0.05)
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                    raise
                break
        yield


def _fetch(file: DeclaredFile, target: Path) -> None:
    url = str(file.url)
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise OSError("only http and https are allowed")
    _log.info("downloading %s%s from %s", file.name, f" ({file.bytes / 1e6:.1f} MB)" if file.bytes else "", url)
    # One name for all: the lock is held, and what a killed process left is overwritten.
    partial = target.with_name(f".{file.name}.part")
    try:
        with partial.open("wb") as out:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as reply:  # noqa: S310 - scheme checked above
                length = file.bytes or int(reply.headers.get("Content-Length") or 0)
                size, digest = _copy(reply, out, limit=length or sys.maxsize)
            out.flush()
            os.fsync(out.fileno())
        if size < length:
            raise OSError(f"truncated: got {size} of {length} bytes")
        if file.bytes and size > file.bytes:
            raise OSError(f"longer than the declared {file.bytes} bytes")
        if file.sha256 and digest != file.sha256:
            raise OSError(f"wrong content: declared sha256 {file.sha256}, got {digest}")
        if not file.sha256:
            _record(target).write_text(digest)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _copy(source: IO[bytes], out: IO[bytes], *, limit: int) -> tuple[int, str]:
    """Copy and hash at most one byte over ``limit``: enough to know that a reply is too long."""
    digest, size = hashlib.sha256(), 0
    while size <= limit and (chunk := source.read(min(_CHUNK, limit + 1 - size))):
        digest.update(chunk)
        out.write(chunk)
        size += len(chunk)
    return size, digest.hexdigest()
