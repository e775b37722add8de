"""How ``speed_sides.py`` talks to workers: a command a line, a line of JSON in answer (standard library only)."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

LEVELS = ("sequence", "residue")  # what esm2_speed.py embeds


def obey(actions: dict[str, Callable[[], int]], packages: Sequence[str], **facts: Any) -> None:
    """Say what is running, then answer commands until ``quit``.

    An action returns the number of items it went through; the answer adds the seconds it took.
    """
    answer, sys.stdout = sys.stdout, sys.stderr  # nothing else may write between the answers
    facts |= {"python": platform.python_version(), "packages": {name: version(name) for name in packages}}
    print(json.dumps(facts), file=answer, flush=True)
    for line in iter(sys.stdin.readline, ""):
        command = line.strip()
        if command == "quit":
            break
        started = time.perf_counter()
        items = actions[command]()
        result = {"seconds": time.perf_counter() - started, "items": items}
        print(json.dumps(result), file=answer, flush=True)
