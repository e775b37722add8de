"""Half precision: what is computed in it, what is not, and that stopping and going on changes no bit."""

import itertools
import math
import sys
from pathlib import Path

import lightning as L
import pytest
import torch

import zoo.core.precision
from zoo.core.fit import fit, make_trainer
from zoo.core.losses import MaskedLoss
from zoo.core.precision import check_precision
from zoo.core.resume import read_checkpoint
from zoo.errors import DivergenceError, InputError
from zoo.specs.task import TrainSpec

sys.path.insert(0, str(Path(__file__).parent))
from test_resume import EVERYTHING, go, same
from toy import toy


def weights(module):
    return torch.cat([p.detach().reshape(-1) for p in module.network.parameters()])


@pytest.fixture
def float16_on_cpu(monkeypatch):
    """A CPU computes in float16 too, slowly; it stands in for a GPU here."""
    monkeypatch.setattr(zoo.core.precision, "check_precision", lambda precision, device: None)


def scaled(module, **options):
    """Return a trainer whose gradient scaler is of the options given."""
    trainer = make_trainer(module, folder=None, device="cpu")
    trainer.precision_plugin.scaler = torch.amp.GradScaler("cpu", **options)
    return trainer


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_only_the_forward_is_in_half_precision(float16_on_cpu, monkeypatch, precision):
    module, data = toy(precision=precision, epochs=2)
    seen = []
    call = MaskedLoss.__call__

    def spy(self, pred, target):
        seen.append((pred.dtype, target.values.dtype, torch.is_autocast_enabled("cpu")))
        return call(self, pred, target)

    monkeypatch.setattr(MaskedLoss, "__call__", spy)
    inside = []
    handle = module.network.encoder.layer.register_forward_hook(lambda m, args, out: inside.append(out.dtype))
    fit(module, data, make_trainer(module, folder=None, device="cpu"))
    handle.remove()
    assert set(seen) == {(torch.float32, torch.float32, False)}  # of training and of validation
    assert set(inside) == {{"bf16": torch.bfloat16, "fp16": torch.float16}[precision]}
    assert {p.dtype for p in module.network.parameters()} == {torch.float32}


def test_the_outputs_are_those_of_half_precision_by_hand():
    module, data = toy(precision="bf16")
    batch = next(iter(data.train_loader))[0]
    got = module(batch)["a"]
    layer, half = module.network.encoder.layer, torch.bfloat16
    x = torch.tanh(torch.nn.functional.linear(batch.inputs.x.to(half), layer.weight.to(half), layer.bias.to(half)))
    head = next(iter(module.network.heads.values()))
    hidden = torch.relu(torch.nn.functional.linear(x, head.trunk[0].weight.to(half), head.trunk[0].bias.to(half)))
    want = torch.nn.functional.linear(hidden, head.out.weight.to(half), head.out.bias.to(half))[:, :1]
    assert torch.equal(got, want.float())
    assert not torch.equal(got, module.network(batch)["a"])  # float32 differs


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_it_learns_as_in_single_precision(float16_on_cpu, precision):
    found = []
    for p in ("32", precision):
        module, data = toy(precision=p, epochs=20)
        fit(module, data, make_trainer(module, folder=None, device="cpu"))
        found.append(module.best["value"])
    assert found[1] == pytest.approx(found[0], rel=0.05)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_resumed_fit_has_the_same_bits(float16_on_cpu, tmp_path, precision):
    options = {**EVERYTHING, "precision": precision}
    _, whole = go(tmp_path / "whole", **options)
    want = read_checkpoint(tmp_path / "whole" / "last.ckpt")
    assert (want["scaler"] is not None) == (precision == "fp16")
    for step in (3, 10):
        go(tmp_path / f"at{step}", stop=step, **options)
        _, resumed = go(tmp_path / f"at{step}", resume=True, **options)
        assert resumed == whole
        assert same(read_checkpoint(tmp_path / f"at{step}" / "last.ckpt"), want)


def test_float16_needs_a_gpu():
    with pytest.raises(InputError, match=r"fp16, which needs a GPU.*--set train\.precision=bf16"):
        make_trainer(toy(precision="fp16")[0], folder=None, device="cpu")
    check_precision("fp16", torch.device("cuda"))
    check_precision("bf16", torch.device("cpu"))


class Seen(L.Callback):
    """Weights, scale and gradient norm after every step."""

    def __init__(self):
        self.weights, self.scales, self.norms = [], [], [0.0]

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.weights.append(weights(pl_module).clone())
        self.scales.append(trainer.precision_plugin.scaler.get_scale())
        self.norms.append(pl_module.grad_norm)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_steps_that_overflow_are_skipped_and_do_not_count_as_diverged(float16_on_cpu, optimizer):
    module, data = toy(precision="fp16", optimizer=optimizer)
    before = weights(module).clone()
    trainer = scaled(module, init_scale=2.0**24)
    seen = Seen()
    trainer.callbacks.insert(0, seen)
    fit(module, data, trainer)
    scales, found = [2.0**24, *seen.scales], [before, *seen.weights]
    skipped = [new < old for old, new in itertools.pairwise(scales)]
    assert skipped[0]
    assert not all(skipped)
    for i, skip in enumerate(skipped):
        assert scales[i + 1] == scales[i] / (2 if skip else 1)
        assert torch.equal(found[i + 1], found[i]) == skip
        assert (seen.norms[i + 1] == seen.norms[i]) == skip  # what is logged is the last one that is finite


def test_the_gradient_is_clipped_unscaled(float16_on_cpu):
    norms = {}
    for precision in ("32", "fp16"):
        module, data = toy(precision=precision, epochs=1, batch_size=40, clip=0.5)
        clipped = []
        hook = module.on_before_optimizer_step

        def after(optimizer, hook=hook, clipped=clipped):
            hook(optimizer)
            grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
            clipped.append(float(torch.cat([g.reshape(-1) for g in grads]).norm()))

        module.on_before_optimizer_step = after
        trainer = scaled(module, init_scale=1024.0) if precision == "fp16" else None
        fit(module, data, trainer or make_trainer(module, folder=None, device="cpu"))
        assert module.grad_norm > 0.5
        assert clipped == [pytest.approx(0.5, rel=1e-5)]
        norms[precision] = module.grad_norm
    assert norms["fp16"] == pytest.approx(norms["32"], rel=0.01)


def test_a_gradient_that_no_scale_rescues_ends_the_run(float16_on_cpu):
    module, data = toy(precision="fp16", epochs=10)
    next(module.network.parameters()).register_hook(lambda grad: grad * math.nan)
    with pytest.raises(DivergenceError, match=r"step 26: the gradient is not finite.*train\.precision=bf16"):
        fit(module, data, make_trainer(module, folder=None, device="cpu"))  # 2^16 halved 26 times is 2^-10


def test_bits_are_given_as_a_number_or_as_a_word():
    assert TrainSpec(precision=64).precision == TrainSpec(precision="64").precision == "64"
    for wrong in (16, True, "half"):
        with pytest.raises(ValueError, match="precision"):
            TrainSpec(precision=wrong)
