"""A run that is warned saves and goes on; one that is told to stop saves and says how to go on, to the same bits.

Runs on one process and on two, with a launcher and the processes that it starts. A process stands still at the steps
named here, so that a signal finds it there and not later.
"""

import os
import shlex
import signal
import sys
import uuid

import pytest
from killing import different, processes, status, step_of, wait_for

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
RARELY = ("--set", "save_every_steps=null")
ENDLESS = ("--epochs", "10000", *RARELY)


@pytest.fixture
def mark():
    """A variable by which the processes of a job are found; none of them may outlive the test."""
    value = uuid.uuid4().hex
    yield {"ZOO_TEST_MARK": value}
    left = processes(ZOO_TEST_MARK=value)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def stands_still(pid):
    return status(pid)["State"].startswith("T")


def signalled(pid, number):
    """Whether a signal waits for a process that stands still."""
    return int(status(pid)["ShdPnd"], 16) >> (number - 1) & 1


def send(job, first, number):
    """Send a signal to a run whose first process stands still, and let it go on when the signal has come through."""
    os.kill(job.pid, number)
    wait_for(lambda: signalled(first, number))
    os.kill(first, signal.SIGCONT)


def first_process(job, world, mark):
    """Wait until the first process of a run stands still; return its pid."""
    find = (lambda: processes(**mark, RANK="0")) if world > 1 else (lambda: [job.pid])
    return wait_for(lambda: [pid for pid in find() if stands_still(pid)])[0]


@pytest.mark.parametrize(
    ("world", "name"),
    [(1, "SIGTERM"), (1, "SIGINT"), (2, "SIGTERM"), pytest.param(2, "SIGINT", marks=pytest.mark.slow)],
)
def test_a_warning_saves_and_a_stop_names_the_command_that_goes_on(runs, tmp_path, mark, world, name):
    folder, settings = tmp_path / "r", (*RARELY, "--devices", str(world))
    env = {**mark, "ZOO_FAULT_RANK": "0"}
    job = runs.start(runs.words(folder, *settings), fault="before-step:6,before-step:9", signal="SIGSTOP", env=env)
    first = first_process(job, world, mark)
    assert step_of(folder) is None
    send(job, first, signal.SIGUSR1)
    wait_for(lambda: step_of(folder) == 6)
    wait_for(lambda: stands_still(first))
    assert step_of(folder) == 6
    send(job, first, getattr(signal, name))
    code, said = job.end(60)
    message = said.splitlines()[-1]
    assert code == 130, said
    assert f"stopped by {name}" in message
    assert processes(**mark) == []
    assert step_of(folder) == 9
    assert not (folder / "bundle").exists()
    _, _, command = message.partition("Go on with: zoo ")
    runs.go_together(shlex.split(command), world)
    runs.go_together(runs.words(tmp_path / "truth", *settings), world)
    assert different(tmp_path / "truth", folder) == []


def stopped_at(runs, words, place, number, mark):
    """Send a signal to a run of one process that stands still at a place; return what it said last."""
    job = runs.start(words, fault=place, signal="SIGSTOP", env=mark)
    send(job, first_process(job, 1, mark), number)
    code, said = job.end(60)
    assert code == 130, said
    return said.splitlines()[-1]


def test_ctrl_c_in_the_last_validation_is_heard(runs, truth, tmp_path, mark):
    said = stopped_at(runs, runs.words(tmp_path / "r"), "lap-end:6", signal.SIGINT, mark)
    assert said == f"zoo: stopped by SIGINT, saved up to step 15. Go on with: zoo train --resume --out {tmp_path / 'r'}"
    assert not (tmp_path / "r" / "predictions.csv").exists()
    runs.go(["train", "--resume", "--out", tmp_path / "r"])
    assert different(truth, tmp_path / "r") == []


def test_a_stop_after_the_fit_says_how_to_go_on(runs, truth, tmp_path, mark):
    for name in ("SIGTERM", "SIGINT"):
        folder = tmp_path / name
        said = stopped_at(runs, runs.words(folder), "finalise:1", getattr(signal, name), mark)
        by = "Ctrl-C" if name == "SIGINT" else name
        assert said == f"zoo: stopped by {by}, saved up to step 15. Go on with: zoo train --resume --out {folder}"
        runs.go(["train", "--resume", "--out", folder])
        assert different(truth, folder) == []


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_stop_while_the_processes_start_claims_nothing(runs, tmp_path, mark, name):
    words = runs.words(tmp_path / "r", "--devices", "2")
    job = runs.start(words, fault="process-started:1", signal="SIGSTOP", env={**mark, "ZOO_FAULT_RANK": "0"})
    first = first_process(job, 2, mark)
    os.kill(job.pid, getattr(signal, name))
    wait_for(lambda: signalled(first, getattr(signal, name)))
    os.kill(first, signal.SIGCONT)
    code, said = job.end(60)
    assert code == 130, said
    again = f"zoo train --resume --out {tmp_path / 'r'}"
    assert said.splitlines()[-1] == f"zoo: stopped by {name}, before anything was saved. Go on with: {again}"
    assert "Traceback" not in said
    assert processes(**mark) == []


@pytest.mark.slow
def test_a_killed_process_ends_the_job_and_is_named(runs, tmp_path, mark):
    words = runs.words(tmp_path / "r", *ENDLESS, "--devices", "2")
    job = runs.start(words, fault="before-step:9", env={**mark, "ZOO_FAULT_RANK": "1"})
    code, said = job.end(60)
    assert code == 1
    assert said.splitlines()[-1].startswith("zoo: process 1 of the job ended without a word (signal 9)"), said
    assert processes(**mark) == []


@pytest.mark.slow
def test_the_processes_end_when_their_launcher_is_killed(runs, tmp_path, mark):
    job = runs.start(runs.words(tmp_path / "r", *ENDLESS, "--devices", "2"), env=mark)
    wait_for((tmp_path / "r" / "metrics.csv").exists)
    assert len(processes(**mark)) == 2
    os.kill(job.pid, signal.SIGKILL)
    wait_for(lambda: not processes(**mark))
