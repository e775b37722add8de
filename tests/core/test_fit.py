"""The fit as a whole, on a toy problem: determinism, accumulation, selection, stopping, divergence."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.core.fit import fit, make_trainer
from zoo.errors import DivergenceError

sys.path.insert(0, str(Path(__file__).parent))
from toy import toy


def run(folder=None, budget=None, **options):
    module, data = toy(**options)
    module.budget_seconds = budget
    result = fit(module, data, make_trainer(module, folder=folder, device="cpu"))
    return module, result


def weights(module):
    return torch.cat([p.detach().reshape(-1) for p in module.network.parameters()])


@pytest.mark.parametrize("extra", [{}, {"dropout": 0.3}, {"ema": 0.9}, {"microbatches": 3, "dropout": 0.3}])
def test_the_same_seed_gives_the_same_bits(extra):
    a, b = run(**extra)[0], run(**extra)[0]
    assert torch.equal(weights(a), weights(b))
    assert a.best["value"] == b.best["value"]


def test_weights_do_not_depend_on_how_a_window_is_cut():
    whole = weights(run(select="last")[0])
    for pieces in (2, 3, 8):
        torch.testing.assert_close(weights(run(select="last", microbatches=pieces)[0]), whole, rtol=0, atol=1e-12)


def test_one_adamw_step_by_hand():
    module, data = toy(epochs=1, batch_size=40, warmup=0.0, clip=None, weight_decay=0.1, select="last", lr=0.01)
    before = {n: p.detach().clone() for n, p in module.network.named_parameters()}
    batch = next(iter(data.train_loader))[0]
    data.train_loader.epoch = 0
    # The loss of the definition, straight from labels and outputs.
    outputs = module.network(batch)
    a, b = batch.targets["a"], batch.targets["b"]
    loss = ((outputs["a"] - a.values)[a.mask] ** 2).sum() / a.mask.sum()
    p = torch.sigmoid(outputs["b"])[b.mask]
    true = b.values[b.mask]
    loss = loss + 0.5 * -(true * p.log() + (1 - true) * (1 - p).log()).mean()
    grads = dict(zip(before, torch.autograd.grad(loss, list(module.network.parameters())), strict=True))
    fit(module, data, make_trainer(module, folder=None, device="cpu"))
    for name, p_after in module.network.named_parameters():
        decay = 0.1 if name.endswith("weight") else 0.0
        want = before[name] * (1 - 0.01 * decay) - 0.01 * grads[name] / (grads[name].abs() + 1e-8)
        torch.testing.assert_close(p_after.detach(), want, rtol=1e-9, atol=1e-12)


def test_training_learns_and_keeps_the_best_validated_weights():
    module, result = run(epochs=30)
    assert result.stopped == "finished"
    assert result.steps == 30 * 5
    spread = module.val_labels["a"]
    assert module.best["value"] < 0.8 * spread.values[spread.mask].std()
    assert all(torch.equal(module.network.state_dict()[k], v) for k, v in module.best["weights"].items())


def test_averaged_weights_are_the_ones_validated_and_kept():
    raw, averaged = run(select="last", epochs=2)[0], run(select="last", epochs=2, ema=0.5)[0]
    by_hand = None
    module, data = toy(epochs=2, select="last")
    trainer = make_trainer(module, folder=None, device="cpu")
    seen = []
    step = module.training_step

    def spy(window, batch_idx):
        step(window, batch_idx)
        seen.append(weights(module).clone())

    module.training_step = spy
    fit(module, data, trainer)
    for i, w in enumerate(seen):
        by_hand = w if i == 0 else 0.5 * by_hand + 0.5 * w
    torch.testing.assert_close(weights(averaged), by_hand, rtol=1e-10, atol=1e-12)
    assert not torch.equal(weights(raw), weights(averaged))


def test_early_stopping_counts_validations():
    _, result = run(epochs=500, patience=3, lr=0.05)
    assert result.stopped == "early"
    assert result.epochs < 500


def test_a_budget_stops_the_run(tmp_path):
    _, result = run(folder=tmp_path, budget=1.0, epochs=100_000)
    assert result.stopped == "budget"
    assert (tmp_path / "metrics.csv").read_text().startswith("step,")


def test_a_non_finite_label_stops_with_its_row():
    module, data = toy()
    # Scaled labels are always finite; a broken one stands for any overflow on the way to the loss.
    values = data.source.labels["a"].values
    row = int(np.flatnonzero(data.source.labels["a"].mask[:40, 0])[0])
    values[row] = math.inf
    with pytest.raises(DivergenceError, match=r"step \d+: the loss is .*Rows of the batch: .*\b" + str(row)):
        fit(module, data, make_trainer(module, folder=None, device="cpu"))


def test_an_exploding_loss_stops():
    module, data = toy(epochs=200, lr=1e6, clip=None, divergence=100.0)
    with pytest.raises(DivergenceError, match=r"--set train.lr=100000"):
        fit(module, data, make_trainer(module, folder=None, device="cpu"))


def test_a_window_without_a_label_changes_nothing_but_the_decay():
    module, data = toy(missing=1.0, epochs=1, weight_decay=0.0, select="last")
    before = weights(module).clone()
    fit(module, data, make_trainer(module, folder=None, device="cpu"))
    assert torch.equal(weights(module), before)


def test_the_log_has_one_row_per_epoch_and_is_deterministic(tmp_path):
    texts = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run(folder=tmp_path / name)
        texts.append((tmp_path / name / "metrics.csv").read_text())
    assert texts[0] == texts[1]
    header, *rows = [line.split(",") for line in texts[0].splitlines()]
    assert {"step", "epoch", "train_loss", "val_loss", "val_rmse", "val_roc_auc"} <= set(header)
    assert [row[header.index("epoch")] for row in rows] == ["0", "1", "2", "3"]
