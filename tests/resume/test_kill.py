"""Kill -9 in the middle, again and again; each time the run is resumed, and it ends with the bits of one never stopped.

``benchmarks/kill.py`` is the long version: 30 moments, each on its own, in processes started from a shell.
"""

import shutil
from pathlib import Path

import pytest
import torch
from killing import different, step_of

from zoo.core.resume import read_checkpoint, write_checkpoint

# A resume from step s counts the places anew. Checkpoints fall on even steps, validations on steps 2, 5, 7, 10, 12, 15.
WHILE_IT_TRAINS = [
    ("before-step:1", None),
    ("before-step:4", 2),
    ("before-averaging:3", 4),  # of step 5: the optimiser has stepped, the average has not
    ("half-written/last.ckpt:2", 6),  # that of step 8
    ("checkpoint-written:1", 8),  # replaced, and nothing else done
    ("validation:2", 10),  # of step 12, after the validation of step 10
    ("half-written/metrics.csv:2", 10),  # of step 12; the first is written when the resumed run starts
    ("lap-end:1", 10),
]
AT_THE_END = [
    ("early-stopped:1", 25),  # of step 27
    ("finalise:1", "end"),
    ("half-written/.test-outputs.safetensors:1", "end"),
    ("written/model.safetensors:1", "end"),
    ("bundle-written:1", "end"),
    ("half-written/result.json:1", "end"),
]
EARLY = ("--epochs", "40", "--set", "train.lr=0.05", "--set", "train.patience=2", "--set", "save_every_steps=5")


def test_killed_while_it_trains(runs, whole, tmp_path):
    kind, truth = whole
    for place, step in WHILE_IT_TRAINS:
        runs.go(runs.words(tmp_path / "r", "--resume", kind=kind), fault=place, code=-9)
        assert step_of(tmp_path / "r") == step, place
    runs.go(runs.words(tmp_path / "r", "--resume", kind=kind))
    assert different(truth, tmp_path / "r") == []


def test_killed_after_early_stopping_and_while_it_finishes(runs, tmp_path):
    said = runs.go(runs.words(tmp_path / "truth", *EARLY))
    assert "(early); weights: best" in said
    end = step_of(tmp_path / "truth")
    for place, step in AT_THE_END:
        runs.go(runs.words(tmp_path / "r", *EARLY, "--resume"), fault=place, code=-9)
        assert step_of(tmp_path / "r") == (end if step == "end" else step), place
    runs.go(["train", "--resume", "--out", tmp_path / "r"])
    assert different(tmp_path / "truth", tmp_path / "r") == []


@pytest.mark.parametrize("mode", ["head", "lora"])
def test_killed_while_it_is_fine_tuned(runs, tmp_path, mode):
    rows = Path("datasets/amp/amp.csv").read_text().splitlines()
    (tmp_path / "own.csv").write_text("\n".join([rows[0], *rows[1::80]]) + "\n")
    words = [
        *("finetune", "esm2-mini", "--data", tmp_path / "own.csv", "--target", "activity", "--mode", mode),
        *("--split", "random", "--epochs", "2", "--batch-size", "8", "--threads", "1", "--no-baseline"),
        *("--set", "save_every_steps=3"),
    ]
    runs.go([*words, "--out", tmp_path / "truth"])
    for place in ("before-step:5", "half-written/last.ckpt:1", "bundle-written:1"):
        runs.go([*words, "--resume", "--out", tmp_path / "r"], fault=place, code=-9)
    runs.go([*words, "--resume", "--out", tmp_path / "r"])
    assert different(tmp_path / "truth", tmp_path / "r") == []


def test_the_comparison_sees_a_single_bit(truth, tmp_path):
    folder = shutil.copytree(truth, tmp_path / "r")
    assert different(truth, folder) == []
    for keys, what in (
        (("network",), "raw weights"),
        (("averaged_weights",), "averaged weights"),
        (("best", "weights"), "best weights"),
        (("optimizer", "state", 0), "optimiser"),
    ):
        state = at = read_checkpoint(truth / "last.ckpt")
        for key in keys:
            at = at[key]
        tensor = next(t for t in at.values() if t.ndim)
        tensor.view(-1)[0] = torch.nextafter(tensor.view(-1)[0], torch.tensor(9.0))
        write_checkpoint(folder / "last.ckpt", state)
        assert different(truth, folder) == [what]
    state = read_checkpoint(truth / "last.ckpt")
    write_checkpoint(folder / "last.ckpt", {**state, "elapsed": 0.0, "step": 14})
    assert different(truth, folder) == ["rest of the state"]
