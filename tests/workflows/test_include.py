"""A user's own folder of data sets and tasks; a bond-level target in it, trained and predicted end to end."""

import json

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem

import zoo
from zoo.resources import sha256_of

DATASET = """\
name: ring-bonds
title: Ring bonds
domain: molecules
files:
  - {{name: bonds.csv, sha256: {sha}, bytes: {size}, rows: {rows}}}
columns:
  - {{name: smiles, role: input, kind: smiles}}
  - {{name: ring, role: target, kind: list}}
licence: CC0-1.0
source: made by the test
citation: none
"""
TASK = """\
name: ring-bonds
title: Is a bond in a ring
domain: molecules
dataset: ring-bonds
targets:
  - {name: ring, level: bond, kind: binary}
metrics:
  - {name: roc_auc, direction: max, primary: true}
split: {method: random}
models: [dmpnn, gine, attentivefp]
baselines: ["molecules:majority"]
"""


@pytest.fixture(scope="module")
def include(tmp_path_factory):
    root = tmp_path_factory.mktemp("mine")
    smiles = pd.read_csv("datasets/freesolv/freesolv.csv")["smiles"].tolist()[:300]
    smiles = [s for s in smiles if "[" not in s and "." not in s]
    rings = []
    for i, text in enumerate(smiles):
        labels = [int(b.IsInRing()) for b in Chem.MolFromSmiles(text).GetBonds()]
        rings.append(json.dumps([None if (i + j) % 3 == 0 else v for j, v in enumerate(labels)]))
    folder = root / "datasets" / "ring-bonds"
    folder.mkdir(parents=True)
    path = folder / "bonds.csv"
    pd.DataFrame({"smiles": smiles, "ring": rings}).to_csv(path, index=False)
    text = DATASET.format(sha=sha256_of(path), size=path.stat().st_size, rows=len(smiles))
    (folder / "dataset.yaml").write_text(text)
    (root / "tasks" / "molecules").mkdir(parents=True)
    (root / "tasks" / "molecules" / "ring-bonds.yaml").write_text(TASK)
    return root


@pytest.mark.parametrize("model", ["dmpnn", "gine"])
def test_a_bond_target_is_learnt_and_predicted_in_input_order(include, quick, tmp_path, model):
    settings = {**quick, "train.epochs": 12, "train.lr": 5e-3, "model.architecture": model, "baseline": True}
    run = zoo.train("ring-bonds", includes=[include], settings=settings, out=tmp_path / "r")
    assert run.metrics["model"]["roc_auc"].value > 0.95
    assert run.metrics["molecules:majority"]["roc_auc"].value == 0.5
    frame = run.load().predict(["CCCCc1ccccc1", "c1ccccc1CCCC", "CC", "C"])
    probabilities = [np.array(json.loads(v)) for v in frame["ring_prob"]]
    assert [len(p) for p in probabilities] == [10, 10, 1, 0]
    for text, found in zip(["CCCCc1ccccc1", "c1ccccc1CCCC"], probabilities, strict=False):
        ring = np.array([b.IsInRing() for b in Chem.MolFromSmiles(text).GetBonds()])
        assert found[ring].min() > found[~ring].max()
    again = zoo.evaluate(run.folder, includes=[include])
    assert again["roc_auc"].value == pytest.approx(run.metrics["model"]["roc_auc"].value)
