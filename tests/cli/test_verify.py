"""``zoo verify``: what it prints, and with which code it ends."""

import json

import pytest

from zoo.molecules.dmpnn import DMPNN

SMALL = ("--set", "model.hparams.width=32", "--set", "model.hparams.head_width=32")


def test_the_table_and_exit_code_0(zoo):
    code, out, err = zoo("verify", "freesolv", *SMALL, "--rung", "6", "--rung", "1")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("freesolv (dmpnn) on 9")
    assert lines[1].split() == ["rung", "name", "status", "error", "tolerance", "seconds", "what", "it", "shows"]
    assert lines[3].split()[:6] == ["1", "one", "batch", "pass", "0", "exact"]
    assert lines[3].endswith("  every weight gets a finite gradient and a finite step")
    assert lines[4].split()[:4] == ["6", "finite", "differences", "pass"]
    assert lines[4].split()[5] == "0.0001"
    assert lines[5].startswith("2 passed, 0 failed, 0 skipped in ")
    assert [line.split(" (")[0] for line in err.splitlines()] == [
        "1/2  one batch: pass",
        "2/2  finite differences: pass",
    ]


def test_json_and_exit_code_1(zoo, monkeypatch):
    forward = DMPNN.forward
    monkeypatch.setattr(
        DMPNN, "forward", lambda self, graph: {k: x - x.mean(0) for k, x in forward(self, graph).items()}
    )
    code, out, err = zoo("verify", "freesolv", *SMALL, "--rung", "4", "--rung", "6", "--json", "--quiet")
    assert (code, err) == (1, "")
    composition, differences = json.loads(out)
    assert set(composition) == {"rung", "name", "status", "error", "tolerance", "seconds", "reason"}
    assert (composition["rung"], composition["status"], composition["tolerance"]) == (4, "fail", 1e-10)
    assert composition["error"] > 1e-3
    assert "in evaluation mode" in composition["reason"]
    assert (differences["status"], differences["reason"]) == ("pass", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["verify", "fresolv"], "Did you mean 'freesolv'"),
        (["verify", "freesolv", "--rung", "11"], "unknown value 11"),
        (["verify", "freesolv", "--model", "gin"], "Did you mean 'gine'"),
        (["verify", "freesolv", "--set", "lr=1"], "Did you mean 'train.lr'"),
        (["verify"], "required: TASK|BUNDLE"),
    ],
)
def test_wrong_input_is_exit_code_2(zoo, words, message):
    code, out, err = zoo(*words)
    assert (code, out) == (2, "")
    assert message in err


def test_a_folder_without_a_bundle_says_what_to_type(zoo, tmp_path):
    run, other, done = tmp_path / "run", tmp_path / "other", tmp_path / "done"
    for folder in (run, other, done / "bundle"):
        folder.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (done / "bundle" / "config.json").write_text("{}")
    for path, said in {
        run: f"{run} holds a run that is not finished, so there is no bundle in it yet. Finish it first: "
        f"zoo train --resume --out {run}",
        run / "run.json": f"{run}/run.json is a file, not a bundle. Give its folder: {run}",
        other: f"{other} is not a bundle: it has no config.json. A bundle is the folder `bundle/` of a run.",
        tmp_path: f"{tmp_path} is not a bundle: it has no config.json. Did you mean {done}?",
    }.items():
        code, out, err = zoo("verify", path)
        assert (code, out) == (2, "")
        assert err == f"zoo: {said}\n"


def test_a_finished_run_is_verified_by_its_folder(zoo, tmp_path):
    words = ["train.epochs=1", "baseline=false", "threads=1", *SMALL[1::2]]
    sets = [word for setting in words for word in ("--set", setting)]
    code, _, err = zoo("train", "freesolv", "--out", tmp_path / "run", "--quiet", *sets)
    assert code == 0, err
    said = []
    for path in (tmp_path / "run", tmp_path / "run" / "bundle"):
        code, out, _ = zoo("verify", path, "--rung", "7", "--quiet")
        assert code == 0
        said.append(out.splitlines()[0])
    assert said[0] == said[1]
    assert said[0].startswith("freesolv-dmpnn on 9")
