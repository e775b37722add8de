"""``zoo verify``: what it prints, and with which code it ends."""

import json

import pytest

from zoo.molecules.dmpnn import DMPNN

SMALL = ("--set", "model.hparams.width=32", "--set", "model.hparams.head_width=32")


def test_the_table_and_exit_code_0(zoo):
    code, out, err = zoo("verify", "freesolv", *SMALL, "--rung", "6", "--rung", "1")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("freesolv on 9")
    assert lines[1].split() == ["rung", "name", "status", "error", "tolerance", "seconds"]
    assert lines[3].split()[:4] == ["1", "one", "batch", "pass"]
    assert lines[4].split()[:4] == ["6", "finite", "differences", "pass"]
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
