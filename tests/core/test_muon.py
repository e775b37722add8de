"""Muon and AdamW in one optimiser: against both run side by side, and against the definition of the update."""

import copy
import io
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from zoo.core.fit import fit, make_trainer
from zoo.core.muon import MuonAdamW
from zoo.core.optim import make_optimizer
from zoo.core.resume import read_checkpoint
from zoo.specs.task import TrainSpec

sys.path.insert(0, str(Path(__file__).parent))
from toy import StopAt, toy


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 9))
        self.head = nn.Linear(9, 2)


def model(dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    return Model().to(dtype)


def matrices(net):
    return [net.encoder[0].weight, net.encoder[2].weight]


def set_gradients(net, step):
    generator = torch.Generator().manual_seed(step)
    for p in net.parameters():
        p.grad = torch.randn(p.shape, generator=generator, dtype=p.dtype)


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_torchs_muon_and_adamw_side_by_side_to_the_bit(dtype):
    ours, theirs = model(dtype), model(dtype)
    optimizer = make_optimizer(ours, TrainSpec(optimizer="muon", lr=0.02, weight_decay=0.1))
    rest = [p for p in theirs.parameters() if not any(p is m for m in matrices(theirs))]
    decayed = [theirs.head.weight]
    pair = [
        torch.optim.Muon(matrices(theirs), lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(
            [{"params": decayed}, {"params": [p for p in rest if p is not decayed[0]], "weight_decay": 0.0}],
            lr=0.02,
            weight_decay=0.1,
            fused=True,
        ),
    ]
    schedules = [LambdaLR(one, lambda step: 1 / (1 + step)) for one in (optimizer, *pair)]
    for step in range(5):
        set_gradients(ours, step)
        set_gradients(theirs, step)
        for one in (optimizer, *pair):
            one.step()
        for schedule in schedules:
            schedule.step()
        assert same(ours, theirs), step


def test_an_update_is_the_nearest_orthogonal_matrix_at_the_size_of_adamws():
    net = model(torch.float64)
    before = [m.detach().clone() for m in matrices(net)]
    set_gradients(net, 0)
    make_optimizer(net, TrainSpec(optimizer="muon", lr=0.01, weight_decay=0.5)).step()
    for m, old in zip(matrices(net), before, strict=True):
        update = (old * (1 - 0.01 * 0.5) - m.detach()) / (0.01 * 0.2 * max(m.shape) ** 0.5)
        u, _, vt = torch.linalg.svd(m.grad, full_matrices=False)
        inner = u.T @ update @ vt.T
        # Five iterations bring every singular value to about 1 and, in bfloat16, keep the singular vectors.
        assert ((inner.diag() > 0.6) & (inner.diag() < 1.3)).all()
        torch.testing.assert_close(inner, torch.diag(inner.diag()), rtol=0, atol=0.05)


def test_each_group_follows_the_schedule_from_its_own_rate():
    net = model()
    optimizer = make_optimizer(net, TrainSpec(optimizer="muon", lr=0.1, encoder_lr_scale=0.5))
    schedule = LambdaLR(optimizer, lambda step: 0.5**step)
    for step in range(3):
        got = {g["name"]: g["lr"] for g in optimizer.param_groups}
        assert got == {
            "head/decay": 0.1 * 0.5**step,
            "head/no_decay": 0.1 * 0.5**step,
            "encoder/muon": 0.05 * 0.5**step,
            "encoder/no_decay": 0.05 * 0.5**step,
        }
        set_gradients(net, step)
        before = net.encoder[0].weight.detach().clone()
        optimizer.step()
        rms = (net.encoder[0].weight.detach() - before).square().mean().sqrt()
        # An orthogonal (4, 6) matrix of singular values about 1 has a mean square of 4 / 24.
        assert float(rms) == pytest.approx(got["encoder/muon"] * 0.2 * 6**0.5 * (4 / 24) ** 0.5, rel=0.3)
        schedule.step()


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_going_on_from_a_saved_state_equals_going_on(kind):
    spec = TrainSpec(optimizer=kind, encoder_lr_scale=0.5)

    def start():
        net = model()
        optimizer = make_optimizer(net, spec)
        return net, optimizer, LambdaLR(optimizer, lambda step: 1 / (1 + step))

    def go(parts, steps):
        net, optimizer, schedule = parts
        for step in steps:
            set_gradients(net, step)
            optimizer.step()
            schedule.step()

    whole = start()
    go(whole, range(6))
    first = start()
    go(first, range(3))
    file = io.BytesIO()
    torch.save([part.state_dict() for part in first], file)
    file.seek(0)
    second = start()
    go(second, range(40, 42))  # what stood there before must leave no trace
    for part, state in zip(second, torch.load(file, weights_only=True), strict=True):
        part.load_state_dict(state)
    go(second, range(3, 6))
    assert same(whole[0], second[0])
    go(first, range(3, 6))
    assert same(whole[0], first[0])
    for one, other in zip(
        whole[1].state_dict()["state"].values(), second[1].state_dict()["state"].values(), strict=True
    ):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[k], other[k]) for k in one)


def test_a_copy_is_on_its_own_and_goes_on_to_the_same_bits():
    net = model()
    optimizer = make_optimizer(net, TrainSpec(optimizer="muon"))
    set_gradients(net, 0)
    optimizer.step()
    twin, other = copy.deepcopy((net, optimizer))
    for step in (1, 2):
        set_gradients(net, step)
        optimizer.step()
    assert not same(net, twin)
    for step in (1, 2):
        set_gradients(twin, step)
        other.step()
    assert same(net, twin)


def test_the_closure_is_called_once_with_gradients_on_and_before_any_update():
    net = model()
    before = copy.deepcopy(net)
    optimizer = make_optimizer(net, TrainSpec(optimizer="muon"))
    seen = []

    def closure():
        seen.append((same(net, before), torch.is_grad_enabled()))
        optimizer.zero_grad()
        assert all(p.grad is None for p in net.parameters())
        loss = net.head(net.encoder(torch.ones(3, 6))).square().sum()
        loss.backward()
        return loss.detach()

    loss = optimizer.step(closure)
    assert seen == [(True, True)]
    assert loss == before.head(before.encoder(torch.ones(3, 6))).square().sum()
    assert not any(torch.equal(p, q) for p, q in zip(net.parameters(), before.parameters(), strict=True))


def test_step_hooks_run_once_around_all_updates():
    net = model()
    before = copy.deepcopy(net)
    optimizer = make_optimizer(net, TrainSpec(optimizer="muon"))
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append(("pre", same(net, before))))
    optimizer.register_step_post_hook(lambda *_: calls.append(("post", same(net, before))))
    set_gradients(net, 0)
    optimizer.step()
    assert calls == [("pre", True), ("post", False)]


@pytest.mark.parametrize("name", ["muon", "adamw"])
def test_one_algorithm_alone(name):
    ours, theirs = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    theirs.load_state_dict(ours.state_dict())
    group = {"params": [ours.weight], "lr": 0.1, "weight_decay": 0.0, "algorithm": name}
    optimizer = MuonAdamW([group], betas=(0.9, 0.999))
    alone = {
        "muon": lambda p: torch.optim.Muon(p, lr=0.1, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.0, fused=True),
    }[name](theirs.parameters())
    for net, one in ((ours, optimizer), (theirs, alone)):
        set_gradients(net, 0)
        one.step()
    assert same(ours, theirs)


def test_a_fit_with_muon_learns_and_repeats_to_the_bit():
    def run():
        module, data = toy(optimizer="muon", epochs=30, precision="32", select="last")
        fit(module, data, make_trainer(module, folder=None, device="cpu"))
        return module

    first, second = run(), run()
    assert same(first.network, second.network)
    labels = first.val_labels["a"]
    assert first.scores["rmse"].value < 0.5 * labels.values[labels.mask].std()
    adamw, data = toy(optimizer="adamw", epochs=30, precision="32", select="last")
    fit(adamw, data, make_trainer(adamw, folder=None, device="cpu"))
    assert not torch.equal(adamw.network.encoder.layer.weight, first.network.encoder.layer.weight)


def test_a_fit_with_muon_resumed_from_its_file_ends_with_the_same_bits(tmp_path):
    def run(folder, *, stop=None, resume=None):
        folder.mkdir(exist_ok=True)
        module, data = toy(optimizer="muon", encoder_lr_scale=0.5, precision="32", ema=0.9, dropout=0.3)
        trainer = make_trainer(module, folder=folder, device="cpu")
        if stop is not None:
            trainer.callbacks.insert(0, StopAt(stop))
        fit(module, data, trainer, resume=resume)
        return module.network

    whole = run(tmp_path / "whole")
    run(tmp_path / "cut", stop=7)
    state = read_checkpoint(tmp_path / "cut" / "last.ckpt")
    assert state["step"] == 7
    assert same(run(tmp_path / "cut", resume=state), whole)
    first, second = (read_checkpoint(tmp_path / name / "last.ckpt")["optimizer"]["state"] for name in ("whole", "cut"))
    assert all(torch.equal(first[i][k], second[i][k]) for i in first for k in first[i])
