"""A real task of each domain: the weights and the scores do not depend on the number of processes."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import zoo
from zoo.core.launch import run_on_ranks
from zoo.core.resume import read_checkpoint

sys.path.insert(0, str(Path(__file__).parents[1] / "proteins"))
from short import write_tasks

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


TINY = {"model.hparams.layers": 2, "model.hparams.width": 16, "model.hparams.heads": 2, "model.hparams.head_width": 16}
COLUMN = {"split.method": "column", "split.column": "split"}


def own(write, targets, architecture, **settings):
    """Return how to train on a file that ``write`` makes, and where it is."""

    def given(folder):
        words = {"data": write(folder / "own.csv"), "target": list(targets)}
        return {**words, "settings": {**EXACT, **COLUMN, "model.architecture": architecture, **settings}}, folder

    return given


def masked(folder):
    """Return how to train a language model on short proteins, and where they are."""
    root = write_tasks(folder / "include")
    settings = {**EXACT, **TINY, "train.batch_cost": 150.0, "train.epochs": 3}
    return {"task": "short-token", "includes": [root], "settings": settings}, root / "datasets" / "short"


POOLED = {**TINY, "model.hparams.pooling": "attention"}
KINDS = {
    "molecules": own(bbb, ("logbb", "bbb"), "dmpnn"),
    "sequences": own(proteins, ("y", "c"), "esm2", **POOLED),
    "residues": own(proteins, ("ss",), "esm2", **TINY, **{"train.batch_cost": 400.0, "train.epochs": 8}),
    "contacts": own(proteins, ("contacts",), "esm2", **TINY),
    "masked residues": masked,
}
FOUR = ("molecules", "masked residues")
"""What is trained on four processes too; the others are scored on four."""


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def weights(state):
    return torch.cat([v.reshape(-1).double() for v in state["network"].values()])


@pytest.mark.parametrize("kind", KINDS)
def test_20_steps_and_their_scores_do_not_depend_on_the_number_of_processes(tmp_path, kind):
    given, data = KINDS[kind](tmp_path)

    def go(name, devices, pieces):
        settings = {**given["settings"], "devices": devices, "train.microbatches": pieces}
        run = zoo.train(**{**given, "settings": settings, "out": tmp_path / name})
        return run, read_checkpoint(run.folder / "last.ckpt")

    one, state = go("1", 1, 1)
    assert state["step"] >= 20
    for name, devices, pieces in (("2", 2, 1), ("4", 4, 1), ("1 in 4 pieces", 1, 4)):
        if devices == 4 and kind not in FOUR:
            continue
        run, other = go(name, devices, pieces)
        torch.testing.assert_close(weights(other), weights(state), rtol=0, atol=1e-10)
        for metric, scored in run.metrics["model"].items():
            assert scored.value == pytest.approx(one.metrics["model"][metric].value, rel=1e-8)
            assert scored.rows == one.metrics["model"][metric].rows
        if kind == "contacts":
            continue  # lists of pairs above a threshold
        found, wanted = (pd.read_csv(r.folder / "predictions.csv") for r in (run, one))
        pd.testing.assert_frame_equal(numbers(found), numbers(wanted), rtol=1e-8)  # the same rows in the same order
    payload = {"folder": str(one.folder), "part": "train", "rows": [40, 3], "out": str(tmp_path), "data": str(data)}
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


def numbers(frame):
    """Return predictions with a row for each node where cells hold lists."""
    lists = [name for name in frame if frame[name].astype(str).str.startswith("[").all()]
    for name in lists:
        frame[name] = frame[name].map(json.loads)
    return frame.explode(lists, ignore_index=True).infer_objects() if lists else frame
