"""A fit that is stopped and resumed ends with the bits of one that never stopped."""

import pickle
import sys
from pathlib import Path

import pytest
import torch

from zoo.core.callbacks import TIMING
from zoo.core.fit import fit, make_trainer
from zoo.core.resume import SaveEvery, read_checkpoint, write_checkpoint
from zoo.errors import BundleError

sys.path.insert(0, str(Path(__file__).parent))
from toy import StopAt, toy


def go(folder, *, stop=None, resume=False, laps=1, save=None, **options):
    folder.mkdir(exist_ok=True)
    module, data = toy(laps=laps, **options)
    trainer = make_trainer(module, folder=folder, device="cpu", save=save or SaveEvery(steps=None, minutes=None))
    if stop is not None:
        trainer.callbacks.insert(0, StopAt(stop))
    state = read_checkpoint(folder / "last.ckpt") if resume else None
    return module, fit(module, data, trainer, resume=state)


def same(a, b):
    """Whether two states are equal to the bit, apart from the clock."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b) and a.dtype == b.dtype
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a if k not in (*TIMING, "elapsed"))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


# Every kind of state there is: averages, patience, dropout, accumulation.
EVERYTHING = {"epochs": 3, "ema": 0.9, "patience": 2, "dropout": 0.3, "microbatches": 2}


@pytest.mark.parametrize("laps", [1, 2])
def test_a_resume_from_every_step_gives_the_same_bits(tmp_path, laps):
    _, whole = go(tmp_path / "whole", laps=laps, **EVERYTHING)
    want = read_checkpoint(tmp_path / "whole" / "last.ckpt")
    log = (tmp_path / "whole" / "metrics.csv").read_bytes()
    assert len(log.splitlines()) == 1 + 3 * laps
    for step in range(1, whole.steps + 1):
        folder = tmp_path / f"stopped-{step}"
        _, stopped = go(folder, stop=step, laps=laps, **EVERYTHING)
        assert stopped.interrupted
        assert stopped.steps == step
        _, resumed = go(folder, resume=True, laps=laps, **EVERYTHING)
        assert resumed == whole
        assert same(read_checkpoint(folder / "last.ckpt"), want), step
        assert (folder / "metrics.csv").read_bytes() == log


def test_a_checkpoint_at_every_step_changes_no_bit(tmp_path):
    go(tmp_path / "a", **EVERYTHING)
    go(tmp_path / "b", save=SaveEvery(steps=1, minutes=0.0), **EVERYTHING)
    assert same(*(read_checkpoint(tmp_path / n / "last.ckpt") for n in "ab"))


def test_early_stopping_is_not_forgotten(tmp_path):
    options = {"epochs": 500, "patience": 3, "lr": 0.05}
    _, whole = go(tmp_path / "whole", **options)
    assert whole.stopped == "early"
    _, again = go(tmp_path / "whole", resume=True, **options)
    assert again == whole  # not one epoch more
    go(tmp_path / "part", stop=whole.steps - 7, **options)
    _, resumed = go(tmp_path / "part", resume=True, **options)
    assert resumed == whole
    assert same(*(read_checkpoint(tmp_path / n / "last.ckpt") for n in ("part", "whole")))


def test_a_longer_run_goes_on_from_a_finished_one(tmp_path):
    go(tmp_path / "r", epochs=2, schedule="constant", warmup=0.0)
    module, longer = go(tmp_path / "r", resume=True, epochs=4, schedule="constant", warmup=0.0)
    other, whole = go(tmp_path / "w", epochs=4, schedule="constant", warmup=0.0)
    assert longer == whole
    assert same(module.network.state_dict(), other.network.state_dict())


class Payload:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code in the checkpoint was run')",))


def test_a_pickled_payload_runs_no_code(tmp_path):
    path = tmp_path / "last.ckpt"
    write_checkpoint(path, {"version": 1, "network": Payload()})
    with pytest.raises(BundleError, match=r"last\.ckpt holds something that is neither a tensor"):
        read_checkpoint(path)
    path.write_bytes(pickle.dumps(Payload()))
    with pytest.raises(BundleError, match=r"last\.ckpt"):
        read_checkpoint(path)


def test_a_damaged_checkpoint_is_named(tmp_path):
    go(tmp_path / "r", epochs=1)
    path = tmp_path / "r" / "last.ckpt"
    whole = path.read_bytes()
    for text, why in ((whole[: len(whole) // 2], "cut short"), (b"", "is empty")):
        path.write_bytes(text)
        with pytest.raises(BundleError, match=why):
            read_checkpoint(path)
    write_checkpoint(path, {"version": 99})
    with pytest.raises(BundleError, match="version 99"):
        read_checkpoint(path)
