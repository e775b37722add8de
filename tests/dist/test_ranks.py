"""Real processes: the weights, metrics and outputs of several ranks are those of one."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.core.launch import WorkerError, run_on_ranks
from zoo.core.resume import read_checkpoint

CASES = json.loads((Path(__file__).parents[1] / "oracles" / "masked_loss.json").read_text())["cases"]
JOBS = str(Path(__file__).parent / "jobs.py")
OPTIONS = {"n": 60, "epochs": 4, "batch_size": 8, "lr": 1e-3, "select": "last"}


def weights(folder):
    state = read_checkpoint(folder / "last.ckpt")
    return state, torch.cat([v.reshape(-1) for v in state["network"].values()])


def trained(folder, world, **options):
    folder.mkdir()
    run_on_ranks(f"{JOBS}:train_toy", {"folder": str(folder), "options": {**OPTIONS, **options}}, world=world)
    return weights(folder)


def test_every_case_of_the_oracle_in_as_many_processes_as_it_has_ranks(tmp_path):
    done = []
    for world in (1, 2, 4):
        run_on_ranks(f"{JOBS}:oracle", {"folder": str(tmp_path)}, world=world)
        said = [json.loads((tmp_path / f"oracle-{r}-of-{world}.json").read_text()) for r in range(world)]
        assert all(names == said[0] for names in said)
        done += said[0]
    assert sorted(done) == sorted(case["name"] for case in CASES)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("alone") / "run", 1)


@pytest.mark.parametrize(("world", "pieces"), [(2, 1), (4, 1), (1, 4), (2, 2)])
def test_20_steps_give_the_weights_of_one_process(alone, tmp_path, world, pieces):
    state, found = trained(tmp_path / "run", world, microbatches=pieces)
    assert state["step"] == alone[0]["step"] == 20
    torch.testing.assert_close(found, alone[1], rtol=0, atol=1e-10)
    assert not torch.equal(found, torch.zeros_like(found))
    for row, want in zip(state["rows"], alone[0]["rows"], strict=True):
        for name in ("train_loss", "val_loss", "val_rmse", "val_roc_auc"):
            assert row[name] == pytest.approx(want[name], rel=1e-10)


def test_ranks_with_hardly_a_label_take_part(tmp_path):
    """Batches of 3 on 4 ranks: one rank has a ghost batch in every step, and most labels are missing."""
    options = {"batch_size": 3, "missing": 0.8, "n": 21, "epochs": 3}
    _, one = trained(tmp_path / "one", 1, **options)
    _, four = trained(tmp_path / "four", 4, **options)
    torch.testing.assert_close(four, one, rtol=0, atol=1e-10)


def test_outputs_and_losses_of_any_number_of_ranks_are_those_of_one(tmp_path):
    """No row, one, fewer than ranks, uneven: every rank gets every row once, in order, to the bit."""
    payload = {"folder": str(tmp_path), "options": {"n": 60}, "sizes": [0, 1, 3, 7, 60], "batch": 1}
    for world in (1, 2, 4):
        run_on_ranks(f"{JOBS}:evaluate_toy", payload, world=world)
    for n in payload["sizes"]:
        want = np.load(tmp_path / f"n{n}-rank0of1.npz")
        assert want["a"].shape == (n, 1)
        for world in (2, 4):
            for rank in range(world):
                found = np.load(tmp_path / f"n{n}-rank{rank}of{world}.npz")
                assert all(np.array_equal(found[k], want[k]) for k in want.files)


def test_a_rank_that_fails_ends_the_job_with_its_message(tmp_path):
    payload = {"folder": str(tmp_path), "options": {**OPTIONS, "epochs": 1000}, "fail_at": {"rank": 1, "step": 7}}
    started = time.monotonic()
    with pytest.raises(WorkerError, match="process 1 of the job failed: ValueError: this rank was made to fail"):
        run_on_ranks(f"{JOBS}:train_toy", payload, world=2)
    assert time.monotonic() - started < 60


def test_all_ranks_see_the_same_scores(tmp_path):
    trained(tmp_path / "run", 2, patience=2, epochs=30, lr=0.05)
    said = [json.loads((tmp_path / "run" / f"rank-{r}-of-2.json").read_text()) for r in range(2)]
    assert said[0] == said[1]


def test_ranks_wait_for_what_rank_0_does_alone_however_long_it_takes(tmp_path):
    run_on_ranks(f"{JOBS}:slow_main", {"folder": str(tmp_path)}, world=2)
    assert (tmp_path / "a-plain-barrier-gave-up").exists()
