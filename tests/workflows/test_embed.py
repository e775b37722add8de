"""Embeddings: the same alone and batched, in every format, with ids; contacts."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open

import zoo
from zoo.cli import main
from zoo.errors import DataError, InputError
from zoo.proteins.alphabet import AMINO_ACIDS
from zoo.workflows.embed import batches, embed


def sequences(*lengths, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(AMINO_ACIDS), n)) for n in lengths]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A small language model of proteins."""
    folder = tmp_path_factory.mktemp("include")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(folder / "cache"))
        frame = pd.DataFrame({"sequence": sequences(*range(20, 60)), "y": np.arange(40.0)})
        frame.to_csv(folder / "own.csv", index=False)
        settings = {"train.epochs": 1, "model.hparams.layers": 3, "model.hparams.width": 16, "model.hparams.heads": 2}
        run = zoo.train(
            data=folder / "own.csv", target="y", settings={**settings, "baseline": False}, out=folder / "run"
        )
    return run.bundle


@pytest.fixture
def fasta(tmp_path):
    texts = {"long": sequences(90)[0], "bad": "MK1", "short": "mktay", "middle": sequences(30, seed=1)[0]}
    path = tmp_path / "own.fasta"
    path.write_text("".join(f">{name} of mine\n{text}\n" for name, text in texts.items()))
    return path


def test_a_sequence_is_the_mean_of_its_residues_and_the_same_alone(bundle):
    texts = sequences(50, 7, 200)
    whole, residues = embed(bundle, texts), embed(bundle, texts, level="residue")
    assert whole.values.shape == (3, 16)
    assert residues.values.shape == (257, 16)
    for i, text in enumerate(texts):
        own = residues.of(str(i))
        assert len(own) == len(text)
        np.testing.assert_allclose(whole.values[i], own.mean(0), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(embed(bundle, [text]).values[0], whole.values[i], rtol=1e-5, atol=1e-5)


def test_layers_are_those_of_the_encoder(bundle):
    text = sequences(25)
    model = zoo.load(bundle)
    encoder = model.network.encoder
    batch = zoo.proteins.featurise.featurise(text, {}).items.collate(np.arange(1), torch.float32)
    with torch.inference_mode():
        want = encoder.run(batch, layers=range(4)).states
    for layer in range(4):
        found = embed(model, text, level="residue", layer=layer).values
        np.testing.assert_allclose(found, want[layer][0, 1:-1].numpy(), rtol=1e-5, atol=1e-5)
    assert (embed(model, text).values == embed(model, text, layer=3).values).all()
    with pytest.raises(InputError, match=r"layers 0 \(the embedding\) to 3"):
        embed(model, text, layer=4)


def test_a_file_keeps_ids_and_says_what_was_left_out(bundle, fasta, tmp_path, capsys):
    out = tmp_path / "own.npz"
    assert main(["embed", str(bundle), str(fasta), "-o", str(out), "--level", "residue", "--threads", "1"]) == 0
    said = capsys.readouterr()
    assert "3 inputs, 1 left out: 125 x 16 float32" in said.out
    assert "row 1 (line 3, 'bad') left out: 'MK1': '1' at residue 3" in said.err
    with np.load(out, allow_pickle=False) as found:
        assert found["ids"].tolist() == ["long", "short", "middle"]
        assert found["rows"].tolist() == [0, 2, 3]
        assert found["ptr"].tolist() == [0, 90, 95, 125]
        assert found["source"][90:95].tolist() == [0, 1, 2, 3, 4]
        about = json.loads(str(found["about"]))
        assert (about["level"], about["layer"]) == ("residue", "last")
        values = found["values"]
    np.testing.assert_allclose(values[90:95], embed(bundle, ["MKTAY"], level="residue").values, rtol=1e-5, atol=1e-5)


def test_the_three_formats_hold_the_same(bundle, fasta, tmp_path):
    want = embed(bundle, fasta, out=tmp_path / "own.safetensors", dtype="float16")
    assert want.values.dtype == np.float16
    with safe_open(tmp_path / "own.safetensors", "np") as found:
        assert json.loads(found.metadata()["ids"]) == want.ids
        assert (found.get_tensor("values") == want.values).all()
    embed(bundle, fasta, out=tmp_path / "own.npz", dtype="float16")
    assert (np.load(tmp_path / "own.npz")["values"] == want.values).all()
    pytest.importorskip("pyarrow")
    embed(bundle, fasta, out=tmp_path / "own.parquet")
    frame = pd.read_parquet(tmp_path / "own.parquet")
    assert frame["id"].tolist() == want.ids
    np.testing.assert_allclose(np.stack(frame["values"]), want.values.astype(np.float32), rtol=2e-3, atol=2e-3)


def test_what_is_wrong_is_said(bundle, fasta, tmp_path):
    with pytest.raises(InputError, match=r"\.npz, \.safetensors, \.parquet"):
        embed(bundle, fasta, out=tmp_path / "own.csv")
    with pytest.raises(InputError, match="pair, residue, sequence"):
        embed(bundle, fasta, level="atom")
    with pytest.raises(DataError, match=r"row 1 \(line 3, 'bad'\)"):
        embed(bundle, fasta, on_invalid="error")
    frame = pd.DataFrame({"id": ["a", "b", "a"], "sequence": ["MK", "MT", "MY"]})
    frame.to_csv(tmp_path / "twice.csv", index=False)
    with pytest.raises(DataError, match="'a' is also row 0"):
        embed(bundle, tmp_path / "twice.csv")
    with pytest.raises(DataError, match="no column 'name'"):
        embed(bundle, frame, id_column="name")


def test_a_missing_cell_is_no_protein(bundle):
    frame = pd.DataFrame({"sequence": ["MKTAY", None, float("nan"), "nan"]})
    found = embed(bundle, frame)
    assert found.ids == ["0"]
    assert [p.row for p in found.problems] == [1, 2, 3]


def test_contacts_need_a_contact_head(bundle):
    with pytest.raises(zoo.ZooError, match="without a contact head"):
        embed(bundle, ["MKTAY"], level="pair")


def test_molecules_have_features_of_the_level_they_were_trained_at(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    frame = pd.DataFrame({"smiles": ["C" * n for n in range(1, 31)], "y": np.arange(30.0)})
    frame.to_csv(tmp_path / "own.csv", index=False)
    settings = {"train.epochs": 1, "model.hparams.width": 16, "baseline": False, "split.method": "random"}
    run = zoo.train(data=tmp_path / "own.csv", target="y", settings=settings, out=tmp_path / "run")
    found = embed(run.bundle, ["CCO", "c1ccccc1"])
    assert found.values.shape == (2, 16)
    with pytest.raises(InputError, match="trained at level molecule"):
        embed(run.bundle, ["CCO"], level="atom")


def test_batches_are_of_like_cost_and_hold_every_item_once():
    class Items:
        def cost(self):
            return np.random.default_rng(0).integers(10, 1000, 500).astype(float)

    found = list(batches(Items(), np.arange(500), 5000))
    cost = Items().cost()
    assert sorted(np.concatenate(found).tolist()) == list(range(500))
    assert all(len(own) * cost[own].max() <= 5000 for own in found)
    assert sum(len(own) * cost[own].max() for own in found) < 1.1 * cost.sum()
