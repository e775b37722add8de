"""The contract, by the same ladder as for molecules: sequence and residue heads, and a language model."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import zoo
from zoo.core.bundle import read_spec
from zoo.core.datamodule import BatchLoader
from zoo.core.evaluation import raw_outputs
from zoo.proteins.alphabet import AMINO_ACIDS
from zoo.specs.catalog import Catalog
from zoo.specs.resolve import resolve
from zoo.workflows.build import prepare

sys.path.insert(0, str(Path(__file__).parent))
from short import SMALL, write_tasks

QUICK = {"baseline": False, "threads": 1}


@pytest.fixture(scope="module")
def include(tmp_path_factory):
    return write_tasks(tmp_path_factory.mktemp("include"))


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


def passed(found):
    return {r.rung: (r.status, r.reason) for r in found if r.status != "pass"}


@pytest.mark.parametrize("pooling", ["mean", "attention", "first"])
def test_sequence_level(include, pooling):
    settings = {"model.hparams.pooling": pooling}
    assert (
        passed(zoo.verify("short-sequence", settings=settings, rungs=[1, 2, 3, 4, 6, 7, 8], includes=[include])) == {}
    )


def test_residue_level(include):
    settings = {"model.hparams.checkpointing": True}
    assert passed(zoo.verify("short-residue", settings=settings, rungs=[1, 2, 3, 4, 6, 7, 8], includes=[include])) == {}


def test_pair_level(include):
    assert passed(zoo.verify("short-pair", rungs=[1, 2, 3, 4, 6, 7, 8], includes=[include])) == {}


def test_windows_keep_the_contract(include):
    settings = {"model.featuriser.long": "window", "model.featuriser.max_length": 12, "model.featuriser.overlap": 5}
    assert passed(zoo.verify("short-residue", settings=settings, rungs=[2, 4, 6, 7], includes=[include])) == {}


def test_a_language_model(include):
    assert passed(zoo.verify("short-token", rungs=[1, 2, 3, 4, 6, 7, 8], includes=[include])) == {}


def test_a_language_model_on_two_ranks(include):
    assert passed(zoo.verify("short-token", rungs=[9], includes=[include])) == {}


def test_labels_shifted_by_one_residue_are_noticed(include, tmp_path):
    """A network that reads a residue's own label off its letter learns it, and nothing of its neighbour's."""
    frame = pd.read_csv(include / "datasets" / "short" / "short.csv")
    lists = [json.loads(own) for own in frame["ss"]]
    settings = {
        "train.epochs": 30,
        "train.lr": 0.01,
        "train.batch_size": 16,
        "baseline": False,
        "split.method": "random",
    }
    settings |= {f"model.hparams.{name}": value for name, value in SMALL.items()}
    scores = {}
    for name, shift in (("right", 0), ("shifted", 1)):
        frame["ss"] = [json.dumps(own[-shift:] + own[:-shift] if shift else own) for own in lists]
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        run = zoo.train(data=tmp_path / f"{name}.csv", target="ss", settings=settings, out=tmp_path / name)
        assert read_spec(run.bundle).targets[0].level == "residue"
        predicted = run.load().predict(frame["sequence"].tolist())["ss_pred"]
        pairs = [
            (p, t)
            for own, true in zip(predicted, lists, strict=True)
            for p, t in zip(json.loads(own), true, strict=True)
        ]
        known = [(p, t) for p, t in pairs if t is not None]
        scores[name] = sum(p == t for p, t in known) / len(known)
    assert scores["right"] > 0.97
    assert scores["shifted"] < 0.7


def test_states_of_unresolved_residues_change_no_bit(tmp_path):
    runs = []
    for name, letters in (("one", "HEC"), ("other", "E")):
        include = write_tasks(tmp_path / name, unresolved=letters)
        runs.append(zoo.train("short-residue", settings=QUICK, includes=[include], out=tmp_path / f"run-{name}"))
    files = [(run.folder / name).read_bytes() for run in runs for name in ("bundle/model.safetensors", "metrics.csv")]
    assert files[:2] == files[2:]
    assert runs[0].metrics["model"] == runs[1].metrics["model"]


def test_labels_one_residue_short_name_the_row(include, tmp_path):
    frame = pd.read_csv(include / "datasets" / "short" / "short.csv")
    frame.loc[3, "ss"] = json.dumps(json.loads(frame["ss"][3])[:-1])
    frame.to_csv(tmp_path / "own.csv", index=False)
    n = len(frame["sequence"][3])
    with pytest.raises(
        zoo.ZooError, match=rf"row 3 \(line 5\): the list has {n - 1} values, the input has {n} residues"
    ):
        zoo.train(data=tmp_path / "own.csv", target="ss", out=tmp_path / "run")


def test_training_with_steps_of_a_cost_predicts_and_evaluates(include, tmp_path):
    run = zoo.train("short-token", includes=[include], out=tmp_path / "run", settings={"baseline": False})
    again = zoo.evaluate(run.bundle, task="short-token", includes=[include])
    for name, found in again.items():
        assert found.value == pytest.approx(run.metrics["model"][name].value, rel=1e-6)
        assert found.rows == run.metrics["model"][name].rows
    predictions = pd.read_csv(run.folder / "predictions.csv")
    asked = [[v for v in json.loads(own) if v is not None] for own in predictions["t"]]
    assert sum(map(len, asked)) == again["perplexity"].rows
    assert all(set(own) <= set(AMINO_ACIDS) for own in asked)


@pytest.mark.parametrize("level", ["sequence", "residue", "pair", "token"])
def test_outputs_of_batches_of_like_length_are_put_back_into_order(include, level):
    catalog = Catalog(includes=[include])
    task = catalog.task(f"short-{level}")
    run = resolve(task, catalog.dataset("short"), threads=1, flags={"baseline": False})
    prepared = prepare(run, folder=catalog.dataset_folder("short"))
    network, source = prepared.module.network, prepared.datamodule.source
    index = np.random.default_rng(0).permutation(len(source.items))
    loader = BatchLoader(source, index, 150)
    found = raw_outputs(network, loader, torch.device("cpu"))
    assert len(loader) > 8
    assert torch.cat([batch.rows for batch in loader]).tolist() != source.rows[index].tolist()
    with torch.inference_mode():
        alone = [network(source.batch(index[i : i + 1])) for i in range(len(index))]
    for name, got in found.items():
        want = np.concatenate([out[name].numpy() for out in alone])
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, atol=1e-5)
