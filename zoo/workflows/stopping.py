"""A run that is told to stop: SIGTERM unwinds it as Ctrl-C does, and it says how to go on."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from zoo.core.launch import SignalledError
from zoo.core.resume import NAME, read_checkpoint
from zoo.errors import StoppedError


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Raise SignalledError at SIGTERM, wherever the run is; a fit, while it runs, listens to signals itself."""

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise SignalledError(signal.Signals(number).name)

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread: a notebook's or a server's business
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stopped_run(folder: Path, by: str) -> StoppedError:
    """Return the error that says what of a stopped run is saved, and the command that goes on."""
    path = folder / NAME
    saved = f"saved up to step {read_checkpoint(path)['step']}" if path.exists() else "before anything was saved"
    return StoppedError(f"stopped by {by}, {saved}. Go on with: zoo train --resume --out {folder}")
