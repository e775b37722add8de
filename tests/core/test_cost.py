"""Fits whose steps are counted in cost: the same on several ranks, and the same bits after a resume."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.core.datamodule import ZooDataModule
from zoo.core.fit import fit, make_trainer
from zoo.core.resume import SaveEvery, read_checkpoint
from zoo.errors import InputError

sys.path.insert(0, str(Path(__file__).parent))
from toy import StopAt, VectorItems, toy


class Costed(VectorItems):
    def cost(self):
        return 1 + 9 * np.abs(self.x[:, 0])


def problem(**train):
    module, data = toy(n=90, select="last", **train)
    source = data.source
    source.items, source.levels = Costed(source.items.x), dict.fromkeys(source.labels)
    data = ZooDataModule(
        source, data.parts, module.losses, batch_size=1, microbatches=2, seed=0, laps=2, batch_cost=60.0
    )
    module.total_steps = module.train_spec.epochs * data.train_loader.windows
    return module, data


def fitted(folder, stop=None, **train):
    folder.mkdir(exist_ok=True)
    module, data = problem(**train)
    trainer = make_trainer(module, folder=folder, device="cpu", save=SaveEvery(None, None))
    if stop is not None:
        trainer.callbacks.insert(0, StopAt(stop))
    path = folder / "last.ckpt"
    fit(module, data, trainer, resume=read_checkpoint(path) if path.exists() else None)
    return torch.cat([p.flatten() for p in module.network.parameters()]), module.step


def test_a_resumed_fit_has_the_same_bits_and_as_many_steps_as_were_promised(tmp_path):
    _, data = problem()
    windows = data.train_loader.windows
    assert windows > 4
    want, steps = fitted(tmp_path / "whole", dropout=0.2)
    assert steps == 4 * windows
    for stop in (2, windows + 3):
        fitted(tmp_path / "stopped", stop, dropout=0.2)
    got, _ = fitted(tmp_path / "stopped", dropout=0.2)
    assert torch.equal(got, want)


def test_every_item_is_seen_once_an_epoch():
    _, data = problem()
    loader = data.train_loader
    seen = []
    for _ in range(loader.laps):
        for window in loader:
            seen += [int(r) for batch in window for r in batch.rows]
            loader.advance()
    assert sorted(seen) == data.parts["train"].tolist()


def test_items_that_do_not_know_their_cost_are_refused():
    module, data = toy()
    with pytest.raises(InputError, match=r"batch_cost=null"):
        ZooDataModule(data.source, data.parts, module.losses, batch_size=8, microbatches=1, seed=0, batch_cost=5.0)
