"""What one process of a job runs; see :func:`zoo.core.launch.run_on_ranks`.

It listens to signals before anything slow is imported: one that was told to end while it starts leaves at once and
without a word, for nothing is to be saved yet. A fit, while it runs, listens to them itself.
"""

import os
import signal
import sys
from types import FrameType


def _leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    os._exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, _leave)
    signal.signal(signal.SIGTERM, _leave)
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    from zoo.core.launch import main

    # Leave at once: a process whose peers have gone must not wait for them when it is taken down.
    code = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
