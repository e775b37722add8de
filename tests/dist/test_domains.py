"""A real task of each domain: the weights and the scores do not depend on the number of processes."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import zoo
from zoo.core.launch import run_on_ranks
from zoo.core.resume import read_checkpoint

JOBS = str(Path(__file__).parent / "jobs.py")
ROOT = Path(__file__).parents[2]
EXACT = {
    "train.precision": "64",
    "train.batch_size": 8,
    "train.epochs": 4,
    "train.ema": None,
    "train.select": "last",
    "train.lr": 1e-3,
    "model.hparams.head_dropout": 0.0,
    "baseline": False,
    "threads": 1,
    "device": "cpu",
}


def bbb(path, n=50):
    """Write ``n`` molecules of B3DB with a sparse number and a class each: both targets miss labels."""
    with (ROOT / "datasets" / "bbb" / "bbb.csv").open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    with_number = [r for r in rows if r["logbb"]][: n // 2]
    without = [r for r in rows if not r["logbb"]][: n - n // 2]
    chosen = [r for pair in zip(with_number, without, strict=True) for r in pair]
    part = ["train"] * 40 + ["val"] * 3 + ["test"] * 7
    with path.open("w", newline="") as handle:
        out = csv.writer(handle)
        out.writerow(["smiles", "logbb", "bbb", "split"])
        for i, row in enumerate(chosen):
            out.writerow([row["smiles"], row["logbb"], "" if i % 3 == 0 else row["bbb"], part[i]])
    return path


def proteins(path, n=50):
    """Write ``n`` proteins of 5 to 60 residues with a sparse number, a class, a gappy label of each residue, and contacts."""
    rng = np.random.default_rng(0)
    part = ["train"] * 40 + ["val"] * 3 + ["test"] * 7
    with path.open("w", newline="") as handle:
        out = csv.writer(handle)
        out.writerow(["sequence", "y", "c", "ss", "contacts", "split"])
        for i in range(n):
            residues = rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), int(rng.integers(5, 60)))
            states = [None if rng.random() < 0.3 else "H" if r in "AELM" else "C" for r in residues]
            number = "" if i % 3 == 1 else f"{(residues == 'L').mean():.4f}"
            touching = [sorted(np.random.default_rng([i, k]).choice(len(residues), 2, replace=False).tolist()) for k in range(5)]
            cells = [number, "ab"["W" in residues], json.dumps(states), json.dumps(touching)]
            out.writerow(["".join(residues), *cells, part[i]])
    return path


def go(tmp_path, name, *, model, data, devices, pieces=1, targets=("logbb", "bbb"), **more):
    settings = {**EXACT, "devices": devices, "train.microbatches": pieces, "model.architecture": model, **more}
    run = zoo.train(
        data=data,
        target=list(targets),
        settings={**settings, "split.method": "column", "split.column": "split"},
        out=tmp_path / name,
    )
    return run, read_checkpoint(run.folder / "last.ckpt")


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("model", ["dmpnn"])
def test_molecules_after_20_steps_and_their_scores(tmp_path, model):
    data = bbb(tmp_path / "own.csv")
    one, state = go(tmp_path, "1x8", model=model, data=data, devices=1)
    assert state["step"] == 20
    want = torch.cat([v.reshape(-1).double() for v in state["network"].values()])
    for name, devices, pieces in (("2x4", 2, 1), ("4x2", 4, 1), ("1x2x4", 1, 4)):
        run, other = go(tmp_path, name, model=model, data=data, devices=devices, pieces=pieces)
        found = torch.cat([v.reshape(-1).double() for v in other["network"].values()])
        torch.testing.assert_close(found, want, rtol=0, atol=1e-10)
        for metric, scored in run.metrics["model"].items():
            assert scored.value == pytest.approx(one.metrics["model"][metric].value, rel=1e-8)
        found, wanted = (pd.read_csv(r.folder / "predictions.csv") for r in (run, one))
        pd.testing.assert_frame_equal(found, wanted, rtol=1e-8)  # one file, the same rows in the same order
    payload = {"folder": str(one.folder), "part": "train", "rows": [40, 3], "out": str(tmp_path)}
    for world in (1, 2, 4):
        run_on_ranks(f"{JOBS}:evaluate_saved", payload, world=world)
    for rows in payload["rows"]:
        want = json.loads((tmp_path / f"scores-{rows}-0-of-1.json").read_text())
        for rank, world in ((0, 2), (1, 2), (0, 4), (3, 4)):
            said = json.loads((tmp_path / f"scores-{rows}-{rank}-of-{world}.json").read_text())
            for metric, found in said.items():
                assert (found["rows"], found["skipped"]) == (want[metric]["rows"], want[metric]["skipped"])
                if found["value"] is not None:
                    np.testing.assert_allclose(found["value"], want[metric]["value"], rtol=1e-12, atol=1e-12)


TINY = {"model.hparams.layers": 2, "model.hparams.width": 16, "model.hparams.heads": 2, "model.hparams.head_width": 16}


@pytest.mark.parametrize(
    ("targets", "cost"),
    [(("y", "c"), None), (("ss",), 400.0), (("contacts",), None)],
    ids=["sequence-items", "residue-cost", "pair-items"],
)
def test_proteins_after_20_steps_and_their_scores(tmp_path, targets, cost):
    data = proteins(tmp_path / "own.csv")
    more = {**TINY, "model.hparams.pooling": "attention", "train.batch_cost": cost, "targets": targets}
    one, state = go(tmp_path, "1", model="esm2", data=data, devices=1, **more)
    assert state["step"] == (20 if cost is None else 12)
    want = torch.cat([v.reshape(-1).double() for v in state["network"].values()])
    for name, devices, pieces in (("2", 2, 1), ("1x3", 1, 3)):
        run, other = go(tmp_path, name, model="esm2", data=data, devices=devices, pieces=pieces, **more)
        found = torch.cat([v.reshape(-1).double() for v in other["network"].values()])
        torch.testing.assert_close(found, want, rtol=0, atol=1e-10)
        for metric, scored in run.metrics["model"].items():
            assert scored.value == pytest.approx(one.metrics["model"][metric].value, rel=1e-8)
            assert scored.rows == one.metrics["model"][metric].rows
