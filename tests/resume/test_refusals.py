"""What ``--resume`` accepts, what it refuses, and what it does where the disk or the checkpoint fails."""

import errno
import json
import os
import pickle
import shutil
import signal

import pytest
from killing import different, files_of, status, step_of, wait_for

import zoo
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
    (copy / "metrics.csv").write_text("step\n")
    (copy / "predictions.csv").unlink()
    words = runs.words(copy, "--resume")
    del words[words.index("--epochs") : words.index("--epochs") + 2]
    runs.go(words)  # as it was started, if without epochs: they stay as the last resume left them
    assert json.loads((copy / "result.json").read_text())["steps"] == 20
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


def unfinished(copy):
    """Make a finished run one that was killed before its results were written."""
    for name in ("result.json", "predictions.csv"):
        (copy / name).unlink()
    shutil.rmtree(copy / "bundle")
    return copy


def test_a_checkpoint_of_another_run_is_refused(runs, copy, tmp_path):
    """The other seed has the same rows, the same division and the same shapes."""
    runs.go(runs.words(tmp_path / "other", "--seed", "1", "--epochs", "1"))
    for folder in (copy, unfinished(shutil.copytree(copy, tmp_path / "unfinished"))):
        shutil.copy(tmp_path / "other" / "last.ckpt", folder)
        said = runs.go(["train", "--resume", "--out", folder], code=2)
        assert f"{folder / 'last.ckpt'} is the checkpoint of another run" in said
    assert (copy / "metrics.csv").read_text().splitlines()[-1].startswith("15,")


def test_two_processes_do_not_work_in_one_folder(runs, tmp_path):
    first = runs.start(runs.words(tmp_path / "r"), fault="before-step:4", signal="SIGSTOP")
    wait_for(lambda: status(first.pid)["State"].startswith("T"))
    for words in (["train", "--resume", "--out", tmp_path / "r"], runs.words(tmp_path / "r", "--resume")):
        assert "another process works on the run in" in runs.go(words, code=2)
    os.kill(first.pid, signal.SIGCONT)
    assert first.end()[0] == 0
    assert "is finished" in runs.go(["train", "--resume", "--out", tmp_path / "r"])


def test_results_that_were_lost_are_written_again_to_the_same_bits(runs, truth, copy):
    for lost in ("bundle", "predictions.csv", "result.json"):
        path = copy / lost
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        runs.go(["train", "--resume", "--out", copy])
        assert different(truth, copy) == []
    weights = copy / "bundle" / "model.safetensors"
    whole = weights.read_bytes()
    for broken in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:100]):
        weights.write_bytes(broken)
        runs.go(["train", "--resume", "--out", copy])
        assert different(truth, copy) == []
    weights.unlink()
    runs.go(["train", "--resume", "--out", copy])
    assert different(truth, copy) == []
    (copy / "result.json").write_text('{"steps": ')
    said = runs.go(["train", "--resume", "--out", copy], code=2)
    assert f"{copy / 'result.json'} is damaged. Remove it" in said


def test_a_result_without_its_checkpoint_is_shown_and_cannot_go_on(runs, copy):
    (copy / "last.ckpt").unlink()
    assert "is finished" in runs.go(["train", "--resume", "--out", copy])
    said = runs.go(["train", "--resume", "--out", copy, "--epochs", "5"], code=2)
    assert "more epochs are asked for, and" in said
    shutil.rmtree(copy / "bundle")
    said = runs.go(["train", "--resume", "--out", copy], code=2)
    assert "its bundle or its predictions are damaged or gone, and" in said


def test_a_folder_that_is_no_run_is_left_alone(runs, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("text")
    said = runs.go(runs.words(folder, "--resume"), code=2)
    assert f"{folder} is no run folder: it holds thesis.txt" in said
    assert files_of(folder) == ["thesis.txt"]
    said = runs.go(["train", "--resume", "--out", tmp_path / "nothing"], code=2)
    assert "zoo train --data FILE --target COLUMN --resume --out" in said
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("text", ["[]", '{"seed": ', '{"seed": 0}'])
def test_a_damaged_run_json_is_one_line(runs, copy, text):
    (copy / "run.json").write_text(text)
    said = runs.go(["train", "--resume", "--out", copy], code=2)
    assert said.count("\n") == 1
    assert f"{copy / 'run.json'} is damaged" in said
    assert f"{copy / 'run.json'} is damaged" in runs.go(["evaluate", copy], code=2)


def test_an_empty_checkpoint_is_said_to_be_empty(runs, copy):
    (copy / "last.ckpt").write_bytes(b"")
    assert "last.ckpt is empty. Remove it" in runs.go(["train", "--resume", "--out", copy], code=2)


def test_a_changed_own_file_says_what_a_resumed_run_needs(runs, tmp_path):
    shutil.copy(runs.folder / "own.csv", tmp_path / "own.csv")
    words = [tmp_path / "own.csv" if w == runs.folder / "own.csv" else w for w in runs.words(tmp_path / "s")]
    runs.go(words, fault="before-step:4", code=-9)
    (tmp_path / "own.csv").write_text("smiles,expt\nC,1\n")
    said = runs.go(["train", "--resume", "--out", tmp_path / "s"], code=2)
    assert "has changed since. Put it back as it was" in said
    (tmp_path / "own.csv").unlink()
    assert "is not there any more" in runs.go(["train", "--resume", "--out", tmp_path / "s"], code=2)


def test_an_early_stopped_run_says_that_more_epochs_change_nothing(runs, tmp_path):
    words = runs.words(tmp_path / "r", "--epochs", "40", "--set", "train.lr=0.05", "--set", "train.patience=2")
    runs.go(words)
    assert "it had stopped early, and more epochs do not change" in runs.go([*words, "--resume", "--epochs", "50"])


def test_python_refuses_what_a_resumed_run_would_not_read(copy):
    with pytest.raises(ZooError, match="a resumed run keeps its target, kind"):
        zoo.train(resume=True, out=copy, target="expt", kind="regression")
