"""Small runs, on part of freesolv and on short proteins, with every kind of state.

That is: averages, patience, dropout, accumulation, validations.
"""

import csv
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from killing import Forked, forked_ranks

sys.path.insert(0, str(Path(__file__).parents[1] / "proteins"))
from short import write_tasks

SMALL = [
    "--split", "random", "--no-baseline", "--epochs", "3", "--batch-size", "16", "--device", "cpu", "--threads", "1",
    "--set", "model.hparams.width=16", "--set", "model.hparams.head_width=16", "--set", "train.patience=9",
    "--set", "model.hparams.head_dropout=0.2", "--set", "train.ema=0.9", "--set", "train.microbatches=2",
    "--set", "train.validations=2", "--set", "save_every_steps=2",
]  # fmt: skip

# In steps of 16 proteins, and of like cost with windows over the longer ones: five steps an epoch, as above.
KINDS = {
    "sequence": ["short-sequence", "--set", "train.batch_cost=null"],
    "residue": [
        "short-residue", "--set", "train.batch_cost=330", "--set", "model.featuriser.long=window",
        "--set", "model.featuriser.max_length=12", "--set", "model.featuriser.overlap=4",
    ],
    "token": ["short-token", "--set", "train.batch_cost=null"],
}  # fmt: skip
"""Words that take the place of a user's own molecules."""


class Runs:
    """Starts runs with the same data and settings, each in a process of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {"ZOO_CACHE": str(folder / "cache")}
        with Path("datasets/freesolv/freesolv.csv").open(newline="") as handle:
            rows = list(csv.reader(handle))
        with (folder / "own.csv").open("w", newline="") as handle:
            csv.writer(handle).writerows([rows[0], *rows[1::7]])
        self.include = write_tasks(folder / "include")
        self.started = 0

    def said(self):
        """Return a file for what the next process says."""
        self.started += 1
        return self.folder / f"said-{self.started}"

    def words(self, out, *more, kind="molecule"):
        """Return the command line of a run, later words overruling earlier ones."""
        own = ["--data", self.folder / "own.csv", "--target", "expt"]
        task = own if kind == "molecule" else ["--include", self.include]
        return ["train", *task, *SMALL, *KINDS.get(kind, []), *more, "--out", out]

    def start(self, words, *, fault=None, signal="SIGKILL", env=None, **options):
        """Start a process that sends itself a signal at a place."""
        env = {**self.env, **(env or {})}
        if fault is not None:
            env |= {"ZOO_FAULT": fault, "ZOO_FAULT_SIGNAL": signal}
        return Forked(words, self.said(), env, **options)

    def go_together(self, words, world):
        """Run to the end on ``world`` processes, started as torchrun would."""
        if world == 1:
            self.go(words)
            return
        ends = [process.end() for process in forked_ranks(words, self.said(), world, self.env)]
        assert [code for code, _ in ends] == [0] * world, ends

    def go(self, words, *, code=0, **options):
        """Run to the end; return what it said."""
        found, said = self.start(words, **options).end()
        assert found == code, said
        return said


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("resume"))


@pytest.fixture(scope="session")
def truth(runs):
    """The run that was never stopped."""
    runs.go(runs.words(runs.folder / "truth"))
    return runs.folder / "truth"


@pytest.fixture(scope="session", params=["molecule", *KINDS])
def whole(request, runs):
    """A kind of task, and its run that was never stopped."""
    folder = runs.folder / f"whole-{request.param}"
    runs.go(runs.words(folder, kind=request.param))
    return request.param, folder


def pytest_collection_modifyitems(items):
    if os.name != "posix":
        for item in items:
            item.add_marker(pytest.mark.skip(reason="kill -9 and forked processes are POSIX"))
