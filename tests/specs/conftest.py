"""A folder like the bundled one, with one data set and one task, for the catalogue and the settings."""

from __future__ import annotations

import hashlib

import pytest

DATA = "smiles,y,part\nCCO,1.0,train\nCCC,2.0,train\nCCN,3.5,val\nCCCC,-1,test\n"

DATASET = f"""\
name: mini
title: Four molecules
domain: molecules
files:
  - name: mini.csv
    sha256: {hashlib.sha256(DATA.encode()).hexdigest()}
    bytes: {len(DATA)}
    rows: 4
columns:
  - {{name: smiles, role: input, kind: smiles}}
  - {{name: y, role: target, kind: number, unit: mol/L}}
  - {{name: part, role: ignore, kind: text}}
licence: CC0-1.0
source: made up
citation: nobody
"""

TASK = """\
name: mini-task
title: A tiny task
domain: molecules
dataset: mini
targets:
  - name: y
    level: molecule
    kind: regression
    unit: mol/L
metrics:
  - {name: rmse, direction: min, primary: true}
split:
  method: scaffold
  file: splits/scaffold_{seed}.csv
  options: {balanced: true}
models: [dmpnn, gine]
default_model: {small: dmpnn}
recipe:
  model:
    hparams: {width: 64}
    featuriser: {descriptors: rdkit2d}
  train:
    epochs: 7
    lr: 1e-3
"""


@pytest.fixture
def folder(tmp_path):
    """An include folder; tests edit its files."""
    (tmp_path / "extra" / "datasets" / "mini").mkdir(parents=True)
    (tmp_path / "extra" / "tasks" / "molecules").mkdir(parents=True)
    (tmp_path / "extra" / "datasets" / "mini" / "mini.csv").write_text(DATA)
    (tmp_path / "extra" / "datasets" / "mini" / "dataset.yaml").write_text(DATASET)
    (tmp_path / "extra" / "tasks" / "molecules" / "mini-task.yaml").write_text(TASK)
    return tmp_path / "extra"


@pytest.fixture
def task_file(folder):
    return folder / "tasks" / "molecules" / "mini-task.yaml"


@pytest.fixture
def edit(task_file):
    """Replace a piece of the task's YAML, which must be there."""

    def change(old: str, new: str) -> None:
        text = task_file.read_text()
        assert old in text
        task_file.write_text(text.replace(old, new))

    return change
