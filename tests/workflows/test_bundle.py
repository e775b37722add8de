"""A bundle loads in a fresh process without unpickling anything, and is refused when one byte is off."""

import io
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import SafetensorError

import zoo
from zoo.core import bundle as bundles
from zoo.errors import BundleError, ZooError
from zoo.workflows.load import check_example

SMILES = ["CCO", "c1ccccc1O", "C", "[Na+].[Cl-]", "CC(=O)Oc1ccccc1C(=O)O"]


def test_a_fresh_process_predicts_the_same_without_torch_load(trained):
    inputs = trained.inputs[:5]
    code = (
        "import sys, json, torch\n"
        "def refuse(*a, **k): raise RuntimeError('unpickled')\n"
        "torch.load = refuse\n"
        "import zoo\n"
        "pred = zoo.load(sys.argv[1]).predict(json.loads(sys.argv[2]))\n"
        "print(pred.to_json(double_precision=15))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(trained.run.bundle), json.dumps(inputs)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    there = pd.read_json(io.StringIO(done.stdout.splitlines()[-1]), convert_axes=False)
    here = trained.run.load().predict(inputs)
    assert list(there) == list(here)
    for name in here:
        same(there[name], here[name])


def same(got, want):
    """Compare two columns of predictions: numbers closely, labels exactly, lists of either node by node."""
    for a, b in zip(got, want, strict=True):
        if isinstance(b, str) and b.startswith("["):
            same(json.loads(a), json.loads(b))
        else:
            assert a == (pytest.approx(b, rel=1e-5, abs=1e-5) if isinstance(b, float) else b)


def test_test_predictions_of_the_run_are_those_of_the_bundle(freesolv):
    written = pd.read_csv(freesolv.folder / "predictions.csv")
    again = freesolv.load().predict(written["smiles"].tolist())
    np.testing.assert_allclose(
        written["hydration_free_energy_pred"], again["hydration_free_energy_pred"].astype(float), rtol=1e-6, atol=1e-6
    )


def test_the_example_is_reproduced(trained):
    assert check_example(trained.run.bundle, trained.run.load()) < 1e-5


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "example.json"])
@pytest.mark.parametrize("where", [0.1, 0.5, 0.99])
def test_one_flipped_byte_is_refused(freesolv, tmp_path, name, where):
    folder = tmp_path / "b"
    shutil.copytree(freesolv.bundle, folder)
    data = bytearray((folder / name).read_bytes())
    data[int(len(data) * where)] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(BundleError, match=name):
        zoo.load(folder)


def test_the_readme_may_change(freesolv, tmp_path):
    folder = tmp_path / "b"
    shutil.copytree(freesolv.bundle, folder)
    (folder / "README.md").write_text("my notes")
    assert zoo.load(folder).predict(["C"]).shape == (1, 3)


def test_a_missing_file_a_newer_schema_and_a_stranger_are_refused(freesolv, tmp_path):
    folder = tmp_path / "b"
    shutil.copytree(freesolv.bundle, folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(BundleError, match="missing"):
        zoo.load(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "schema_version": 99}))
    with pytest.raises(BundleError, match=r"schema 99.*pip install -U"):
        zoo.load(folder)
    with pytest.raises(BundleError, match=r"no config\.json"):
        zoo.load(tmp_path)
    with pytest.raises(BundleError, match="neither a folder nor a zoo model"):
        zoo.load("no-such-model")


def test_another_featuriser_version_is_refused_naming_both(trained, tmp_path):
    folder = tmp_path / "b"
    shutil.copytree(trained.run.bundle, folder)
    config = json.loads((folder / "config.json").read_text())
    config["featuriser"]["version"] = 77
    config["config_sha256"] = ""
    config["config_sha256"] = bundles.sha256(bundles.canonical_json(config))
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(BundleError, match=r"version 77.*this installation has .* version \d+"):
        zoo.load(folder)


def test_a_full_disk_leaves_no_half_written_bundle(freesolv, tmp_path, monkeypatch):
    spec, state = bundles.read_spec(freesolv.bundle), bundles.read_weights(freesolv.bundle)
    real = bundles.save_file

    def full(tensors, path):
        real(dict(list(tensors.items())[:1]), path)
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(bundles, "save_file", full)
    with pytest.raises(ZooError, match="no space left while writing"):
        bundles.save_bundle(tmp_path / "bundle", spec, state, {}, "")
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_is_never_overwritten(freesolv):
    spec = bundles.read_spec(freesolv.bundle)
    with pytest.raises(ZooError, match="exists already"):
        bundles.save_bundle(freesolv.bundle, spec, {}, {}, "")


def test_weights_that_do_not_fit_are_named():
    layer = torch.nn.Linear(2, 3)
    state = {"weight": torch.zeros(3, 9), "more": torch.zeros(1)}
    with pytest.raises(BundleError, match=r"missing bias; unknown more; weight: \(3, 9\).*\(3, 2\)"):
        bundles.load_strict(layer, state, "x")
