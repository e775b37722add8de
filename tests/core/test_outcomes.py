"""What the conformance kit says about a network of a newcomer: one line that tells what to mend."""

import re
import sys
import warnings
from pathlib import Path

import pytest
import torch

from zoo.core.conformance import RUNGS, Case, continuation, describe, verify
from zoo.core.fit import FitResult
from zoo.errors import NetworkError

sys.path.insert(0, str(Path(__file__).parent))
import unclear
from broken import make as make_broken
from broken import own


def place(name):
    """The line below ``def forward``."""
    line = unclear.NETWORKS[name].forward.__code__.co_firstlineno + 1
    return rf"\({re.escape(unclear.__file__)}, line {line}, in forward\)$"


OUTCOMES = {
    "OneMissing": "the network's forward returns no output for 'inside'; it returns 'radius', and the targets are "
    "'radius', 'inside'$",
    "BareTensor": r"the network's forward returns Tensor; it must return a dict with a tensor \(n, k\) for each target",
    "NoColumns": r"the network's output for 'radius' has the shape \(\d+,\), its labels \(\d+, 1\): return one row per",
    "NotANumber": r"the output 'radius' holds nan: (\d+) of its \1 numbers$",
    "Raising": r"KeyError: Points\(.{0,300} " + place("Raising"),
    "Asserting": "AssertionError " + place("Asserting"),
    "Unused": r"no gradient reaches forgotten\.\w+, forgotten\.\w+: build only what the loss uses$",
}
PASSED = {
    # What looks at outputs alone cannot know what the loss needs.
    "NoColumns": {5, 7},
    "Unused": {5, 7},
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_every_rung_says_in_one_line_what_to_mend(name):
    case = Case(name, unclear.make, {"which": name}, symmetry=own.reordered)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # of NumPy, about NaN
        found = verify(case, [n for n in RUNGS if n != 10])
    assert {r.rung for r in found if r.status == "pass"} == PASSED.get(name, set())
    for rung in found:
        if rung.status == "fail":
            assert re.match(OUTCOMES[name], rung.reason), describe(rung)
            assert "\n" not in describe(rung)
            assert len(rung.reason) < 500


def test_what_make_must_return():
    (rung,) = verify(Case("half", lambda **train: unclear.make("Unused", **train)[0]), [1])
    assert rung.reason == "`make` returns ZooModule; it must return a ZooModule and a ZooDataModule"


def test_a_network_that_lacks_an_output_is_refused_in_a_fit_too():
    module, data = unclear.make("OneMissing")
    with pytest.raises(NetworkError, match="no output for 'inside'"):
        module(data.source.batch(data.parts["train"][:2]))


def test_a_fit_that_ends_otherwise_is_told_by_what_differs(monkeypatch):
    real = continuation.fit
    ended = []

    def changed(*args, **kwargs):
        result = real(*args, **kwargs)
        ended.append(result)
        return FitResult(result.steps, 7, result.selected, result.stopped) if len(ended) == 1 else result

    monkeypatch.setattr(continuation, "fit", changed)
    (rung,) = verify(Case("right", make_broken), [8])
    assert rung.reason == "the resumed fit ended otherwise: epochs 2 instead of 7"


def test_a_checkpoint_that_lacks_a_tensor_is_told_without_its_numbers(monkeypatch):
    real = continuation.read_checkpoint

    def changed(path):
        state = real(path)
        # Only what is compared in the end.
        if sys._getframe(1).f_code.co_name != "_fit" and path.parent.name == "whole":
            state["more"] = torch.zeros(3)
        elif sys._getframe(1).f_code.co_name != "_fit":
            state["more"] = None
        return state

    monkeypatch.setattr(continuation, "read_checkpoint", changed)
    (rung,) = verify(Case("right", make_broken), [8])
    assert rung.reason == "more of the checkpoint is None instead of a tensor (3,)"
