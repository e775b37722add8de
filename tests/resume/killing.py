"""Runs in processes of their own, and what must be equal when one that was killed has been resumed."""

import json
import multiprocessing
import os
import resource
import socket
import sys
import time
from pathlib import Path

import torch

from zoo.core.callbacks import TIMING
from zoo.core.resume import NAME, read_checkpoint

CLOCK = (*TIMING, "elapsed", "baseline_seconds")
"""What is read off a clock, in a checkpoint and in ``result.json``."""

_STATES = {
    "raw weights": ("network",),
    "averaged weights": ("averaged", "averaged_weights"),
    "best weights": ("best",),
    "optimiser": ("optimizer", "scheduler", "scaler"),
}
"""Parts of ``last.ckpt`` that are compared by name; the rest of it is compared as one."""


def same(a, b):
    """Whether two states are equal to the bit, apart from the clock."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a if k not in CLOCK)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def compare(truth, folder):
    """Return, for everything that two runs leave behind, whether it is equal."""
    want, got = (read_checkpoint(f / NAME) for f in (truth, folder))
    named = {key for keys in _STATES.values() for key in keys} | set(CLOCK)
    states = {**_STATES, "rest of the state": tuple(sorted((want.keys() | got.keys()) - named))}
    equal = {what: all(same(want.get(k), got.get(k)) for k in keys) for what, keys in states.items()}
    names = [files_of(f) for f in (truth, folder)]
    equal["names of files"] = names[0] == names[1]
    for name in names[0]:
        if name in (NAME, "timing.csv"):
            continue
        a, b = truth / name, folder / name
        if name == "result.json":
            equal[name] = b.exists() and same(*(json.loads(f.read_text()) for f in (a, b)))
        else:
            equal[name] = b.exists() and a.read_bytes() == b.read_bytes()
    return equal


def different(truth, folder):
    """Return the names of what is not equal."""
    return [name for name, equal in compare(truth, folder).items() if not equal]


def files_of(folder):
    """Return the names of all files of a run but its locks, of which one more is held by a launcher's processes."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock")


def step_of(folder):
    """Return the step at which a run's checkpoint stands, or None without one."""
    path = folder / NAME
    return read_checkpoint(path)["step"] if path.exists() else None


def processes(**environment):
    """Return the pids of all living processes that were started with these variables (Linux), by whomever."""
    wanted = {f"{name}={value}".encode() for name, value in environment.items()}
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted <= set(path.read_bytes().split(b"\0")) and status(path.parent.name)["State"][0] != "Z":
                found.append(int(path.parent.name))
        except OSError:  # not ours, or gone by now
            continue
    return found


def status(pid):
    """Return what Linux says of a process: its state, the signals that wait for it, and more."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def wait_for(happened, seconds=120.0):
    """Wait until something has happened; return what it returned."""
    end = time.monotonic() + seconds
    while not (found := happened()):
        if time.monotonic() > end:
            raise TimeoutError(f"it has not happened in {seconds} s")
        time.sleep(0.02)
    return found


class Forked:
    """``zoo`` in a process of its own, forked from one that has imported everything: it starts at once.

    Parameters
    ----------
    words
        The command line.
    log
        File for what it says.
    env
        Added to its environment.
    largest_file
        Bytes beyond which a write fails, as on a full disk.
    """

    def __init__(self, words, log, env=None, largest_file=None):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["killing", "zoo.workflows.train", "zoo.molecules.domain", "zoo.proteins.esm2"])
        self.log = log
        self.process = context.Process(target=_run, args=(list(map(str, words)), str(log), env or {}, largest_file))
        self.process.start()
        self.pid = self.process.pid

    def end(self, timeout=120):
        """Wait; return the exit code (negative for a signal) and what it said."""
        self.process.join(timeout)
        code = self.process.exitcode
        if code is None:
            self.process.kill()
            raise TimeoutError(f"not through after {timeout} s:\n{self.log.read_text()}")
        return code, self.log.read_text()


def _run(words, log, env, largest_file):
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.environ.update(env)
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    from zoo.cli import main  # noqa: PLC0415

    sys.exit(main(words))


def forked_ranks(words, log, world, env=None):
    """Start ``world`` processes of one job, as torchrun would."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    job = {"TORCHELASTIC_RUN_ID": "test", "WORLD_SIZE": str(world)}
    job |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    return [
        Forked(words, Path(f"{log}-{r}"), {**(env or {}), **job, "RANK": str(r), "LOCAL_RANK": str(r)})
        for r in range(world)
    ]
