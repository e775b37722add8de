"""What ``--resume`` accepts, what it refuses, and what it does where the disk or the checkpoint fails."""

import errno
import json
import os
import pickle
import shutil

import pytest
from killing import different, files_of, step_of

from zoo.core.resume import read_checkpoint, write_checkpoint
from zoo.errors import ZooError


@pytest.fixture
def copy(truth, tmp_path):
    """A copy of the finished run."""
    return shutil.copytree(truth, tmp_path / "r")


def fingerprint(folder):
    return {name: ((folder / name).read_bytes(), (folder / name).stat().st_mtime_ns) for name in files_of(folder)}


def test_a_finished_run_shows_its_result_and_is_left_alone(runs, copy):
    before = fingerprint(copy)
    said = runs.go(runs.words(copy, "--resume"))
    assert f"the run in {copy} is finished" in said
    rmse = json.loads((copy / "result.json").read_text())["metrics"]["model"]["rmse"]["value"]
    assert f"model  {rmse:.4g}" in said
    assert runs.go(["train", "--resume", "--out", copy, "--quiet"]).startswith("test part")
    assert fingerprint(copy) == before


def test_a_changed_configuration_is_shown_and_refused(runs, copy):
    before = fingerprint(copy)
    changed = ("--seed", "3", "--set", "train.lr=0.01", "--set", "model.hparams.width=32")
    said = runs.go(runs.words(copy, *changed, "--resume"), code=2)
    assert "train.lr: 0.001 before, 0.01 now" in said
    assert "seed: 0 before, 3 now" in said
    assert "model.hparams.width: 16 before, 32 now" in said
    assert "patience" not in said
    assert f"zoo train --resume --out {copy}" in said
    said = runs.go(runs.words(copy, "--epochs", "2", "--resume"), code=2)
    assert "planned for 3 epochs" in said
    assert fingerprint(copy) == before


def test_changed_data_are_refused(runs, copy, truth, tmp_path):
    lines = (runs.folder / "own.csv").read_text().splitlines(keepends=True)
    (tmp_path / "own.csv").write_text("".join(lines[:-1]))
    words = [tmp_path / "own.csv" if w == runs.folder / "own.csv" else w for w in runs.words(copy, "--resume")]
    assert 'data file 1: "own.csv ' in runs.go(words, code=2)
    assert different(truth, copy) == []


def test_a_finished_run_can_be_made_longer(runs, copy):
    said = runs.go(runs.words(copy, "--epochs", "4", "--resume"))
    assert "going on from step 15" in said
    assert step_of(copy) == 20
    assert json.loads((copy / "result.json").read_text())["steps"] == 20
    assert json.loads((copy / "after-15-steps" / "result.json").read_text())["steps"] == 15
    assert (copy / "metrics.csv").read_text().splitlines()[-1].startswith("20,3,")


def test_a_full_disk_is_one_clear_error_and_keeps_the_older_checkpoint(runs, truth, tmp_path):
    folder = tmp_path / "r"
    runs.go(runs.words(folder), fault="before-step:9", code=-9)
    before = (folder / "last.ckpt").read_bytes()
    said = runs.go(runs.words(folder, "--resume", "--quiet"), largest_file=50_000, code=1)
    assert said == f"zoo: cannot write {folder / 'last.ckpt'}: File too large. Choose another place with --out.\n"
    assert (folder / "last.ckpt").read_bytes() == before
    assert not list(folder.glob(".*.tmp"))
    runs.go(runs.words(folder, "--resume"))
    assert different(truth, folder) == []


def test_no_space_left_is_said_so(truth, tmp_path, monkeypatch):
    state = read_checkpoint(truth / "last.ckpt")
    write_checkpoint(tmp_path / "last.ckpt", state)
    before = (tmp_path / "last.ckpt").read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ZooError, match=r"no space left while writing .*last\.ckpt: free some space"):
        write_checkpoint(tmp_path / "last.ckpt", {**state, "step": 99})
    assert (tmp_path / "last.ckpt").read_bytes() == before
    assert files_of(tmp_path) == ["last.ckpt"]


class Payload:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code in the checkpoint was run')",))


def test_a_cut_flipped_or_pickled_checkpoint_is_one_clear_error(runs, truth, copy):
    path = copy / "last.ckpt"
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(read_checkpoint(path)["network"]["heads.molecule.out.weight"].numpy().tobytes())] ^= 1
    broken = [
        (whole[: len(whole) // 2], "cut short"),
        (bytes(flipped), "checksum"),
        (pickle.dumps(Payload()), "neither a tensor"),
    ]
    for kind in ("finished", "unfinished"):
        for text, why in broken:
            path.write_bytes(text)
            said = runs.go(runs.words(copy, "--resume", "--quiet"), code=2)
            assert said.count("\n") == 1, said
            assert said.startswith(f"zoo: {path} ")
            assert why in said
            assert path.read_bytes() == text
        if kind == "finished":
            (copy / "result.json").unlink()
    path.write_bytes(whole)
    runs.go(runs.words(copy, "--resume"))
    assert different(truth, copy) == []
