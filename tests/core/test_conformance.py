"""The conformance kit passes what is right and fails what is broken, at the right rung."""

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.core import conformance
from zoo.core.conformance import Case, check, continuation, small_problem, verify
from zoo.core.conformance.accelerator import compare_devices
from zoo.core.conformance.case import Meter, Rung, RungError, SkipRung, reference
from zoo.core.conformance.oracle import window_loss
from zoo.core.conformance.tools import hide_labels
from zoo.core.module import ZooModule
from zoo.errors import InputError

sys.path.insert(0, str(Path(__file__).parent))
from broken import EXAMPLE, make, own
from oracle_case import CASES, Linear, spec, windows

SINGLE = [n for n in conformance.RUNGS if n != 9]


def broken(name):
    return Case(name, make, {"broken": name}, symmetry=own.reordered)


def one(case, number):
    (rung,) = verify(case, [number])
    return rung


def test_the_example_passes_when_it_is_run():
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert [line.split(":")[0].split(" (")[0] for line in lines] == [f"rung {n}" for n in range(1, 11)]
    assert all(": pass, error" in line for line in lines[:9])
    assert torch.cuda.is_available() or lines[9] == "rung 10 (device batch): skip; torch sees no GPU here"


def test_a_network_that_keeps_the_contract_passes():
    found = check(Case("right", make, symmetry=own.reordered), SINGLE)
    assert [(r.rung, r.status) for r in found if r.rung < 10] == [(n, "pass") for n in SINGLE if n < 10]
    assert all(r.error <= r.tolerance for r in found if r.rung < 10)
    assert found[2].error < 0.01  # learning goes on below the bound, so that the error says how far it is


# Where a promise is broken: the rung that must find it, and what it must say.
FAULTS = [
    ("Unused", 1, r"no gradient reaches forgotten\.bias, forgotten\.weight"),
    ("Silenced", 1, "the gradient is zero in 4 steps of gate"),
    ("Exploding", 1, "the output '(radius|inside)' holds -?inf: 8 of its 8 numbers"),
    ("DroppedMask", 2, "the loss with wild values in masked positions: error"),
    ("MaskedByProduct", 2, "with wild values in masked positions: not finite"),
    ("MeanOfMeans", 2, "the loss beside its definition: error"),
    ("UnmaskedMean", 2, "the loss beside its definition: error"),
    ("ForgottenWeight", 2, "beside its definition: error"),
    ("WrongReport", 2, "val_mean with wild values in masked positions"),
    ("Blind", 3, "the share of the loss that is left after 400 steps: error"),
    ("BatchNormed", 4, r"batch statistics in norm \(BatchNorm1d\)"),
    ("Centred", 4, "in a batch.* beside '(radius|inside)' alone in evaluation mode"),
    ("CentredInTraining", 4, "in training mode"),
    ("PaddingLeak", 4, "beside the largest item beside|among copies of the largest item beside|in a batch"),
    ("NotEmpty", 4, "ValueError: no items"),
    ("FirstPoint", 5, "outputs for equivalent inputs: error"),
    ("WrongGradient", 6, "the derivative with respect to"),
    ("LostOnSaving", 7, "outputs of '(radius|inside)' after loading: error .*, not the same bits"),
    ("Counting", 8, "the selected weights|of the checkpoint"),
]


@pytest.mark.parametrize(("name", "number", "reason"), FAULTS, ids=[f[0] for f in FAULTS])
def test_what_is_broken_fails_at_its_rung(name, number, reason):
    rung = one(broken(name), number)
    assert rung.status == "fail"
    assert rung.error is None or rung.error > rung.tolerance
    with pytest.raises(AssertionError, match=rf"(?s){name} fails.*rung {number} .*fail.*{reason}"):
        check(broken(name), [number])


EMPTY = {
    "reference": [],
    "step_losses": [],
    "best": {"value": None, "epoch": None, "step": None, "weights": None},
    "averaged": None,
    "stopping": None,
    "rows": [],
}


@pytest.mark.parametrize("key", EMPTY)
def test_a_resume_that_forgets_something_fails(monkeypatch, key):
    real = continuation.read_checkpoint

    def forgetful(path):
        state = real(path)
        # Only what a fit goes on from; what is compared in the end is whole.
        return {**state, key: EMPTY[key]} if sys._getframe(1).f_code.co_name == "_fit" else state

    monkeypatch.setattr(continuation, "read_checkpoint", forgetful)
    assert one(Case("right", make), 8).status == "fail"


def test_a_fit_whose_random_numbers_go_on_from_the_last_ones_fails(monkeypatch):
    monkeypatch.setattr(ZooModule, "reseed", lambda self, batch: None)
    assert one(Case("right", make), 8).status == "fail"


def test_a_mean_of_the_ranks_means_fails_on_two_ranks():
    rung = one(broken("MeanOfMeans"), 9)
    assert rung.status == "fail"
    assert "after the fit: error" in rung.reason
    assert rung.error > 1e-6


def test_what_another_rank_says_reaches_the_report():
    rung = one(broken("NotEmpty"), 9)
    assert rung.status == "fail"
    assert "process 1 of the job failed: ValueError: no items" in rung.reason


def test_what_cannot_be_imported_is_skipped_with_the_remedy():
    rung = one(Case("nameless", lambda **train: make(None, **train)), 9)
    assert rung.status == "skip"
    assert "write it as a function at the top of a .py file" in rung.reason


def test_references():
    assert reference(small_problem) == "zoo.core.conformance.problem:small_problem"
    assert reference(make) == "broken:make"  # its folder is on the path
    assert reference(own.make) == f"{EXAMPLE}:make"  # it is not
    with pytest.raises(SkipRung):
        reference(lambda: None)


def test_without_a_symmetry_the_rung_is_skipped_and_with_an_empty_one_it_fails():
    assert one(Case("none", make), 5).status == "skip"
    assert one(Case("none", make, symmetry=lambda module, data: []), 5).status == "fail"


def test_examples_are_compared():
    pairs = [(torch.tensor([1.0]), torch.tensor([1.0 + 5e-5]))]
    rung = one(Case("examples", make, examples=lambda: pairs), 7)
    assert rung.status == "fail"
    assert rung.error == pytest.approx(2.5e-5, rel=0.1)
    assert "recorded predictions" in rung.reason


@pytest.mark.parametrize("change", ["weights", "buffers"])
def test_a_format_that_loses_something_fails(change):
    def reload(module, folder):
        network = copy.deepcopy(module.network)
        if change == "weights":
            network.point[0].weight.data = network.point[0].weight.data.half().to(network.point[0].weight.dtype)
        else:
            network.register_buffer("more", torch.zeros(1))
        return network

    rung = one(Case("lossy", make, reload=reload), 7)
    assert rung.status == "fail"
    assert ("point.0.weight after loading" if change == "weights" else "the state differs in more") in rung.reason
    assert one(Case("same", make, reload=lambda module, folder: module.network), 7).status == "fail"


def test_the_device_rung_compares_with_the_cpu():
    meter = Meter()
    compare_devices(Case("right", make), meter, "cpu", ["32"])
    assert meter.passed
    assert meter.worst[0] > 0  # float32 is not float64
    with pytest.raises(RungError, match=r"the output '(radius|inside)' holds"):
        compare_devices(broken("Exploding"), Meter(), "cpu", ["32"])
    off = Meter()
    compare_devices(broken("CoarseInSingle"), off, "cpu", ["64", "32"])
    assert off.worst[2] == "the loss in precision 32"
    assert not off.passed


def test_the_device_rung_in_bfloat16():
    meter = Meter()
    compare_devices(Case("right", make), meter, "cpu", ["bf16"])
    assert meter.passed
    assert meter.worst[0] > 1e-6


def test_a_random_network_is_said_to_be_one():
    def noisy(**train):
        module, data = make(**train)
        module.network.register_forward_hook(
            lambda network, _, found: {n: x + 0.1 * torch.randn_like(x) * network.training for n, x in found.items()}
        )
        return module, data

    rung = one(Case("noisy", noisy), 4)
    assert rung.status == "pass"
    assert "training mode not looked at, for its outputs are random" in rung.reason


def test_a_rung_that_is_not_there():
    with pytest.raises(InputError, match=r"no rung 11\. Known: 1 \(one batch\), 2"):
        verify(Case("right", make), [1, 11])


def test_the_report_is_given_rung_by_rung_and_the_random_numbers_are_left_alone():
    seen = []
    torch.manual_seed(3)
    want = torch.rand(2)
    torch.manual_seed(3)
    found = verify(Case("right", make), [6, 1, 6], report=seen.append)
    assert torch.equal(torch.rand(2), want)
    assert not torch.are_deterministic_algorithms_enabled()
    assert seen == found
    assert [r.rung for r in found] == [1, 6]


def test_an_infinite_error_has_no_place_in_json():
    rung = Rung(1, "x", "fail", float("inf"), 0.0, 1.0, "")
    assert rung.to_json() == {
        "rung": 1, "name": "x", "status": "fail", "error": None, "tolerance": 0.0, "seconds": 1.0, "reason": "",
    }  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_the_kit_s_own_loss_equals_the_oracle_file(case):
    network, targets = Linear(case["targets"]), [spec(t) for t in case["targets"]]
    for window, want in zip(windows(case, float("nan")), case["expected"], strict=True):
        outputs = [network(batch) for batch in window]
        loss, grads = window_loss(targets, outputs, window, reduction=case["reduction"])
        np.testing.assert_allclose(loss, want["loss"], rtol=1e-12, atol=1e-12)
        for name in want["grad_W"]:
            slope = sum(b.inputs.x.numpy().T @ g[name] for b, g in zip(window, grads, strict=True))
            np.testing.assert_allclose(slope, want["grad_W"][name], rtol=1e-12, atol=1e-12)


def test_hidden_labels():
    _, data = make()
    before = {n: labels.mask.copy() for n, labels in data.source.labels.items()}
    hide_labels(data)
    for name, labels in data.source.labels.items():
        assert not (labels.mask & ~before[name]).any()
        share = labels.mask.sum() / before[name].sum()
        assert 0.5 < share < 0.85
    assert data.train_loader.source is data.source
    _, tiny = make()
    tiny.parts["train"] = np.flatnonzero(before["radius"][:, 0])[:2]
    hide_labels(tiny)
    assert tiny.source.labels["radius"].mask[tiny.parts["train"], 0].tolist() == [True, False]


def test_the_meter_keeps_what_came_closest_to_its_tolerance():
    meter = Meter()
    meter.close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.3]), 1.0, "loose")
    meter.close(1.0, 1.0 + 2e-9, 1e-8, "tight")
    assert meter.worst == (pytest.approx(1e-9), 1e-8, "tight")
    assert meter.passed
    meter.bits(torch.tensor(float("nan")), torch.tensor(float("nan")), "two NaN")
    assert meter.passed
    meter.bits(1.0, 1.0 + 2**-52, "a bit")
    assert not meter.passed
    assert meter.worst[2] == "a bit"
    only = Meter()
    only.close(float("nan"), 1.0, 1.0, "one NaN")
    assert only.worst == (float("inf"), 1.0, "one NaN")
    with pytest.raises(RungError, match=r"float32 instead of torch\.float64"):
        meter.bits(torch.zeros(1), torch.zeros(1).double(), "types")
    with pytest.raises(RungError, match=r"shape \(1,\) instead of \(2,\)"):
        meter.close(torch.zeros(1), torch.zeros(2), 1.0, "shapes")
