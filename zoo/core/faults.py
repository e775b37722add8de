"""Places at which a test can kill the process, as a power cut would: ``ZOO_FAULT=place:n`` ends it at the n-th pass."""

from __future__ import annotations

import os
import signal

_seen: dict[str, int] = {}


def fault(place: str) -> None:
    """Kill this process with SIGKILL if the environment asks for it at this place; otherwise do nothing."""
    wanted = os.environ.get("ZOO_FAULT")
    if wanted is None:
        return
    name, _, count = wanted.partition(":")
    if name == place:
        _seen[place] = _seen.get(place, 0) + 1
        if _seen[place] == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)
