"""Fine-tuning: what is trained and what stays, features computed once, the layer chosen, adapters merged."""

import json
import random
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import zoo
from zoo.core import feature_file
from zoo.core.bundle import read_spec, read_weights
from zoo.core.optim import parameter_groups
from zoo.errors import BundleError, InputError
from zoo.resources import cache_dir
from zoo.specs.catalog import Catalog
from zoo.specs.resolve import resolve
from zoo.workflows import pretrained
from zoo.workflows.build import prepare
from zoo.workflows.pretrained import find_start

MINI = "esm2-mini"
SETTINGS = {"train.epochs": 2, "train.batch_size": 8, "baseline": False, "threads": 1, "split.method": "random"}


def sequences(n, seed=0):
    draw = random.Random(seed)  # noqa: S311
    return ["".join(draw.choices("ACDEFGHIKLMNPQRSTVWY", k=draw.randint(8, 30))) for _ in range(n)]


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Forty proteins: their share of K and R, and a state per residue."""
    path = tmp_path_factory.mktemp("own") / "own.csv"
    texts = sequences(40)
    charged = [sum(c in "KR" for c in t) / len(t) for t in texts]
    states = ["".join("H" if c in "KRE" else "C" for c in t) for t in texts]
    pd.DataFrame({"sequence": texts, "charged": charged, "ss": states}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def base():
    return read_weights(Catalog().model_path(MINI))


def tuned(own, out, mode, target="charged", **more):
    settings = {**SETTINGS, **more.pop("settings", {})}
    return zoo.finetune(MINI, data=own, target=target, mode=mode, settings=settings, out=out, **more)


def agrees(run, own, target="charged", tolerance=1e-5):
    """Whether the bundle predicts from raw inputs what the run wrote of its test part."""
    written = pd.read_csv(run.folder / "predictions.csv")
    got = run.load().predict(written["sequence"].tolist())
    if target == "charged":
        return np.abs(got[f"{target}_pred"] - written[f"{target}_pred"]).max() <= tolerance
    lists = zip(got[f"{target}_prob"], written[f"{target}_prob"], strict=True)
    return max(np.abs(np.subtract(json.loads(a), json.loads(b))).max() for a, b in lists) <= tolerance


@pytest.mark.parametrize("target", ["charged", "ss"])
def test_heads_on_frozen_features_are_a_whole_model(own, base, tmp_path, target):
    run = tuned(own, tmp_path / "r", "head", target)
    state = read_weights(run.bundle)
    encoder = {n: t for n, t in state.items() if n.startswith("encoder.")}
    assert encoder
    assert all(torch.equal(t, base[n]) for n, t in encoder.items())
    assert not any(".lm_head." in n for n in encoder)
    assert agrees(run, own, target)
    said = read_spec(run.bundle).provenance.start
    assert (said["model"], said["mode"], said["dataset"]) == (MINI, "head", "uniprot-sample")


def test_features_are_computed_once_and_only_for_new_inputs(own, tmp_path, monkeypatch):
    seen = []
    compute = feature_file._compute

    def counting(encoder, items, *args, **kwargs):
        seen.append(len(items))
        return compute(encoder, items, *args, **kwargs)

    monkeypatch.setattr(feature_file, "_compute", counting)
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    first = tuned(own, tmp_path / "a", "head")
    again = tuned(own, tmp_path / "b", "head")
    assert seen == [40]
    assert (first.folder / "predictions.csv").read_bytes() == (again.folder / "predictions.csv").read_bytes()

    more = pd.concat([pd.read_csv(own), pd.DataFrame({"sequence": ["MKTAYIAKQRK"], "charged": [0.4]})])
    more.to_csv(tmp_path / "more.csv", index=False)
    run = tuned(tmp_path / "more.csv", tmp_path / "c", "head")
    assert seen == [40, 1]
    assert agrees(run, own)

    (file,) = (cache_dir() / "features").glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-100])
    tuned(own, tmp_path / "d", "head")
    assert seen == [40, 1, 40]
    assert (first.folder / "predictions.csv").read_bytes() == (tmp_path / "d" / "predictions.csv").read_bytes()


def test_features_stay_in_memory_where_the_disk_refuses(own, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(feature_file, "_allocate", full)
    assert agrees(tuned(own, tmp_path / "r", "head"), own)
    assert not list((tmp_path / "cache" / "features").glob("*.safetensors"))


def test_the_heads_stand_after_the_layer_asked_for(own, tmp_path):
    run = tuned(own, tmp_path / "r", "head", layer=3)
    spec = read_spec(run.bundle)
    assert (spec.architecture.hparams["layers"], spec.architecture.hparams["final_norm"]) == (3, False)
    assert not any(n.startswith("encoder.layers.3.") for n in read_weights(run.bundle))
    texts = sequences(3, seed=5)
    want = zoo.embed(MINI, texts, level="residue", layer=3).values
    want = torch.nn.functional.layer_norm(torch.from_numpy(want), want.shape[1:])
    got = zoo.embed(run.bundle, texts, level="residue").values
    assert np.abs(got - want.numpy()).max() < 1e-4
    assert agrees(run, own)


def test_the_layer_is_chosen_on_validation_and_kept_on_resume(own, tmp_path):
    run = tuned(own, tmp_path / "r", "head", layer="best")
    scores = pd.read_csv(run.folder / "layers.csv")
    assert scores["layer"].tolist() == [1, 2, 3, 4, 5, 6]
    best = int(scores["layer"][scores["val_rmse"].idxmin()])
    spec = read_spec(run.bundle)
    assert spec.architecture.hparams["layers"] == best
    assert f"{scores['val_rmse'].min():.4g}" in spec.provenance.selected
    before = (run.folder / "result.json").read_bytes()
    tuned(own, tmp_path / "r", "head", layer="best", resume=True)
    assert (run.folder / "result.json").read_bytes() == before


def test_adapters_leave_the_weights_alone_and_merge_into_them(own, base, tmp_path):
    run = tuned(own, tmp_path / "r", "lora", settings={"start.merge": True, "start.lora_rank": 4, "train.lr": 0.01})
    state = read_weights(run.bundle)
    kept = {
        n.replace(".base_layer.", "."): t for n, t in state.items() if n.startswith("encoder.") and "lora_" not in n
    }
    assert all(torch.equal(t, base[n]) for n, t in kept.items())
    ups = [t for n, t in state.items() if ".lora_B." in n]
    assert len(ups) == 36
    assert all(t.abs().max() > 0 for t in ups)  # they have learnt
    assert agrees(run, own)

    texts = sequences(20, seed=9)
    want = run.load().predict(texts)["charged_pred"]
    merged = zoo.load(run.folder / "merged")
    assert merged.spec.architecture.adapter is None
    assert set(read_weights(run.folder / "merged")) == {
        n.replace(".base_layer.", ".") for n in state if "lora_" not in n
    }
    assert np.abs(merged.predict(texts)["charged_pred"] - want).max() <= 1e-5

    code = (
        "import sys, json, zoo\n"
        "found = zoo.load(sys.argv[1]).predict(json.loads(sys.argv[2]))\n"
        "print(json.dumps(found['charged_pred'].tolist()))"
    )
    fresh = subprocess.run(
        [sys.executable, "-c", code, str(run.bundle), json.dumps(texts)], check=True, capture_output=True, text=True
    )
    assert json.loads(fresh.stdout) == want.tolist()
    with pytest.raises(InputError, match="has no adapters to merge"):
        zoo.merge(run.folder / "merged", tmp_path / "twice")
    # A further run starts from the merged weights.
    assert agrees(zoo.finetune(run.folder, data=own, target="charged", settings=SETTINGS, out=tmp_path / "s"), own)


def test_full_training_moves_the_upper_layers_faster():
    task = Catalog().task("pdb-ss3")
    start, spec = find_start(MINI, [], None)
    run = resolve(task, Catalog().dataset("pdb-ss3"), threads=1, start=start, card=pretrained.card_of(spec))
    prepared = prepare(run, folder=Catalog().dataset_folder("pdb-ss3"))
    rates = {g.name: g.lr for g in parameter_groups(prepared.module.network, run.train)}
    head = rates["head/decay"]
    assert rates["layer6/no_decay"] == pytest.approx(head * 0.3 * 0.9)
    assert rates["layer1/decay"] == pytest.approx(head * 0.3 * 0.9**6)
    assert run.origin["train.layer_decay"] == "card"
    assert all(p.requires_grad for p in prepared.module.network.parameters())
    flags = {"start.mode": "lora"}
    run = resolve(
        task, Catalog().dataset("pdb-ss3"), threads=1, start=start, card=pretrained.card_of(spec), flags=flags
    )
    assert (run.train.encoder_lr_scale, run.train.layer_decay) == (1.0, None)


def test_attention_pooling_is_new_and_trained_on_a_frozen_encoder(own, base, tmp_path):
    run = tuned(own, tmp_path / "r", "head", settings={"model.hparams.pooling": "attention"})
    state = read_weights(run.bundle)
    assert all(torch.equal(t, base[n]) for n, t in state.items() if n.startswith("encoder.layers."))
    assert state["encoder.pooling.score"].abs().max() > 0  # zero at first
    assert agrees(run, own)


def test_molecules_start_from_a_trained_model_too(freesolv, tmp_path):
    texts = ["CCO", "CCN", "CCC", "CCCl", "c1ccccc1", "CC(=O)O", "CCOC", "CCCCO", "CCS", "CC#N", "C1CCCC1", "CCBr"]
    frame = pd.DataFrame({"smiles": texts, "y": [float(len(t)) for t in texts]})
    frame.to_csv(tmp_path / "own.csv", index=False)
    for mode in ("full", "head"):
        run = zoo.finetune(
            freesolv.folder, data=tmp_path / "own.csv", target="y", mode=mode, settings=SETTINGS, out=tmp_path / mode
        )
        want, got = read_weights(freesolv.bundle), read_weights(run.bundle)
        same = [torch.equal(t, want[n]) for n, t in got.items() if n.startswith("encoder.")]
        assert all(same) if mode == "head" else not any(same)
    with pytest.raises(InputError, match="takes no adapters"):
        zoo.finetune(freesolv.folder, data=tmp_path / "own.csv", target="y", mode="lora", settings=SETTINGS)
    with pytest.raises(InputError, match=r"is a model of proteins, and .*own.csv is about molecules"):
        zoo.finetune(MINI, data=tmp_path / "own.csv", target="y")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model.hparams.width": 40}, "does not fit the encoder asked for: embed_tokens.weight"),
        ({"start.layer": 9}, "layer 9: this encoder has layers 1 to 6"),
        ({"start.layer": "best"}, "layer 'best' goes with mode head"),
        ({"start.merge": True}, "merge goes with mode lora"),
        ({"start.mode": "lora", "start.lora_targets": ["key"]}, "no linear layer of ESM2 is called key"),
        ({"start.mod": "lora"}, "Did you mean 'start.mode'"),
    ],
)
def test_what_cannot_be(own, tmp_path, settings, message):
    with pytest.raises(zoo.ZooError, match=message):
        tuned(own, tmp_path / "r", None, settings=settings)
    assert not (tmp_path / "r").exists()


def test_a_run_from_nothing_has_no_start(own):
    with pytest.raises(zoo.ZooError, match=r"start.mode goes with `zoo finetune`"):
        zoo.train(data=own, target="charged", settings={"start.mode": "lora"})


def test_a_language_model_goes_on_whole_only(tmp_path):
    with pytest.raises(InputError, match="nothing is left to train"):
        zoo.finetune(MINI, "protein-mlm", mode="head", out=tmp_path / "r")


def test_a_run_does_not_go_on_from_another_model(own, tmp_path):
    first = tuned(own, tmp_path / "a", "head")
    second = zoo.finetune(first.folder, data=own, target="charged", settings=SETTINGS, out=tmp_path / "b")
    start = json.loads((second.folder / "run.json").read_text())["start"]
    assert start["model"] == str(first.bundle.resolve())
    (first.folder / "bundle").rename(tmp_path / "gone")
    other = tuned(own, tmp_path / "c", "full")
    other.bundle.rename(first.bundle)
    with pytest.raises(BundleError, match="no longer the model that the run was started from"):
        zoo.train(out=second.folder, resume=True, settings={"train.epochs": 3})


def test_adapters_without_peft(own, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(InputError, match=r"adapters need peft: pip install 'scizoo\[lora\]'"):
        tuned(own, tmp_path / "r", "lora")
