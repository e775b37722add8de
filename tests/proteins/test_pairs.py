"""Contacts of residues: trained, scored and predicted like any other target, from a file of one's own."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import average_precision_score

import zoo
from zoo.core.bundle import read_spec
from zoo.core.losses import MaskedLoss
from zoo.core.types import Target
from zoo.errors import DataError, InputError
from zoo.proteins.esm2 import ESM2
from zoo.proteins.featurise import featurise
from zoo.workflows.build import load_data
from zoo.workflows.madeup import labelled_examples
from zoo.workflows.owndata import own_task

SETTINGS = {
    "model.hparams.layers": 2,
    "model.hparams.width": 32,
    "model.hparams.heads": 4,
    "train.epochs": 30,
    "train.lr": 0.01,
    "train.batch_size": 16,
    "train.select": "last",
    "train.ema": None,
    "split.method": "random",
    "threads": 1,
    "device": "cpu",
}
MARKS = ("CC", "WD", "FY")


def marked(n=100, seed=0):
    """Proteins of 20 to 40 residues in which two of a kind, rare elsewhere, are in contact: learnable, and sparse."""
    rng = np.random.default_rng(seed)
    texts, contacts = [], []
    for _ in range(n):
        letters = rng.choice(list("AEGKLST"), int(rng.integers(20, 41)))
        places = rng.permutation(len(letters))[:6].reshape(3, 2)
        for (i, j), (a, b) in zip(places.tolist(), MARKS, strict=True):
            letters[i], letters[j] = a, b
        texts.append("".join(letters))
        contacts.append(places.tolist())
    return texts, contacts


def write(path, texts, contacts, **more):
    cells = [own if own is None else json.dumps(own) for own in contacts]
    pd.DataFrame({"sequence": texts, "contacts": cells, **more}).to_csv(path, index=False)
    return path


def labels_of(path):
    task, dataset, notes = own_task(path, ["contacts"], kind=None, input_column=None)
    return load_data(task, dataset, {}, folder=path.parent, mirror=None).records, notes


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("own") / "own.csv", *marked())


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
        return zoo.train(data=data, target="contacts", settings=SETTINGS, out=tmp_path_factory.mktemp("run") / "run")


def test_contacts_are_learnt(run):
    spec = read_spec(run.bundle).targets[0]
    assert (spec.level, spec.kind, spec.separation) == ("pair", "binary", 6)
    losses = pd.read_csv(run.folder / "metrics.csv")["val_loss"].tolist()
    assert losses[-1] < 0.5 * losses[0]
    assert list(run.metrics["model"]) == ["average_precision", "roc_auc", "precision_at_l"]
    model, chance = (run.metrics[name]["average_precision"].value for name in ("model", "proteins:majority"))
    assert chance < 0.02
    assert model > 0.7
    assert model > run.metrics["proteins:separation"]["average_precision"].value + 0.5


def test_contacts_shifted_by_one_residue_are_noticed(run, tmp_path):
    texts, contacts = marked()
    shifted = [[[(i + 1) % len(t), (j + 1) % len(t)] for i, j in own] for t, own in zip(texts, contacts, strict=True)]
    scores = {}
    for name, own in (("right", contacts), ("turned", [[p[::-1] for p in c] for c in contacts]), ("shifted", shifted)):
        scores[name] = zoo.evaluate(run.bundle, data=write(tmp_path / f"{name}.csv", texts, own))["average_precision"]
    assert scores["right"].value > 0.7
    assert scores["turned"] == scores["right"]
    assert scores["shifted"].value < 0.1


def test_evaluation_and_files_of_predictions_say_the_same(run, data):
    again = zoo.evaluate(run.bundle)
    for name, found in again.items():
        assert found.value == pytest.approx(run.metrics["model"][name].value, rel=1e-6)
    table = pd.read_csv(run.folder / "predictions.csv")
    _, contacts = marked()
    predicted = run.load().predict(data).iloc[table["row"]]
    for column in ("contacts_pred", "contacts_prob"):
        for a, b in zip(table[column], predicted[column], strict=True):
            np.testing.assert_allclose(json.loads(a), json.loads(b), rtol=1e-5, atol=1e-5)
    for row, own in zip(table["row"], table["contacts"], strict=True):
        assert json.loads(own) == sorted(sorted(p) for p in contacts[row] if abs(p[0] - p[1]) >= 6)


def test_predictions_are_the_likely_ones_of_the_whole_map(run, data):
    """The lists agree with the maps of ``embed``, and those with the score of the run."""
    texts, contacts = marked()
    predicted = run.load().predict(data)
    maps = zoo.embed(run.bundle, data, level="pair")
    true, pred, listed = [], [], 0
    for row, text in enumerate(texts):
        own = maps.values[maps.ptr[row] : maps.ptr[row + 1]].reshape(len(text), len(text))
        np.testing.assert_allclose(own, own.T, rtol=1e-5)
        far = np.triu(np.ones_like(own, bool), 6)
        pairs = json.loads(predicted["contacts_pred"][row])
        probabilities = json.loads(predicted["contacts_prob"][row])
        assert pairs == np.argwhere(far & (own >= 0.5)).tolist()
        np.testing.assert_allclose(probabilities, [own[i, j] for i, j in pairs], rtol=1e-5)
        label = np.zeros_like(far)
        for i, j in contacts[row]:
            label[min(i, j), max(i, j)] = True
        true.append(label[far])
        pred.append(own[far])
        listed += len(pairs)
    assert listed > 50
    want = average_precision_score(np.concatenate(true), np.concatenate(pred))
    assert zoo.evaluate(run.bundle, data=data)["average_precision"].value == pytest.approx(want, rel=1e-6)


def test_a_protein_predicts_the_same_alone_and_beside_a_long_one(run):
    texts, model = marked()[0][:3], run.load().network
    long = "MKTAYIAK" * 12

    def logits(inputs):
        items = featurise(inputs, {}).items
        with torch.no_grad():
            found = model.encoder(items.collate(np.arange(len(inputs)), torch.float32))["pair"]
        return torch.split(found[:, 0], np.diff(items.node_ptr("pair")).tolist())

    together = logits([*texts, long])
    for text, own in zip(texts, together, strict=False):
        torch.testing.assert_close(logits([text])[0], own, rtol=1e-5, atol=1e-5)


def test_a_contact_counts_once_and_masked_pairs_not_at_all(data, tmp_path):
    """The gradient at the logits: half of the matrix, the near pairs and unresolved residues have none, whatever the
    labels there; rows without labels are left out."""
    texts, contacts = marked(6)
    task, dataset, _ = own_task(data, ["contacts"], kind=None, input_column=None)
    target = task.targets[0].model_copy(update={"mask_column": "resolved"})
    task = task.model_copy(update={"targets": [target]})
    resolved = ["1" * 5 + "0" * 5 + "1" * (len(t) - 10) for t in texts]
    path = write(tmp_path / data.name, texts, [*contacts[:5], None], resolved=resolved)
    file = dataset.files[0].model_copy(update={"sha256": zoo.resources.sha256_of(path), "rows": len(texts)})
    dataset = dataset.model_copy(update={"files": [file]})
    records = load_data(task, dataset, {}, folder=tmp_path, mirror=None).records
    assert [p.row for p in records.report.dropped] == [5]
    labels = records.labels["contacts"]
    values = torch.from_numpy(labels.values).double()
    mask = torch.from_numpy(labels.mask)
    logits = torch.randn(values.shape, dtype=torch.float64, requires_grad=True)
    for wild in (0.0, float("nan"), 1e30):
        spoilt = torch.where(mask, values, wild)
        found = MaskedLoss(target)(logits, Target(spoilt, mask))
        (gradient,) = torch.autograd.grad(found.total, logits)
        torch.testing.assert_close(gradient, torch.where(mask, logits.sigmoid() - values, 0.0))
        assert int(found.count) == int(mask.sum())
    first = mask[: len(texts[0]) ** 2].reshape(len(texts[0]), -1)
    known = np.asarray(list(resolved[0])) == "1"
    assert (first.numpy() == np.triu(np.outer(known, known), 6)).all()


def test_rows_worked_off_a_few_at_a_time_give_the_same(monkeypatch):
    encoder = ESM2(["pair"], layers=2, width=16, heads=2)
    items = featurise(marked(7)[0], {}).items
    tokens = items.collate(np.arange(7), torch.float32)
    want = encoder(tokens)["pair"].detach()
    monkeypatch.setattr("zoo.proteins.esm2.MOST_NUMBERS", 2 * 4 * tokens.rows.shape[1] ** 2)
    lengths = []
    encoder.layers[0].register_forward_pre_hook(lambda _, x: lengths.append(len(x[0])))
    with torch.no_grad():
        torch.testing.assert_close(encoder(tokens)["pair"], want, rtol=1e-5, atol=1e-5)
    assert lengths == [2, 2, 2, 1]


def test_a_batch_without_a_protein_has_a_gradient_of_zero():
    encoder = ESM2(["pair"], layers=2, width=16, heads=2)
    items = featurise(["MKTAY"], {}).items
    found = encoder(items.collate(np.zeros(0, np.int64), torch.float32))["pair"]
    assert found.shape == (0, 1)
    found.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in encoder.parameters())


def test_of_the_last_layer_only_what_maps_need_is_built(run, data):
    names = [n for n, _ in run.load().network.encoder.named_parameters() if n.startswith("layers.1.")]
    parts = {n.split(".")[2] + "." + n.split(".")[3] for n in names}
    assert parts == {"self_attn.q_proj", "self_attn.k_proj", "self_attn_layer_norm.weight", "self_attn_layer_norm.bias"}
    with pytest.raises(InputError, match=r"trained for contacts alone.*--layer 1, or --level pair"):
        zoo.embed(run.bundle, data)
    assert zoo.embed(run.bundle, data, layer=1).values.shape == (100, 32)


@pytest.mark.parametrize("mode", ["full", "lora", "head"])
def test_a_trained_encoder_is_taught_contacts(run, data, tmp_path, mode):
    settings = {**SETTINGS, "train.epochs": 1, "baseline": False}
    settings = {n: v for n, v in settings.items() if not n.startswith("model.")}
    sequences = pd.DataFrame({"sequence": marked(30, seed=1)[0]})
    sequences["y"] = sequences["sequence"].str.count("L") / 10
    sequences.to_csv(tmp_path / "y.csv", index=False)
    start = zoo.train(data=tmp_path / "y.csv", target="y", settings={**SETTINGS, "train.epochs": 1}, out=tmp_path / "s")
    tuned = zoo.finetune(
        str(start.bundle), data=data, target="contacts", settings={**settings, "start.mode": mode}, out=tmp_path / "t"
    )
    assert tuned.metrics["model"]["average_precision"].value is not None
    own, old = tuned.load().network.encoder.state_dict(), start.load().network.encoder.state_dict()
    same = [n for n in own if n in old and torch.equal(own[n], old[n])]
    assert bool(same) == (mode != "full")
    assert json.loads(tuned.load().predict(data)["contacts_pred"][0]) is not None


def test_bad_cells_and_long_proteins_are_told(data, tmp_path):
    texts, contacts = marked(10)
    n = len(texts[3])
    bad = [[[0, n]] if row == 3 else own for row, own in enumerate(contacts)]
    with pytest.raises(DataError, match=rf"(?s)bad.csv.*row 3 \(line 5\): pair 0: \[0, {n}\] is outside the input of"):
        labels_of(write(tmp_path / "bad.csv", texts, bad))
    smiles = pd.DataFrame({"smiles": ["CCO", "CCN"], "contacts": ["[[0, 2]]", "[]"]})
    smiles.to_csv(tmp_path / "smiles.csv", index=False)
    with pytest.raises(DataError, match=r"column 'contacts' lists pairs \[i, j\].*molecules have no such level"):
        own_task(tmp_path / "smiles.csv", ["contacts"], kind=None, input_column=None)
    task, dataset, _ = own_task(data, ["contacts"], kind=None, input_column=None)
    options = {"max_length": 30, "long": "window", "overlap": 5}
    with pytest.raises(InputError, match=r"pairs need a whole protein.*max_length=40.*featuriser.long=error"):
        load_data(task, dataset, options, folder=data.parent, mirror=None)
    cropped = load_data(task, dataset, {"max_length": 30, "long": "crop"}, folder=data.parent, mirror=None).records
    assert cropped.report.counts["pairs of contacts dropped, residue removed"] > 10


def test_a_bundle_without_its_data_is_verified_on_made_up_contacts(run, tmp_path):
    task, dataset = labelled_examples(run.load(), run.bundle, tmp_path / "made.csv")
    assert task.targets[0].level == "pair"
    records = load_data(task, dataset, {}, folder=tmp_path, mirror=None).records
    labels = records.labels["contacts"]
    assert 0.005 < labels.values[labels.mask].mean() < 0.02
