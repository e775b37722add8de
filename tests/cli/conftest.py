"""Runs of the command line, in this process and in a fresh one."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from zoo.cli import main

DATA = "smiles,y\nCCO,1.0\nCCC,2.0\nCCN,3.5\nCCCC,-1\n"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    for name in ("ZOO_MIRROR", "ZOO_INCLUDE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def zoo(capsys):
    """Call ``main`` and return (exit code, stdout, stderr)."""

    def call(*words):
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def fresh():
    """Run Python in a new process and return what it printed."""

    def call(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            check=True,
        )
        return done.stdout

    return call


@pytest.fixture
def folder(tmp_path):
    """An include folder with a bundled data set, one declared by url, and a task on each."""
    root = tmp_path / "extra"
    for name, url in (("mini", ""), ("far", ", url: 'http://127.0.0.1:9/far.csv'")):
        (root / "datasets" / name / "splits").mkdir(parents=True)
        (root / "datasets" / name / "dataset.yaml").write_text(
            f"name: {name}\ntitle: Four molecules\ndomain: molecules\nfiles:\n"
            f"  - {{name: {name}.csv, sha256: {hashlib.sha256(DATA.encode()).hexdigest()}, bytes: {len(DATA)},"
            f" rows: 4{url}}}\n"
            "columns:\n  - {name: smiles, role: input, kind: smiles}\n"
            "  - {name: y, role: target, kind: number, unit: mol/L}\n"
            "licence: CC0-1.0\nsource: made up\ncitation: nobody\n"
        )
        (root / "tasks" / "molecules").mkdir(parents=True, exist_ok=True)
        (root / "tasks" / "molecules" / f"{name}-task.yaml").write_text(
            f"name: {name}-task\ntitle: A tiny task\ndomain: molecules\ndataset: {name}\n"
            "targets:\n  - {name: y, level: molecule, kind: regression, unit: mol/L}\n"
            "metrics:\n  - {name: rmse, direction: min, primary: true}\n"
            "split: {method: scaffold, file: 'splits/scaffold_{seed}.csv'}\n"
            "models: [dmpnn]\nbaselines: ['molecules:random-forest']\n"
        )
        (root / "datasets" / name / "splits" / "scaffold_0.csv").write_text(
            "row,part\n0,train\n1,train\n2,val\n3,test\n"
        )
    (root / "datasets" / "mini" / "mini.csv").write_text(DATA)
    return root
