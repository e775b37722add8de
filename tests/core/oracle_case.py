"""The oracle's cases through the real module and trainer: in one process, or as one of the ranks of a case."""

import json
from pathlib import Path

import lightning as L
import numpy as np
import torch
from torch import nn

from zoo.core.datamodule import with_counts
from zoo.core.fit import make_trainer
from zoo.core.module import ZooModule
from zoo.core.types import Batch, Target
from zoo.specs.target import TargetSpec
from zoo.specs.task import MetricSpec, TrainSpec

CASES = json.loads((Path(__file__).parents[1] / "oracles" / "masked_loss.json").read_text())["cases"]
KINDS = {"mse": "regression", "mae": "regression", "huber": "regression", "bce": "binary", "ce": "multiclass"}


class X:
    def __init__(self, x):
        self.x = x

    def to(self, device=None, dtype=None):
        return X(self.x.to(device, dtype))


class Linear(nn.Module):
    """One linear map per target, at the given weights."""

    def __init__(self, targets):
        super().__init__()
        self.maps = nn.ModuleDict()
        for t in targets:
            layer = nn.Linear(len(t["W"]), t["n_out"]).double()
            layer.weight.data = torch.tensor(t["W"], dtype=torch.float64).T.contiguous()
            layer.bias.data = torch.tensor(t["b"], dtype=torch.float64)
            self.maps[t["name"]] = layer

    def forward(self, batch):
        return {name: layer(batch.inputs.x) for name, layer in self.maps.items()}


class Windows:
    """A loader: one list of microbatches per step."""

    def __init__(self, made):
        self.made = made

    def __len__(self):
        return len(self.made)

    def __iter__(self):
        return iter(self.made)


class Recorder(L.Callback):
    """Keeps the gradients and the loss of every step."""

    def __init__(self):
        self.grads, self.losses = [], []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.losses.append(pl_module.step_losses[-1])

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self.grads.append({n: p.grad.clone() for n, p in pl_module.network.named_parameters()})


def spec(t):
    kind = KINDS[t["kind"]]
    return TargetSpec(
        name=t["name"],
        level="molecule",
        kind=kind,
        loss={"ce": "cross_entropy"}.get(t["kind"], t["kind"]),
        weight=t["weight"],
        classes=[str(i) for i in range(t["n_out"])] if kind == "multiclass" else None,
        pos_weight=t.get("pos_weight"),
        class_weights=t.get("class_weights"),
    )


def microbatch(part, targets, poison):
    """Turn one microbatch of the file into a batch; what stands in masked positions is ``poison``."""
    made = {}
    n = len(part["x"])
    for t in targets:
        mask = torch.tensor(part["mask"][t["name"]], dtype=torch.bool)
        if t["kind"] == "ce":
            values = torch.tensor(
                [0 if v is None else int(v) for v in np.ravel(np.array(part["y"][t["name"]], object))]
            )
            values, mask = values.long(), mask.reshape(-1)
        else:
            rows = [[poison if v is None else v for v in row] for row in part["y"][t["name"]]]
            values = torch.tensor(rows, dtype=torch.float64).reshape(n, t["n_out"])
            mask = mask.reshape(n, t["n_out"])
        weight = part.get("sample_weight")
        if isinstance(weight, dict):
            weight = weight[t["name"]]
        made[t["name"]] = Target(values, mask, None if weight is None else torch.tensor(weight, dtype=torch.float64))
    n_in = len(targets[0]["W"])
    x = torch.tensor(part["x"], dtype=torch.float64).reshape(n, n_in)
    return Batch(X(x), made, torch.arange(n))


def windows(case, poison, rank=None):
    """Return the windows of one rank; without one, lay all ranks' microbatches of each step into one window."""
    k = case["accumulate"]
    mine = case["ranks"] if rank is None else case["ranks"][rank : rank + 1]
    steps = -(-max(len(r) for r in case["ranks"]) // k)
    return [
        [microbatch(p, case["targets"], poison) for part in mine for p in part[s * k : (s + 1) * k]]
        for s in range(steps)
    ]


def run(case, poison=float("nan"), rank=None):
    """Return the gradients and the loss of every step, and the weights' module."""
    targets = [spec(t) for t in case["targets"]]
    # At this rate a step changes no bit of the weights, as the file's definitions ask.
    train = TrainSpec(epochs=1, lr=1e-300, weight_decay=0.0, clip=None, reduction=case["reduction"], precision="64")
    network = Linear(case["targets"])
    made = windows(case, poison, rank)
    module = ZooModule(
        network,
        targets,
        {},
        train,
        total_steps=len(made),
        seed=0,
        metrics=[MetricSpec(name="rmse", direction="min", primary=True)],
        val_labels={},
    )
    recorder = Recorder()
    trainer = make_trainer(module, folder=None, device="cpu", has_val=False)
    trainer.callbacks.insert(0, recorder)
    trainer.fit(module, Windows([with_counts(module.losses, w, key=(0, i)) for i, w in enumerate(made)]))
    return recorder.grads, recorder.losses


def check(case, grads, losses):
    """Assert that every step has the loss and the gradients of the file."""
    assert len(grads) == len(case["expected"])
    for got, loss, want in zip(grads, losses, case["expected"], strict=True):
        np.testing.assert_allclose(loss, want["loss"], rtol=1e-12, atol=1e-12)
        for name in want["grad_W"]:
            np.testing.assert_allclose(got[f"maps.{name}.weight"].T, want["grad_W"][name], rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(got[f"maps.{name}.bias"], want["grad_b"][name], rtol=1e-12, atol=1e-12)
