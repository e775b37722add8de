"""Kill a run at 30 moments, resume each, and compare everything it leaves with the run that was never stopped.

    python benchmarks/kill.py                  25 moments of one process, 5 of two: about half an hour
    python benchmarks/kill.py --only launcher  those with a word in their name; printed, not written

15 moments are uniform in time, the start of the program included; the others are forced at a place in the code
(``zoo/core/faults.py``). The clock is the run's own, its seconds of computing: they are those on the wall of a machine
that does nothing else, and on any other machine the moments stay where they are. Every kill is SIGKILL. Linux only. The
outcome goes to ``benchmarks/results/kill.json``; the exit code is 1 if a bit differs or a process of a killed job keeps
running.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "resume"))
from killing import compare, processes, step_of

RESULTS = Path(__file__).parent / "results" / "kill.json"
LONGEST = 60.0
"""Seconds in which all processes of a job must have ended after one was killed."""

LONGEST_RUN = 600.0
ATTEMPTS = 5
"""How often a kill in time is tried where the run was through before it."""

# Every kind of state there is: averages, patience, dropout, accumulation, validations within an epoch.
TRAIN = [
    "train", "freesolv", "--epochs", "16", "--no-baseline", "--device", "cpu", "--threads", "1",
    "--set", "model.hparams.width=16", "--set", "model.hparams.head_width=16", "--set", "train.patience=40",
    "--set", "model.hparams.head_dropout=0.2", "--set", "train.ema=0.9", "--set", "train.microbatches=2",
    "--set", "train.validations=2", "--set", "save_every_steps=3",
]  # fmt: skip
CONFIGURATIONS = {
    "whole": [],
    "early": ["--set", "train.lr=0.05", "--set", "train.patience=2"],
    "two": ["--devices", "2"],
}


@dataclass(frozen=True)
class Kill:
    """One kill: at a place in the code (of a job in the process ``rank``), or at a share of the run's time.

    ``whom``, at a share of the time: all processes of the run, or the one that was started alone.
    """

    place: str | None = None
    rank: int | None = None
    share: float = 0.0
    whom: str = "all"

    def __str__(self) -> str:
        """Return it in words."""
        if self.place is None:
            return f"{self.whom} at {self.share:.3f} of the run's time"
        return self.place if self.rank is None else f"{self.place} in process {self.rank}"


@dataclass(frozen=True)
class Moment:
    """A run that is killed, once, or again while it is resumed."""

    name: str
    kills: tuple[Kill, ...]
    configuration: str = "whole"


def at(*places: str) -> tuple[Kill, ...]:
    return tuple(Kill(place) for place in places)


def moments(seed: int) -> list[Moment]:
    """Return all 30; those in time are one in each fifteenth of it."""
    shares = (np.arange(15) + np.random.default_rng(seed).random(15)) / 15
    timed = [Moment(f"uniform in time, {i + 1} of 15", (Kill(share=float(s)),)) for i, s in enumerate(shares)]
    forced = [
        Moment("before a step", at("before-step:32")),
        Moment("after the step, before averaging", at("before-averaging:41")),
        Moment("half-written temporary file", at("half-written/last.ckpt:12")),
        Moment("between replace and metrics append", at("checkpoint-written:18")),
        Moment("in validation", at("validation:7")),
        Moment("between epochs", at("lap-end:6")),
        Moment("after early stopping", at("early-stopped:1"), "early"),
        Moment("in finalise", at("finalise:1"), "early"),
        Moment("while the bundle is written", at("written/model.safetensors:1")),
        Moment("during a second resume", at("before-step:20", "before-averaging:14", "half-written/config.json:1")),
    ]
    together = [
        Moment("two ranks: all processes", (Kill(share=0.7),), "two"),
        Moment("two ranks: one before a step", (Kill("before-step:32", 1),), "two"),
        Moment("two ranks: half-written temporary file", (Kill("half-written/last.ckpt:12", 0),), "two"),
        Moment("two ranks: the launcher alone", (Kill(share=0.75, whom="the launcher"),), "two"),
        Moment("two ranks: in validation, then in finalise", (Kill("validation:7", 1), Kill("finalise:1")), "two"),
    ]
    return [*timed, *forced, *together]


class OutranError(Exception):
    """A run was through before it was killed."""


class Runner:
    """Starts runs in a folder, and remembers the one never stopped of each configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.truths: dict[str, tuple[Path, float]] = {}

    def start(
        self, configuration: str, out: Path, kill: Kill | None = None, *, resume: bool = False
    ) -> tuple[subprocess.Popen[str], dict[str, str]]:
        """Start a run; return its process, and the variable that marks it and all that it starts."""
        mark = {"ZOO_KILL_MARK": uuid.uuid4().hex}
        env = {**os.environ, "OMP_NUM_THREADS": "1", "ZOO_CACHE": str(self.folder / "cache"), **mark}
        if kill is not None and kill.place is not None:
            env |= {"ZOO_FAULT": kill.place} | ({} if kill.rank is None else {"ZOO_FAULT_RANK": str(kill.rank)})
        words = [*TRAIN, *CONFIGURATIONS[configuration], "--out", str(out), *["--resume"] * resume]
        with self.said.open("w") as said:
            command = [sys.executable, "-m", "zoo", *words]
            return subprocess.Popen(command, env=env, stdout=said, stderr=said, text=True), mark

    @property
    def said(self) -> Path:
        """What the last run said."""
        return self.folder / "said"

    def finish(self, configuration: str, out: Path, *, resume: bool = False) -> float:
        """Run to the end; return the seconds of computing that it took."""
        before = os.times()
        process, _ = self.start(configuration, out, resume=resume)
        if process.wait(LONGEST_RUN) != 0:
            raise SystemExit(self.said.read_text())
        after = os.times()
        return after.children_user - before.children_user + after.children_system - before.children_system

    def truth(self, configuration: str) -> tuple[Path, float]:
        """Return the run never stopped, and its seconds."""
        if not self.truths:
            self.finish(configuration, self.folder / "first")  # fills the cache of features
            shutil.rmtree(self.folder / "first")
        if configuration not in self.truths:
            out = self.folder / f"truth-{configuration}"
            self.truths[configuration] = out, self.finish(configuration, out)
        return self.truths[configuration]

    def kill(self, moment: Moment, kill: Kill, out: Path, *, resume: bool) -> dict[str, Any]:
        """Start or resume a run, kill it, and wait until nothing of it is left; return what happened."""
        started = time.monotonic()
        process, mark = self.start(moment.configuration, out, kill, resume=resume)
        if kill.place is None:
            self.kill_in_time(process, mark, kill, moment)
        elif kill.rank is not None:
            mine = {**mark, "RANK": str(kill.rank)}
            _until(lambda: processes(**mine))
            _until(lambda: not processes(**mine))
        else:
            process.wait(LONGEST_RUN)
        killed = time.monotonic()
        code = process.wait(LONGEST_RUN)
        _until(lambda: not processes(**mark), LONGEST)
        left = processes(**mark)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        if code == 0 and kill.place is None:
            raise OutranError
        if code == 0:
            raise SystemExit(f"{moment.name}: the run was not killed {kill}")
        found = {"how": str(kill), "exit": code, "after seconds": round(killed - started, 2)}
        if moment.configuration == "two":
            found |= {"all ended after seconds": round(time.monotonic() - killed, 2), "processes left": len(left)}
        if code > 0:
            found["said"] = self.said.read_text().splitlines()[-1]
        return {**found, "checkpoint at step": step_of(out)}

    def kill_in_time(self, process: subprocess.Popen[str], mark: dict[str, str], kill: Kill, moment: Moment) -> None:
        """Kill a run when a share of the time of the one never stopped has passed."""
        wanted = kill.share * self.truth(moment.configuration)[1]
        _until(lambda: process.poll() is not None or computed(processes(**mark)) >= wanted)
        for pid in processes(**mark) if kill.whom == "all" else [process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def outcome(self, moment: Moment) -> dict[str, Any]:
        """Kill a run as a moment says, resume it, and compare."""
        truth, _ = self.truth(moment.configuration)
        out = self.folder / "run"
        for attempt in range(ATTEMPTS):
            shutil.rmtree(out, ignore_errors=True)
            # The run never stopped may have taken longer, on a busier machine: each attempt kills a little earlier.
            earlier = [replace(kill, share=kill.share * 0.95**attempt) for kill in moment.kills]
            try:
                kills = [self.kill(moment, kill, out, resume=i > 0) for i, kill in enumerate(earlier)]
                break
            except OutranError:
                continue
        else:
            raise SystemExit(f"{moment.name}: the run was through before the kill, {ATTEMPTS} times")
        seconds = self.finish(moment.configuration, out, resume=True)
        equal = compare(truth, out)
        return {
            "moment": moment.name,
            "configuration": moment.configuration,
            "kills": kills,
            "seconds of computing to resume": round(seconds, 2),
            "all equal": all(equal.values()),
            "equal": equal,
        }


def computed(pids: list[int]) -> float:
    """Return the seconds of computing of some processes (Linux)."""
    ticks = 0
    for pid in pids:
        try:
            values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # gone by now
            continue
        ticks += int(values[11]) + int(values[12])  # user and system, as proc(5) numbers them less three
    return ticks / os.sysconf("SC_CLK_TCK")


def _until(happened: Any, seconds: float = LONGEST_RUN) -> None:
    end = time.monotonic() + seconds
    while not happened() and time.monotonic() < end:
        time.sleep(0.1)


def passed(found: dict[str, Any]) -> bool:
    """Whether all is equal, and no process of a job was left."""
    return found["all equal"] and not any(kill.get("processes left") for kill in found["kills"])


def report(found: list[dict[str, Any]], runner: Runner, seed: int) -> dict[str, Any]:
    return {
        "made by": "python benchmarks/kill.py",
        "command": " ".join(["zoo", *TRAIN]),
        "configurations": {name: " ".join(words) for name, words in CONFIGURATIONS.items()},
        "never stopped": {
            name: {"steps": step_of(folder), "seconds of computing": round(seconds, 2)}
            for name, (folder, seconds) in runner.truths.items()
        },
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "lightning": lightning.__version__,
        },
        "seed of the moments": seed,
        "equal": f"{sum(map(passed, found))} of {len(found)}",
        "moments": found,
    }


def as_text(log: dict[str, Any]) -> str:
    """Return JSON with a moment in a line."""
    lines = ",\n".join(f"  {json.dumps(moment)}" for moment in log["moments"])
    head = json.dumps({name: value for name, value in log.items() if name != "moments"}, indent=1)
    return f'{head[:-2]},\n "moments": [\n{lines}\n ]\n}}\n'


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill runs, resume them, compare.")
    parser.add_argument("--only", metavar="WORD", default="", help="moments with this in their name; writes no file")
    parser.add_argument("--seed", type=int, default=0, help="of the moments in time")
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="zoo-kill-") as folder:
        runner = Runner(Path(folder))
        for moment in (m for m in moments(args.seed) if args.only in m.name):
            found.append(runner.outcome(moment))
            steps = [kill["checkpoint at step"] for kill in found[-1]["kills"]]
            wrong = [name for name, equal in found[-1]["equal"].items() if not equal]
            print(f"{moment.name}: checkpoint at {steps}, {'differs: ' if wrong else 'equal'}{', '.join(wrong)}")
            sys.stdout.flush()
        text = as_text(report(found, runner, args.seed))
    if args.only:
        print(text)
    else:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text)
    print(f"{sum(map(passed, found))} of {len(found)} as if never stopped")
    return int(not all(map(passed, found)))


if __name__ == "__main__":
    raise SystemExit(main())
