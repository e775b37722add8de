"""One small trained run, shared by the tests of the verbs."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import zoo

sys.path.insert(0, str(Path(__file__).parents[1] / "proteins"))
from short import write_tasks

QUICK = {
    "train.epochs": 2,
    "model.hparams.width": 32,
    "model.hparams.head_width": 32,
    "baseline": False,
    "threads": 1,
}


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def quick():
    return dict(QUICK)


@pytest.fixture(scope="session")
def freesolv(tmp_path_factory, quick):
    return zoo.train("freesolv", settings=quick, out=tmp_path_factory.mktemp("runs") / "freesolv")


@dataclass
class Trained:
    """A run of one kind of task, how to make it again, and the inputs of its data."""

    run: Any
    task: str
    inputs: list[str]
    includes: list[Path] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    def again(self, out, **settings):
        """Train once more."""
        return zoo.train(self.task, includes=self.includes, settings={**self.settings, **settings}, out=out)


@pytest.fixture(scope="session", params=["molecule", "sequence", "residue", "token"])
def trained(request, tmp_path_factory, quick):
    """A trained run of every kind of item that is predicted: whole molecules, whole proteins, residues, masked ones."""
    if request.param == "molecule":
        inputs = pd.read_csv("datasets/freesolv/freesolv.csv")["smiles"].tolist()
        return Trained(request.getfixturevalue("freesolv"), "freesolv", inputs, settings=quick)
    include = write_tasks(tmp_path_factory.mktemp("include"))
    inputs = pd.read_csv(include / "datasets" / "short" / "short.csv")["sequence"].tolist()
    settings = {"baseline": False, "threads": 1, "train.epochs": 3, "train.lr": 0.005}
    made = Trained(None, f"short-{request.param}", inputs, [include], settings)
    made.run = made.again(tmp_path_factory.mktemp("runs") / request.param)
    return made
