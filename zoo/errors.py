"""The errors a user can meet, and the "did you mean" that goes with a wrong name.

Every error says what was given (file, row, column), what is allowed, and what to type next. The command line
prints the message alone and exits with :attr:`ZooError.exit_code`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ZooError(Exception):
    """The work failed (exit code 1)."""

    exit_code = 1


class InputError(ZooError):
    """What the user gave is wrong (exit code 2)."""

    exit_code = 2


class SpecError(InputError):
    """A YAML file or a setting does not say what its schema asks for."""


class DataError(InputError):
    """A data file, a column or a row cannot be used."""


class BundleError(InputError):
    """A model folder is damaged, incomplete, or of another make than it claims."""


class DownloadError(ZooError):
    """A declared file is neither bundled, mirrored nor cached, and could not be fetched."""


class DivergenceError(ZooError):
    """The training loss became non-finite or exploded."""


class NetworkError(ZooError, ValueError):
    """A network does not give what the core asks of every network."""


class StoppedError(ZooError):
    """The work was told to stop, and can be resumed (exit code 130, as after Ctrl-C)."""

    exit_code = 130


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest allowed name, or an empty string."""
    names = list(allowed)
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(given.casefold(), list(folded), n=1, cutoff=0.6)
    return f" Did you mean {folded[close[0]]!r}?" if close else ""


def unknown_name(what: str, given: str, allowed: Iterable[str]) -> InputError:
    """Return the error for a name that is not in a table: it lists what is allowed."""
    names = sorted(allowed)
    return InputError(f"unknown {what} {given!r}.{did_you_mean(given, names)} Known: {', '.join(names) or 'none'}.")
