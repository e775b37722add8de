"""The encoder against fair-esm's own module, and what may not change its outputs."""

import esm
import numpy as np
import pytest
import torch
from esm import multihead_attention
from torch import nn

from zoo.core.domain import get_domain
from zoo.errors import InputError
from zoo.proteins import attention
from zoo.proteins.alphabet import MASK, TOKENS
from zoo.proteins.attention import rotary_tables, turn
from zoo.proteins.esm2 import ESM2
from zoo.proteins.featurise import featurise

ALPHABET = esm.data.Alphabet.from_architecture("ESM-1b")
SIZES = {"8M": (6, 320, 20), "35M": (12, 480, 20)}
SMALL = {"layers": 2, "width": 16, "heads": 2}
LENGTHS = {"padded": (5, 40, 17, 1), "unpadded": (23, 23, 23)}


def tokens(sequences, dtype=torch.float64, **options):
    items = featurise(sequences, options).items
    return items.collate(np.arange(len(items)), dtype)


def reference(size, dtype):
    torch.manual_seed(0)
    model = esm.model.esm2.ESM2(*size, ALPHABET)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim < 2:  # biases and norms that start as zeros and ones would hide a mistake
                nn.init.normal_(p, mean=0.5, std=0.2)
        # Left at its deviation of 1, logits reach 80, and rounding puts fair-esm itself 2e-5 from its float64.
        model.embed_tokens.weight.mul_(0.1)
    return model.to(dtype).eval()


def ours(theirs, size, levels=("token", "pair", "residue")):
    model = ESM2(levels, **dict(zip(("layers", "width", "heads"), size, strict=True)))
    state = {n: v for n, v in theirs.state_dict().items() if not n.endswith(("inv_freq", "lm_head.weight"))}
    model.to(next(theirs.parameters()).dtype).load_state_dict(state, strict=True)
    return model.eval()


def small(levels=("residue", "sequence"), dtype=torch.float64, **hparams):
    torch.manual_seed(0)
    model = ESM2(levels, **{**SMALL, **hparams}).to(dtype)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim < 2:
                nn.init.normal_(p, std=0.5)
    return model


def test_the_alphabet_is_fair_esms():
    assert list(TOKENS) == ALPHABET.all_toks


@pytest.mark.parametrize("padding", LENGTHS)
@pytest.mark.parametrize(
    ("size", "dtype", "exact", "tolerance"),
    [
        ("8M", torch.float32, False, 1e-5),
        ("35M", torch.float32, False, 1e-5),
        ("8M", torch.float64, True, 1e-10),
        ("35M", torch.float64, True, 1e-10),
        ("8M", torch.float64, False, 1e-6),
    ],
)
def test_every_layer_the_logits_and_contacts_are_fair_esms(
    sequences, monkeypatch, padding, size, dtype, exact, tolerance
):
    if exact:  # fair-esm computes the softmax in float32 whatever the model's type
        monkeypatch.setattr(multihead_attention, "utils_softmax", lambda x, dim, **_: x.softmax(dim))
    theirs = reference(SIZES[size], dtype)
    model = ours(theirs, SIZES[size])
    batch = tokens(sequences(*LENGTHS[padding]), dtype)
    rows = ALPHABET.get_batch_converter()([(str(i), s) for i, s in enumerate(sequences(*LENGTHS[padding]))])[2]
    assert torch.equal(rows, batch.rows)
    batch.rows[0, 2:4] = batch.rows[1, 5] = MASK
    every = range(len(model.layers) + 1)
    with torch.no_grad():
        want = theirs(batch.rows, repr_layers=every, return_contacts=True)
        fused, explicit = model.run(batch, layers=every), model.run(batch, layers=every, maps=True)
        found = model(batch)
    place = batch.is_token()
    for layer in every:
        for run in (fused, explicit):
            close(run.states[layer][place], want["representations"][layer][place], tolerance)
    close(explicit.maps, want["attentions"], tolerance)
    close(found["token"], want["logits"].flatten(0, 1)[batch.place], tolerance)
    contacts = torch.cat([want["contacts"][i, :n, :n].reshape(-1, 1) for i, n in enumerate(LENGTHS[padding])])
    close(found["pair"].sigmoid(), contacts, tolerance)


def close(got, want, tolerance):
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("pooling", ["mean", "attention", "first"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_a_protein_is_the_same_alone_and_beside_a_long_one(sequences, pooling, dtype, tolerance):
    model = small(("residue", "sequence", "token"), dtype, pooling=pooling).eval()
    texts = sequences(30, 200, 1)
    together = model(tokens(texts, dtype))
    for i, text in enumerate(texts):
        alone = model(tokens([text], dtype))
        start = sum(map(len, texts[:i]))
        close(together["sequence"][i : i + 1], alone["sequence"], tolerance)
        for level in ("residue", "token"):
            close(together[level][start : start + len(text)], alone[level], tolerance)


@pytest.mark.parametrize("pooling", ["mean", "attention", "first"])
def test_garbage_in_the_padding_changes_no_bit_of_output_or_gradient(sequences, pooling):
    def outcome(change):
        model = small(("residue", "sequence", "token", "pair"), pooling=pooling)
        batch = tokens(sequences(30, 60, 1))
        padding = ~batch.is_token()
        assert padding.any()
        if change:
            batch.rows[padding] = torch.randint(4, len(TOKENS), (int(padding.sum()),))
        found = model(batch)
        sum((out.sin()).sum() for out in found.values()).backward()
        return found, [p.grad for p in model.parameters()]

    (want, grads), (got, changed) = outcome(change=False), outcome(change=True)
    assert all(torch.equal(got[level], want[level]) for level in want)
    assert all(torch.equal(a, b) for a, b in zip(changed, grads, strict=True))


def test_mean_and_attention_pooling_by_hand(sequences):
    batch = tokens(sequences(4, 7))
    x = torch.randn(11, 16, dtype=torch.float64)
    mean, attention = small(pooling="mean").pooling, small(pooling="attention").pooling
    close(mean(x, batch), torch.stack([x[:4].mean(0), x[4:].mean(0)]), 1e-12)
    score = torch.tanh(x @ attention.project.weight.T + attention.project.bias) @ attention.score
    want = torch.stack([score[own].softmax(0) @ x[own] for own in (slice(0, 4), slice(4, 11))])
    close(attention(x, batch), want, 1e-12)


def test_windows_are_blended_and_the_output_is_as_long_as_the_input(sequences):
    model = small(("residue",)).eval()
    options = {"long": "window", "max_length": 20, "overlap": 8}
    long, short = sequences(47, 9)
    batch = tokens([short, long], **options)
    assert batch.windowed
    assert batch.rows.shape == (5, 22)
    found = model(batch)["residue"]
    assert found.shape == (56, 16)
    close(found[:9], model(tokens([short]))["residue"], 1e-10)
    # By hand: 47 residues in 4 windows of 20 that begin at 0, 9, 18, 27; a place counts by its distance from the end.
    total, weights = torch.zeros(47, 16, dtype=torch.float64), torch.zeros(47, 1, dtype=torch.float64)
    ramp = torch.tensor([min(i + 1, 20 - i) for i in range(20)], dtype=torch.float64)[:, None]
    for start in (0, 9, 18, 27):
        own = slice(start, start + 20)
        total[own] += ramp * model(tokens([long[own]]))["residue"]
        weights[own] += ramp
    close(found[9:], total / weights, 1e-10)


def test_contacts_of_a_protein_in_windows_are_refused(sequences):
    model = small(("pair",))
    with pytest.raises(InputError, match=r"max_length"):
        model(tokens(sequences(50), long="window", max_length=20, overlap=5))


def test_only_what_is_asked_for_is_built():
    names = {n.split(".")[0] for n, _ in small(("residue",)).named_parameters()}
    assert names == {"embed_tokens", "layers", "emb_layer_norm_after"}
    assert "lm_head.weight" not in small(("token",)).state_dict()  # it is the embedding


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_checkpointing_gives_the_same_gradient(sequences, dropout):
    grads = []
    for flag in (False, True):
        model = small(("sequence",), checkpointing=flag, dropout=dropout).train()
        torch.manual_seed(1)
        model(tokens(sequences(30, 12)))["sequence"].sin().sum().backward()
        grads.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_dropout_is_of_training_alone(sequences):
    given = tokens(sequences(30, 12))
    want = small(("residue",)).eval()(given)["residue"]
    model = small(("residue",), dropout=0.3)
    assert torch.equal(model.eval()(given)["residue"], want)
    assert not torch.allclose(model.train()(given)["residue"], want, atol=0.1)


@pytest.mark.parametrize("level", ["residue", "sequence", "token"])
def test_every_parameter_that_is_built_has_a_gradient(sequences, level):
    model = small((level,), pooling="attention")
    model(tokens(sequences(9, 4)))[level].sin().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_no_autocast_rounds_what_turns_queries_and_keys(sequences, monkeypatch):
    """Tables and the turned queries and keys, as the attention sees them, are those of float32 to the last bit."""
    turned = []

    def seen(x, cos, sin):
        turned.append((x, cos, sin, turn(x, cos, sin)))
        return turned[-1][-1]

    monkeypatch.setattr(attention, "turn", seen)
    model = small(("residue",), torch.float32)
    batch = tokens(sequences(700), torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(batch)
    want = rotary_tables(702, 8, torch.zeros(1))
    assert len(turned) == 2 * SMALL["layers"]
    for x, cos, sin, out in turned:
        assert x.dtype == torch.bfloat16
        assert torch.equal(cos, want[0])
        assert torch.equal(sin, want[1])
        assert torch.equal(out, turn(x.float(), *want))


def test_rotary_angles_are_exact_far_out_under_autocast():
    half = torch.zeros(1, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cos, _ = rotary_tables(4000, 32, half)
    assert cos.dtype == torch.float32
    want = np.cos(3999 * (1 / 10_000 ** (np.arange(0, 32, 2) / 32)))
    np.testing.assert_allclose(cos[3999, :16].numpy(), want, atol=5e-4)  # 3999 radians in float32


def test_bfloat16_stays_near_float32_and_its_gradient_is_finite(sequences):
    model = small(("sequence",), torch.float32, width=64)
    batch = tokens(sequences(300, 40), torch.float32)
    want = model(batch)["sequence"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = model(batch)["sequence"]
    assert float((got.float() - want).detach().abs().max() / want.abs().max()) < 0.05
    got.float().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_layers_are_numbered_from_the_embedding_up():
    model = small(("token",))
    layers = {name: model.layer_of(name) for name, _ in model.named_parameters()}
    assert layers["embed_tokens.weight"] == 0
    assert layers["layers.1.fc1.weight"] == 2
    assert layers["lm_head.bias"] == layers["emb_layer_norm_after.weight"] == 2
    assert set(layers.values()) == set(range(model.n_layers))


@pytest.mark.parametrize(
    ("hparams", "says"),
    [
        ({"width": 30, "heads": 4}, "multiple of twice"),
        ({"layers": 0}, "at least 1"),
        ({"pooling": "max"}, "mean"),
        ({"depth": 3}, "depth"),
    ],
)
def test_impossible_sizes_are_named(hparams, says):
    with pytest.raises(InputError, match=says):
        small(("sequence",), **hparams)


def test_the_domain_knows_the_architecture():
    assert get_domain("proteins").architectures["esm2"] == "zoo.proteins.esm2:ESM2"
