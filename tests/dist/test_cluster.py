"""The same run started in three ways on two processes: by ``--devices``, by torchrun, and as a SLURM step."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zoo.core.bundle import WEIGHTS

TRAIN = [
    "train", "freesolv", "--no-baseline", "--epochs", "1", "--device", "cpu", "--threads", "1",
    "--set", "model.hparams.width=16", "--set", "model.hparams.head_width=16",
]  # fmt: skip


def zoo(*words, env=None, before=("-m", "zoo")):
    return subprocess.Popen(
        [sys.executable, *before, *TRAIN, *words],
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ends_well(*processes):
    said = [p.communicate(timeout=180) for p in processes]
    assert [p.returncode for p in processes] == [0] * len(processes), said
    return said


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return {"ZOO_CACHE": str(tmp_path_factory.mktemp("cache"))}


@pytest.fixture(scope="module")
def ours(tmp_path_factory, cache):
    folder = tmp_path_factory.mktemp("runs") / "devices"
    ((_, said),) = ends_well(zoo("--devices", "2", "--out", str(folder), env=cache))
    assert "(2 processes of at most 32)" in said
    return folder


def same(a, b):
    for name in (f"bundle/{WEIGHTS}", "predictions.csv", "metrics.csv"):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name


def test_torchrun_gives_the_same_bits_and_speaks_once(ours, cache, tmp_path):
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "zoo")
    ((out, said),) = ends_well(zoo("--out", str(tmp_path / "r"), env=cache, before=torchrun))
    same(ours, tmp_path / "r")
    assert out.count("next: zoo predict") == 1
    assert said.count("9 steps in") == 1


def test_a_slurm_step_gives_the_same_bits(ours, cache, tmp_path):
    def task(number):
        step = {
            "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_STEP_NUM_TASKS": "2",
            "SLURM_PROCID": str(number),
            "SLURM_LOCALID": str(number),
            "SLURM_STEP_NODELIST": "localhost",
        }
        return zoo("--out", str(tmp_path / "r"), env={**cache, **step})

    (first, _), (second, quiet) = ends_well(task(0), task(1))
    same(ours, tmp_path / "r")
    assert "next: zoo predict" in first
    assert not second
    assert not quiet


def test_a_batch_script_without_a_step_is_one_process(cache, tmp_path):
    """Inside ``sbatch`` SLURM names the tasks of the job; nobody else has been started."""
    script = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_NODELIST": "localhost"}
    ends_well(zoo("--out", str(tmp_path / "r"), env={**cache, **script}))
    assert Path(tmp_path / "r" / "result.json").is_file()
