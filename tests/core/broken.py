"""Networks and losses that break one promise each, on the sets of points of ``examples/own_network.py``."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from zoo.core import ranks
from zoo.core.conformance import small_problem
from zoo.core.losses import MaskedLoss
from zoo.core.module import ZooModule
from zoo.core.reduction import step_loss
from zoo.core.types import SumCount

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_network.py"
_spec = importlib.util.spec_from_file_location("own_network", EXAMPLE)
own = importlib.util.module_from_spec(_spec)
sys.modules["own_network"] = own
_spec.loader.exec_module(own)


class BatchNormed(own.SetNetwork):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(64)


class Centred(own.SetNetwork):
    """Batch statistics written by hand."""

    def forward(self, batch):
        return {name: x - x.mean(0) for name, x in super().forward(batch).items()}


class CentredInTraining(own.SetNetwork):
    def forward(self, batch):
        found = super().forward(batch)
        return {name: x - x.mean(0) for name, x in found.items()} if self.training else found


class PaddingLeak(own.SetNetwork):
    """The mean runs over the padded length."""

    def forward(self, batch):
        mean = self.point(batch.inputs.x).mean(1)
        radius, inside = self.out(self.norm(mean)).split(1, dim=1)
        return {"radius": radius, "inside": inside}


class Unused(own.SetNetwork):
    def __init__(self):
        super().__init__()
        self.forgotten = nn.Linear(3, 3)


class Silenced(own.SetNetwork):
    """A parameter takes part, but nothing can come of it."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.ones(1))

    def forward(self, batch):
        return {name: x + 0 * self.gate for name, x in super().forward(batch).items()}


class _WrongSlope(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x.sin()

    @staticmethod
    def backward(_, grad):
        return grad  # that of the sine is its cosine


class WrongGradient(own.SetNetwork):
    def forward(self, batch):
        return {name: _WrongSlope.apply(x) for name, x in super().forward(batch).items()}


class FirstPoint(own.SetNetwork):
    """The first point counts twice."""

    def forward(self, batch):
        found = super().forward(batch)
        return {name: x + 0.1 * batch.inputs.x[:, 0, :1] for name, x in found.items()}


class Blind(own.SetNetwork):
    """Every item gets the same prediction."""

    def __init__(self):
        super().__init__()
        self.constant = nn.Parameter(torch.zeros(2))

    def forward(self, batch):
        found = super().forward(batch)
        return {name: 0 * x + constant for (name, x), constant in zip(found.items(), self.constant, strict=True)}


class NotEmpty(own.SetNetwork):
    def forward(self, batch):
        if not len(batch):
            raise ValueError("no items")
        return super().forward(batch)


class LostOnSaving(own.SetNetwork):
    """A part of the network that no file holds."""

    made = 0

    def __init__(self):
        super().__init__()
        type(self).made += 1
        self.offset = 1e-9 * type(self).made

    def forward(self, batch):
        return {name: x + self.offset for name, x in super().forward(batch).items()}


class Counting(own.SetNetwork):
    """What it does depends on how often it was called."""

    calls = 0

    def forward(self, batch):
        self.calls += self.training
        return {name: x * (1 + 1e-4 * self.calls) for name, x in super().forward(batch).items()}


class Exploding(own.SetNetwork):
    def forward(self, batch):
        return {name: x * float("inf") for name, x in super().forward(batch).items()}


class CoarseInSingle(own.SetNetwork):
    """Wrong in float32 alone."""

    def forward(self, batch):
        found = super().forward(batch)
        return {name: x + 0.1 if x.dtype == torch.float32 else x for name, x in found.items()}


class DroppedMask(MaskedLoss):
    """Every element counts in the sum; what is missing stands there as 0."""

    def __call__(self, pred, target):
        losses = (pred - torch.nan_to_num(target.values, 0, 0, 0)) ** 2
        return SumCount(losses.sum(), self.count(target))


class MaskedByProduct(MaskedLoss):
    """0 times NaN is NaN."""

    def __call__(self, pred, target):
        losses = (pred.double() - target.values) ** 2
        return SumCount((losses * target.mask).sum(), self.count(target))


class MeanOfMeans(ZooModule):
    """Each microbatch is divided by its own number of labels."""

    def microbatch_loss(self, batch, counts):
        outputs = self(batch)
        found = [loss(outputs[name], batch.targets[name]) for name, loss in self.losses.items()]
        own_counts = torch.stack([f.count for f in found]).clamp_min(1)
        loss = step_loss([f.total for f in found], own_counts, self.weights, self.train_spec.reduction)
        return loss / (len(self._window) or 3) / ranks.ranks()


class UnmaskedMean(ZooModule):
    """Divided by the number of places for a label, not of labels."""

    def microbatch_loss(self, batch, counts):
        return super().microbatch_loss(batch, torch.full_like(counts, 24.0))


class WrongReport(ZooModule):
    """Validation scores whatever stands in the labels."""

    def finish_validation(self):
        found = super().finish_validation()
        values = np.concatenate([labels.values for labels in self.val_labels.values()])
        return {**found, "val_mean": float(values.mean())}


NETWORKS = {c.__name__: c for c in own.SetNetwork.__subclasses__()}
LOSSES = {c.__name__: c for c in (DroppedMask, MaskedByProduct)}
MODULES = {c.__name__: c for c in (MeanOfMeans, UnmaskedMean, WrongReport)}


def make(broken=None, **train):
    """Return the problem of the example, with one thing broken."""
    module, data = small_problem(NETWORKS.get(broken, own.SetNetwork), *own.data(), own.TARGETS, **train)
    if broken in LOSSES:
        module.losses["radius"] = LOSSES[broken](own.TARGETS[0])
    if broken in MODULES:
        module.__class__ = MODULES[broken]
    if broken == "ForgottenWeight":
        module.weights = [1.0, 1.0]
    return module, data
