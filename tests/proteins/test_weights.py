"""Files in the published format: read as fair-esm reads them, and nothing in them is run."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import esm
import numpy as np
import pytest
import torch

import zoo
from zoo.core.bundle import read_spec
from zoo.errors import BundleError, DownloadError, ZooError
from zoo.proteins import weights
from zoo.proteins.checkpoint import read_checkpoint
from zoo.proteins.esm2 import ESM2
from zoo.proteins.featurise import featurise
from zoo.resources import sha256_of
from zoo.workflows.published import published_bundle

sys.path.insert(0, str(Path(__file__).parent))
from published import NAME, SIZES, Payload, official, written


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    for name in ("ZOO_MIRROR", "ZOO_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


def by_fair_esm(path):
    contacts = path.with_name(f"{path.stem}-contact-regression.pt")
    data = [torch.load(p, weights_only=False) for p in (path, contacts)]
    model, alphabet = esm.pretrained.load_model_and_alphabet_core(path.stem, *data)
    return model.eval(), alphabet.get_batch_converter()


def test_a_file_gives_what_fair_esms_loader_gives(tmp_path, sequences):
    path = written(tmp_path)
    theirs, convert = by_fair_esm(path)
    texts = sequences(12, 30)
    rows = convert([(str(i), s) for i, s in enumerate(texts)])[2]
    with torch.no_grad():
        want = theirs(rows, repr_layers=[2], return_contacts=True)
    found = read_checkpoint(path, path.with_name(f"{NAME}-contact-regression.pt"))
    model = ESM2(["token", "pair", "residue"], **found.hparams)
    model.load_state_dict({**found.state, **found.contact}, strict=True)
    batch = featurise(texts, {}).items.collate(np.arange(2), torch.float32)
    with torch.no_grad():
        got = model.eval()(batch)
    flat = torch.cat([want["representations"][2][0, 1:13], want["representations"][2][1, 1:31]])
    torch.testing.assert_close(got["residue"], flat, rtol=1e-5, atol=1e-5)
    logits = torch.cat([want["logits"][0, 1:13], want["logits"][1, 1:31]])
    torch.testing.assert_close(got["token"], logits, rtol=1e-5, atol=1e-5)
    contacts = torch.cat([want["contacts"][0, :12, :12].reshape(-1), want["contacts"][1].reshape(-1)])
    torch.testing.assert_close(got["pair"][:, 0].sigmoid(), contacts, rtol=1e-5, atol=1e-5)


def test_it_becomes_a_bundle_once_and_predicts(tmp_path, monkeypatch):
    path = written(tmp_path)
    folder = published_bundle(str(path))
    spec = read_spec(folder)
    assert spec.provenance.origin["sha256"] == sha256_of(path)
    assert spec.architecture.hparams["width"] == 40
    assert "encoder.lm_head.weight" not in (folder / "model.safetensors").read_bytes().decode("latin1")
    monkeypatch.setattr(weights, "read_checkpoint", None)  # it is not read again
    assert published_bundle(str(path)) == folder
    predicted = zoo.load(path).predict(["MKTAY", "MK1"])
    assert len(eval(predicted["residue_pred"][0])) == 5  # noqa: S307 - a JSON list of letters
    assert "'1' at residue 3" in predicted["error"][1]


def test_a_name_does_not_decide_what_a_file_is(tmp_path):
    path = written(tmp_path, "esm1v_t33_650M")
    assert read_checkpoint(path).hparams == {"layers": 2, "width": 40, "heads": 4, "token_dropout": True}


def test_the_contact_file_is_missed_only_by_those_who_ask_for_contacts(tmp_path):
    path = written(tmp_path, contact=False)
    folder = published_bundle(str(path))
    with pytest.raises(BundleError, match="without a contact head"):
        weights.contact_state(folder)
    with pytest.raises(BundleError, match=rf"put {NAME}-contact-regression\.pt beside it"):
        published_bundle(str(path), extra=True)
    written(tmp_path)
    assert weights.contact_state(published_bundle(str(path), extra=True))["contact_head.regression.weight"].shape == (
        1,
        8,
    )


@pytest.mark.parametrize("place", ["cfg", "model", "new"])
def test_a_pickled_payload_does_not_run(tmp_path, place):
    content, _ = official()
    content[place] = {**content.get(place, {}), "x": Payload(tmp_path / "ran")}
    path = written(tmp_path, content=content)
    with pytest.raises(BundleError, match="none of its code was run"):
        read_checkpoint(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("keep", [0, 100, 0.5, -9])
def test_a_file_cut_short_gives_one_error(tmp_path, keep):
    path = written(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(BundleError, match="cut short, damaged"):
        zoo.load(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c["model"].pop("encoder.lm_head.bias"), "lm_head.bias is missing"),
        (lambda c: c["model"].update(extra=torch.zeros(1)), "extra is unknown"),
        (lambda c: setattr(c["cfg"]["model"], "encoder_embed_dim", 48), r"\(33, 40\) instead of \(33, 48\)"),
        (lambda c: setattr(c["cfg"]["model"], "encoder_attention_heads", 3), "multiple of twice"),
        (lambda c: delattr(c["cfg"]["model"], "encoder_layers"), "does not name encoder_layers"),
        (lambda c: c.pop("cfg"), "does not name"),
        (lambda c: c.pop("model"), "no tensors under the name `model`"),
        (lambda c: c["model"].update({"encoder.lm_head.weight": torch.zeros(33, 40)}), "differs from the embedding"),
        (
            lambda c: c["model"].update(
                {"encoder.sentence_encoder.layers.0.self_attn.rot_emb.inv_freq": torch.ones(5)}
            ),
            "rotary",
        ),
    ],
)
def test_what_is_no_esm2_says_why(tmp_path, change, says):
    content, _ = official()
    change(content)
    with pytest.raises(BundleError, match=says):
        read_checkpoint(written(tmp_path, content=content))


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """A server in the publisher's place; returns its folder and the paths that were asked for."""
    root, asked = tmp_path / "server", []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            path = root / Path(self.path.lstrip("/"))
            data = path.read_bytes() if path.is_file() else None
            self.send_response(404 if data is None else 200)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            cut = (root / "cut").exists()
            self.wfile.write((data or b"")[: len(data or b"") // 2 if cut else None])

        def log_message(self, *_):
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(weights, "BASE", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setitem(weights.SIZES, "esm2-8m", SIZES)
    for folder in ("models", "regression"):
        (root / folder).mkdir(parents=True)
    yield root, asked
    server.shutdown()
    server.server_close()
    thread.join()


FILE = weights.FILES["esm2-8m"]


def test_a_name_is_fetched_once_and_its_checksum_recorded(publisher):
    root, asked = publisher
    path = written(root / "models", FILE)
    (root / "models" / f"{FILE}-contact-regression.pt").rename(root / "regression" / f"{FILE}-contact-regression.pt")
    folder = published_bundle("esm2-8m")
    assert read_spec(folder).provenance.origin["sha256"] == sha256_of(path)
    assert published_bundle("esm2-8m", extra=True) == folder
    assert asked == [f"/models/{FILE}.pt", f"/regression/{FILE}-contact-regression.pt"]
    assert zoo.load("esm2-8m").spec.name == "esm2-8m"


def test_a_name_is_taken_from_the_mirror(publisher, tmp_path, monkeypatch):
    _, asked = publisher
    (tmp_path / "mirror").mkdir()
    written(tmp_path / "mirror", FILE)
    monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "mirror"))
    assert read_spec(published_bundle("esm2-8m", extra=True)).name == "esm2-8m"
    assert asked == []


def test_a_damaged_cache_is_fetched_again_and_a_cut_reply_is_refused(publisher, tmp_path):
    root, asked = publisher
    written(root / "models", FILE, contact=False)
    (root / "cut").touch()
    with pytest.raises(DownloadError, match="truncated"):
        published_bundle("esm2-8m")
    (root / "cut").unlink()
    published_bundle("esm2-8m")
    (cached,) = (tmp_path / "cache").rglob(f"{FILE}.pt")
    cached.write_bytes(b"x")
    published_bundle("esm2-8m")
    assert asked.count(f"/models/{FILE}.pt") == 3


def test_a_missing_contact_file_is_an_error_only_for_contacts(publisher):
    root, _ = publisher
    written(root / "models", FILE, contact=False)
    published_bundle("esm2-8m")
    with pytest.raises(DownloadError, match="contact-regression"):
        published_bundle("esm2-8m", extra=True)


def test_another_model_under_a_name_is_refused(publisher, monkeypatch):
    root, _ = publisher
    written(root / "models", FILE)
    monkeypatch.setitem(weights.SIZES, "esm2-8m", (6, 320, 20))
    with pytest.raises(BundleError, match="2 layers, width 40"):
        published_bundle("esm2-8m")


def test_an_unknown_name_offers_the_nearest(tmp_path):
    with pytest.raises(ZooError, match="Did you mean 'esm2-650m'"):
        zoo.load("esm2-65m")


def test_contacts_of_a_file_are_fair_esms(tmp_path, sequences):
    path = written(tmp_path)
    theirs, convert = by_fair_esm(path)
    texts = sequences(12, 30)
    want = theirs.predict_contacts(convert([(str(i), s) for i, s in enumerate(texts)])[2]).detach().numpy()
    found = zoo.embed(str(path), texts, level="pair")
    for i, text in enumerate(texts):
        np.testing.assert_allclose(found.of(str(i)), want[i, : len(text), : len(text)], rtol=1e-5, atol=1e-5)
