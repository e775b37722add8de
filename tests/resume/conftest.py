"""A small run on part of freesolv with every kind of state: averages, patience, dropout, accumulation, validations."""

import csv
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from killing import Forked, forked_ranks

SMALL = [
    "--split", "random", "--no-baseline", "--epochs", "3", "--batch-size", "16", "--device", "cpu", "--threads", "1",
    "--set", "model.hparams.width=16", "--set", "model.hparams.head_width=16", "--set", "train.patience=9",
    "--set", "model.hparams.head_dropout=0.2", "--set", "train.ema=0.9", "--set", "train.microbatches=2",
    "--set", "train.validations=2", "--set", "save_every_steps=2",
]  # fmt: skip


class Runs:
    """Starts runs with the same data and settings, each in a process of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {"ZOO_CACHE": str(folder / "cache")}
        with Path("datasets/freesolv/freesolv.csv").open(newline="") as handle:
            rows = list(csv.reader(handle))
        with (folder / "own.csv").open("w", newline="") as handle:
            csv.writer(handle).writerows([rows[0], *rows[1::7]])
        self.started = 0

    def said(self):
        """Return a file for what the next process says."""
        self.started += 1
        return self.folder / f"said-{self.started}"

    def words(self, out, *more):
        """Return the command line of a run, later words overruling earlier ones."""
        return ["train", "--data", self.folder / "own.csv", "--target", "expt", *SMALL, *more, "--out", out]

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


def pytest_collection_modifyitems(items):
    if os.name != "posix":
        for item in items:
            item.add_marker(pytest.mark.skip(reason="kill -9 and forked processes are POSIX"))
