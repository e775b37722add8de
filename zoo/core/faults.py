"""Places at which a test can kill the process, as a power cut would: ``ZOO_FAULT=place:n`` ends it at the n-th pass.

``ZOO_FAULT_SIGNAL=SIGSTOP`` sends this process another signal than SIGKILL (then several faults, with commas between
them, make sense), and ``ZOO_FAULT_RANK=1`` means that process of a job alone.
"""

from __future__ import annotations

import os
import signal

_seen: dict[str, int] = {}


def fault(place: str) -> None:
    """Send this process the signal if the environment asks for it at this place; otherwise do nothing."""
    wanted = os.environ.get("ZOO_FAULT")
    if wanted is None:
        return
    here = os.environ.get("RANK", "0")
    faults = [one.partition(":") for one in wanted.split(",")]
    passes = {int(count or 1) for name, _, count in faults if name == place}
    if passes and os.environ.get("ZOO_FAULT_RANK", here) == here:
        _seen[place] = _seen.get(place, 0) + 1
        if _seen[place] in passes:
            os.kill(os.getpid(), getattr(signal, os.environ.get("ZOO_FAULT_SIGNAL", "SIGKILL")))
