"""Networks with the faults of a first attempt: what a newcomer reads about them must say what to mend."""

import torch
from broken import Unused, own

from zoo.core.conformance import small_problem


class OneMissing(own.SetNetwork):
    def forward(self, batch):
        return {"radius": super().forward(batch)["radius"]}


class BareTensor(own.SetNetwork):
    def forward(self, batch):
        return super().forward(batch)["radius"]


class NoColumns(own.SetNetwork):
    def forward(self, batch):
        return {name: found[:, 0] for name, found in super().forward(batch).items()}


class NotANumber(own.SetNetwork):
    def forward(self, batch):
        found = super().forward(batch)
        return {**found, "radius": torch.full_like(found["radius"], float("nan")) + 0 * found["radius"]}


class Raising(own.SetNetwork):
    def forward(self, batch):
        raise KeyError(batch.inputs)


class Asserting(own.SetNetwork):
    def forward(self, batch):
        assert len(batch) > 1000


NETWORKS = {c.__name__: c for c in (OneMissing, BareTensor, NoColumns, NotANumber, Raising, Asserting, Unused)}


def make(which, **train):
    """Return the problem of the example with one of the networks."""
    return small_problem(NETWORKS[which], *own.data(), own.TARGETS, **train)
