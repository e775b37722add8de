"""Processes of one job: a function, by name, run in as many processes as asked for, through torch's elastic launcher.

Each process imports the function anew, joins the process group and calls it. A process that fails ends the others, and
its own message reaches the caller.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import distributed
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from zoo.core.files import write_atomic
from zoo.errors import InputError, StoppedError, ZooError

_PATIENCE = timedelta(minutes=30)
"""How long a process waits for the others in a collective before it gives up."""

_GRACE_SECONDS = 600
"""How long the processes of a job that is told to end may take to finish a step or a validation, and to save."""


class WorkerError(ZooError):
    """A process of the job failed; the message is its own."""


class SignalledError(StoppedError):
    """A signal told the process, or the job that it started, to end; a fit saves first."""

    def __init__(self, name: str) -> None:
        super().__init__(f"stopped by {name}")
        self.name = name


def run_on_ranks(function: str, payload: Mapping[str, Any], *, world: int, threads: int = 1) -> None:
    """Call ``function(payload)`` in ``world`` processes on this machine, inside one process group.

    SIGUSR1 is passed on to the processes.

    Parameters
    ----------
    function
        ``module:name`` or ``path/to/file.py:name``.
    payload
        What JSON can hold. The function writes its results to files that the payload names.
    world
        How many processes.
    threads
        Threads of each process.

    Raises
    ------
    WorkerError
        With the message of the first process that failed.
    SignalledError
        If this process was told to end; the others were told to save and leave, and have.
    """
    _quiet()
    with tempfile.TemporaryDirectory(prefix="zoo-job-") as folder, _environment(threads):
        path = Path(folder) / "job.json"
        path.write_text(json.dumps({"function": function, "payload": dict(payload), "path": sys.path}))
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=world,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="localhost",
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        try:
            with _warning_passed_on(Path(folder)):
                elastic_launch(config, sys.executable)("-m", "zoo.core.rank_process", str(path))
        except ChildFailedError as error:
            raise WorkerError(_message(error, Path(folder))) from error
        except SignalException as error:
            raise SignalledError(error.sigval.name) from error


def _quiet() -> None:
    """Keep the launcher's own notices out of the output; each of its loggers has a level of its own."""
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch.distributed.elastic"):
            logging.getLogger(name).setLevel(logging.CRITICAL)


@contextlib.contextmanager
def _environment(threads: int) -> Iterator[None]:
    """Set what the processes inherit, and put it back."""
    wanted = {
        "OMP_NUM_THREADS": str(threads),
        "TORCHELASTIC_LOG_LEVEL": "CRITICAL",
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(_GRACE_SECONDS),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _warning_passed_on(folder: Path) -> Iterator[None]:
    """Pass SIGUSR1, a cluster's warning, on to the processes of the job."""

    def pass_on(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        for path in folder.glob("pid-*"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.name.removeprefix("pid-")), number)

    number = getattr(signal, "SIGUSR1", None)
    try:
        before = None if number is None else signal.signal(number, pass_on)
    except ValueError:  # not the main thread
        number = None
    try:
        yield
    finally:
        if number is not None:
            signal.signal(number, before)


def _message(error: ChildFailedError, folder: Path) -> str:
    """Return what the first process that failed had to say; the others fail because it has gone."""
    said = [json.loads(path.read_text()) for path in folder.glob("error-*.json")]
    silent = set(error.failures) - {report["rank"] for report in said}
    killed = [rank for rank in silent if error.failures[rank].exitcode == -9]  # SIGKILL
    if said and not killed:
        first = min(said, key=lambda report: report["time"])
        return f"process {first['rank']} of the job failed: {first['message']}"
    rank = killed[0] if killed else error.get_first_failure()[0]
    failure = error.failures[rank]
    how = f"signal {-failure.exitcode}" if failure.exitcode < 0 else f"exit code {failure.exitcode}"
    return f"process {rank} of the job ended without a word ({how}); the system may have run out of memory"


def load_function(name: str) -> Callable[[dict[str, Any]], Any]:
    """Return the function of ``module:name`` or ``path/to/file.py:name``."""
    where, _, attribute = name.rpartition(":")
    if where.endswith(".py"):
        module_name = f"_zoo_job_{Path(where).stem}"
        spec = importlib.util.spec_from_file_location(module_name, where)
        if spec is None or spec.loader is None:
            raise InputError(f"{where} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        sys.path.insert(0, str(Path(where).parent))
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part)
    function: Callable[[dict[str, Any]], Any] = found
    return function


@contextlib.contextmanager
def process_group(*, gpu: bool) -> Iterator[None]:
    """Join the process group that the environment (torchrun's variables) describes, and leave it at the end."""
    if gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", timeout=_PATIENCE)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def main(path: str) -> int:
    """Be one process of a job; return its exit code."""
    job = json.loads(Path(path).read_text())
    (Path(path).parent / f"pid-{os.getpid()}").touch()
    _end_with_launcher()
    sys.path[:] = list(dict.fromkeys([*job["path"], *sys.path]))
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    try:
        with process_group(gpu=job["payload"].get("gpu", False)):
            try:
                load_function(job["function"])(job["payload"])
            except BaseException as error:
                _report(error, Path(path).parent)  # before the others see that this process has gone
                raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, the launcher is to hear of it
        if not (Path(path).parent / f"error-{os.environ.get('RANK', '0')}.json").exists():
            _report(error, Path(path).parent)
        return 1
    return 0


def _end_with_launcher() -> None:
    """End this process soon after the launcher was killed: it would go on writing beside a resumed run."""
    launcher = os.getppid()

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _report(error: BaseException, folder: Path) -> None:
    """Leave the message where the launcher of this machine, and that of any other, looks for it."""
    text = str(error) if isinstance(error, ZooError) else f"{type(error).__name__}: {' '.join(str(error).split())}"
    report = {"rank": int(os.environ.get("RANK", "0")), "time": time.time_ns(), "message": text}
    # Whole or not at all: the launcher ends this process, perhaps while it writes, and then reads what is there.
    write_atomic(folder / f"error-{report['rank']}.json", json.dumps(report).encode())
    target = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if target:
        extra = {"timestamp": str(int(time.time())), "py_callstack": traceback.format_exc()}
        message = {"message": {"message": text, "errorCode": 1, "extraInfo": extra}}
        write_atomic(Path(target), json.dumps(message).encode())
    if os.environ.get("ZOO_DEBUG"):
        traceback.print_exc()
