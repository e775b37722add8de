"""What one process of a job runs; see :func:`zoo.core.launch.run_on_ranks`.

Before anything slow is imported it leaves Ctrl-C to the system, as SIGTERM is: a process that is told to end while it
starts, or waits for the others in a collective, leaves at once and without a word, for nothing is to be saved yet. A
fit, while it runs, listens to both.
"""

import os
import signal
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    from zoo.core.launch import main

    # Leave at once: a process whose peers have gone must not wait for them when it is taken down.
    code = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
