"""What is settled before the first step: microbatches that fit, compiled code; and how fast a run is."""

import csv
import json
import logging
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch._inductor import config
from torch._inductor.utils import fresh_cache

import zoo.core.compiled
from zoo.core import throughput
from zoo.core.compiled import CompiledNetwork
from zoo.core.fit import fit, make_trainer
from zoo.core.launch import WorkerError, run_on_ranks
from zoo.core.memory import heaviest_window, is_out_of_memory
from zoo.core.resume import read_checkpoint
from zoo.core.runtime import try_out
from zoo.core.throughput import Meter, count_flops, measured_flops
from zoo.errors import InputError

sys.path.insert(0, str(Path(__file__).parent))
from runtime_jobs import limit
from test_resume import EVERYTHING, go, same
from toy import toy

JOBS = str(Path(__file__).parent / "runtime_jobs.py")


def weights(module):
    return torch.cat([p.detach().reshape(-1) for p in module.network.parameters()])


def fitted(module, data, folder=None):
    fit(module, data, make_trainer(module, folder=folder, device="cpu"))
    return weights(module)


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture
def probing(monkeypatch):
    monkeypatch.setenv("ZOO_PROBE", "1")


@pytest.fixture
def notes(caplog):
    """The notices of the zoo, one string each."""
    # A command line that ran in this process before may have taken them for itself.
    log = logging.getLogger("zoo")
    before, log.propagate = log.propagate, True
    yield lambda: [r.getMessage() for r in caplog.records if r.name.startswith("zoo.")]
    log.propagate = before


# The microbatch that fits


def test_a_step_is_cut_until_it_fits_and_its_gradient_stays(probing, notes):
    module, data = toy(batch_size=8, select="last")
    limit(module, 3)
    found = fitted(module, data)
    assert module.sizes == {"ranks": 1, "device": "cpu", "microbatches": 4, "evaluation": 64}
    assert notes() == ["a step's 8 items do not fit at once: 4 microbatches of at most 2"]
    torch.testing.assert_close(found, fitted(*toy(batch_size=8, select="last")), rtol=0, atol=1e-12)
    assert torch.equal(found, fitted(*toy(batch_size=8, select="last", microbatches=4)))


@pytest.mark.parametrize(("asked", "most", "pieces"), [(1, 8, 1), (2, 8, 2), (3, 1, 8), (3, 2, 6), (8, 1, 8)])
def test_the_number_asked_for_is_doubled_up_to_single_items(probing, asked, most, pieces):
    module, data = toy(batch_size=8, microbatches=asked, epochs=1)
    limit(module, most)
    fitted(module, data)
    assert data.train_loader.microbatches == pieces


def test_trying_out_changes_no_bit(probing, monkeypatch):
    options = {"dropout": 0.3, "microbatches": 2, "ema": 0.9}
    tried = fitted(*toy(**options))
    monkeypatch.setenv("ZOO_PROBE", "0")
    assert torch.equal(tried, fitted(*toy(**options)))
    module, data = toy(**options)
    module.train()
    before, state = weights(module).clone(), torch.get_rng_state()
    try_out(module, heaviest_window(data, 2))
    assert torch.equal(weights(module), before)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None for p in module.network.parameters())


def test_a_cpu_is_tried_only_when_asked(monkeypatch):
    monkeypatch.delenv("ZOO_PROBE", raising=False)
    module, data = toy(batch_size=8)
    limit(module, 3)
    with pytest.raises(InputError, match=r"ran out at step 0, .* at most 8 items.*--set train\.microbatches=2"):
        fitted(module, data)


def test_the_heaviest_step_holds_the_largest_items_the_largest_first():
    _, data = toy(n=30, batch_size=6)
    sizes = np.arange(30)[::-1].copy()  # the first rows are the largest
    sizes[17] = 99
    data.source.items.size = lambda: sizes
    assert [b.rows.tolist() for b in heaviest_window(data, 3)] == [[17, 0], [1, 2], [3, 4]]


def test_an_item_that_does_not_fit_alone_is_named(probing):
    module, data = toy(batch_size=8)
    sizes = np.ones(60)
    sizes[23], sizes[50] = 700, 900  # row 50 is a validation row
    data.source.items.size = lambda: sizes
    limit(module, 0)
    with pytest.raises(InputError, match=r"row 23, the largest item \(size 700\), does not fit"):
        fitted(module, data)


def test_other_errors_are_not_taken_for_a_lack_of_memory(probing):
    module, data = toy()
    module.network.encoder.forward = lambda inputs: (_ for _ in ()).throw(RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match="shapes differ"):
        fitted(module, data)


def test_a_host_without_memory_is_recognised():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("size mismatch"))


def test_evaluation_is_cut_on_its_own(probing):
    module, data = toy(n=60, epochs=1)
    inner = module.network.encoder.forward

    def forward(inputs):
        if not module.network.training and len(inputs.x) > 10:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return inner(inputs)

    module.network.encoder.forward = forward
    fitted(module, data)
    assert module.sizes["microbatches"] == 1
    assert data.eval_limit == module.sizes["evaluation"] == 8  # 64, 32, 16, 8


def test_a_resumed_fit_keeps_the_number_it_was_begun_with(probing, tmp_path, monkeypatch):
    options = {**EVERYTHING, "microbatches": 1}
    limited = toy

    def short(**kwargs):
        module, data = limited(**kwargs)
        limit(module, 3)
        return module, data

    monkeypatch.setattr("test_resume.toy", short)
    _, whole = go(tmp_path / "whole", **options)
    want = read_checkpoint(tmp_path / "whole" / "last.ckpt")
    assert want["sizes"]["microbatches"] == 4
    go(tmp_path / "part", stop=7, **options)
    monkeypatch.setattr("test_resume.toy", limited)  # memory is free again, and it does not matter
    module, resumed = go(tmp_path / "part", resume=True, **options)
    assert resumed == whole
    assert module.loader.microbatches == 4
    assert same(read_checkpoint(tmp_path / "part" / "last.ckpt"), want)


# Compiled code


@pytest.mark.parametrize("precision", ["32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_compiled_and_eager_agree(tmp_path, precision, notes):
    options = {"precision": precision, "epochs": 2, "dropout": 0.3, "microbatches": 2, "ema": 0.9, "select": "last"}
    module, data = toy(**options, compile=True)
    fitted(module, data, tmp_path)
    assert isinstance(module.run, CompiledNetwork)
    assert notes() == []
    eager, data = toy(**options)
    want = fitted(eager, data)
    torch.testing.assert_close(weights(module), want, rtol=0, atol=1e-5 if precision == "32" else 1e-2)
    assert module.best["value"] == pytest.approx(eager.best["value"], rel=1e-5 if precision == "32" else 1e-2)
    assert list(module.state_dict()) == list(eager.state_dict())
    assert list(read_checkpoint(tmp_path / "last.ckpt")["network"]) == list(eager.network.state_dict())


def test_a_compiled_fit_resumes_to_the_same_bits(tmp_path):
    options = {**EVERYTHING, "compile": True}
    go(tmp_path / "whole", **options)
    torch._dynamo.reset()
    go(tmp_path / "part", stop=7, **options)
    torch._dynamo.reset()
    go(tmp_path / "part", resume=True, **options)
    assert same(*(read_checkpoint(tmp_path / n / "last.ckpt") for n in ("part", "whole")))


def test_without_a_compiler_the_network_runs_as_it_is(notes):
    options = {"epochs": 2, "dropout": 0.3}
    module, data = toy(**options, compile=True)
    torch._dynamo.reset()
    with fresh_cache(), config.patch({"cpp.cxx": ("no-such-compiler",), "compile_threads": 1}):
        found = fitted(module, data)
    assert torch.equal(found, fitted(*toy(**options)))
    assert len(notes()) == 1
    assert notes()[0].startswith("compile: fell back to eager: ")
    assert "\n" not in notes()[0]


def test_a_backward_that_cannot_be_compiled_falls_back_too(notes, monkeypatch):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x.clone()

        @staticmethod
        def backward(_, grad):
            raise NotImplementedError("no kernel\nfor this")

    def stand_in(network, **_):
        return lambda batch: {name: Fails.apply(out) for name, out in network(batch).items()}

    monkeypatch.setattr(zoo.core.compiled.torch, "compile", stand_in)
    found = fitted(*toy(compile=True))
    assert notes() == ["compile: fell back to eager: NotImplementedError: no kernel"]
    monkeypatch.undo()
    assert torch.equal(found, fitted(*toy()))


def test_a_failure_later_on_repeats_the_forward_with_the_same_random_numbers(notes, monkeypatch):
    calls = []

    def stand_in(network, **_):
        def forward(batch):
            calls.append(len(batch))
            torch.rand(3)
            if len(calls) > 8:
                raise RuntimeError("a size that was not foreseen")
            torch.random.manual_seed(0)
            module.reseed(batch)
            return network(batch)

        return forward

    options = {"epochs": 2, "dropout": 0.3}
    monkeypatch.setattr(zoo.core.compiled.torch, "compile", stand_in)
    module, data = toy(**options, compile=True)
    found = fitted(module, data)
    assert len(calls) == 9
    assert notes() == ["compile: fell back to eager: RuntimeError: a size that was not foreseen"]
    monkeypatch.undo()
    assert torch.equal(found, fitted(*toy(**options)))


def test_a_fault_of_the_network_is_not_taken_for_the_compilers(monkeypatch):
    monkeypatch.setattr(zoo.core.compiled.torch, "compile", lambda network, **_: network)
    module, data = toy(compile=True)
    module.network.encoder.forward = lambda inputs: (_ for _ in ()).throw(ValueError("a fault of its own"))
    with pytest.raises(ValueError, match="a fault of its own"):
        fitted(module, data)


# How fast


def test_the_rates_of_a_lap_by_hand(monkeypatch):
    _, data = toy(n=30, batch_size=8, laps=1)
    loader = data.train_loader  # 20 items: 8, 8, 4
    sizes = np.arange(30) ** 2
    loader.source.items.size = lambda: sizes
    meter = Meter()
    meter.flops_per_size, meter.peak = 50.0, 1e4
    clock = iter([100.0, 101.0, 102.0, 104.0])  # begun, three steps
    monkeypatch.setattr(throughput.time, "monotonic", lambda: next(clock))
    meter.begin(loader)
    for _ in range(3):
        meter.step()
    monkeypatch.undo()
    total = sum(i**2 for i in range(20))
    assert meter.rates(loader) == {
        "items_per_second": 5.0,
        "size_per_second": round(total / 4, 2),
        "share_of_peak": float(f"{50 * total / 4 / 1e4:.4g}"),
    }


def test_a_lap_that_is_resumed_counts_its_own_steps_alone(monkeypatch):
    _, data = toy(n=30, batch_size=8)
    data.train_loader.start_window = 2
    meter = Meter()
    clock = iter([5.0, 7.0])
    monkeypatch.setattr(throughput.time, "monotonic", lambda: next(clock))
    meter.begin(data.train_loader)
    meter.step()
    monkeypatch.undo()
    assert meter.rates(data.train_loader) == {"items_per_second": 2.0}  # the 4 items of the last window
    meter.begin(data.train_loader)
    assert meter.rates(data.train_loader) == {}


def test_operations_are_counted_as_by_hand():
    module, data = toy(n=60, batch_size=8)
    module.train()
    window = next(iter(data.train_loader))
    # Multiply and add, over 5 x 8 (whose input needs no gradient), 8 x 16 and 16 x 2 matrices.
    want = 2 * 8 * (2 * 5 * 8 + 3 * 8 * 16 + 3 * 16 * 2)
    assert count_flops(lambda: try_out(module, window)) == want


def test_a_measurement_that_fails_ends_nothing():
    assert count_flops(lambda: 1 / 0) is None
    assert count_flops(lambda: torch.zeros(3) + 1) is None


def test_the_peak_is_the_best_rate_of_a_matrix_product(monkeypatch):
    seconds = {256: 1e-3, 512: 4e-3, 1024: 16e-3}
    monkeypatch.setattr(throughput, "_seconds", lambda matrix: seconds[len(matrix)])
    measured_flops.cache_clear()
    assert measured_flops(torch.device("cpu"), torch.float32, 1) == 2 * 1024**3 / 16e-3
    seconds[512] = 6e-3  # long enough to stop at
    measured_flops.cache_clear()
    assert measured_flops(torch.device("cpu"), torch.float32, 1) == 2 * 512**3 / 6e-3
    measured_flops.cache_clear()


def test_a_device_without_a_product_of_a_type_has_no_peak(monkeypatch):
    def fails(*_):
        raise RuntimeError('"addmm_impl_cpu_" not implemented for this type')

    monkeypatch.setattr(throughput, "measured_flops", fails)
    assert throughput.peak_flops(torch.device("cpu"), torch.float16) is None


def test_measuring_changes_no_bit_and_the_log_has_its_columns(tmp_path):
    options = {"dropout": 0.3, "encoder_lr_scale": 0.5, "laps": 2}
    module, data = toy(**options)
    sizes = np.arange(60)
    data.source.items.size = lambda: sizes
    found = fitted(module, data, tmp_path)
    assert torch.equal(found, fitted(*toy(**options)))  # without a folder nothing is measured
    rows = rows_of(tmp_path / "timing.csv")
    groups = ["head/decay", "head/no_decay", "encoder/decay", "encoder/no_decay"]
    speeds = ["seconds", "items_per_second", "size_per_second", "share_of_peak"]
    assert set(rows[0]) == {"step", *speeds, *(f"lr/{g}" for g in groups)}
    assert len(rows) == 8
    for row, metrics in zip(rows, rows_of(tmp_path / "metrics.csv"), strict=True):
        assert all(float(row[name]) > 0 for name in speeds)
        assert float(row["share_of_peak"]) < 1
        assert row["lr/head/decay"] == metrics["lr"]
        assert float(row["lr/encoder/decay"]) == pytest.approx(0.5 * float(metrics["lr"]), rel=1e-12)
        assert not {*speeds} & set(metrics)
        assert {"grad_norm", "lr", "train_loss"} <= set(metrics)


def test_a_resumed_fit_keeps_the_rows_of_timing(tmp_path):
    go(tmp_path / "r", stop=7, epochs=3)
    before = rows_of(tmp_path / "r" / "timing.csv")
    go(tmp_path / "r", resume=True, epochs=3)
    after = rows_of(tmp_path / "r" / "timing.csv")
    assert len(before) == 1
    assert len(after) == 3
    assert after[: len(before)] == before


# Several processes


def test_what_one_process_cannot_do_none_does(tmp_path, capfd):
    payload = {"folder": str(tmp_path), "options": {"batch_size": 8, "epochs": 1}, "most": 1}
    run_on_ranks(f"{JOBS}:rank_1_is_the_weaker", payload, world=2)
    alone = float(fitted(*toy(batch_size=8, epochs=1))[0])
    for name, pieces in (("memory", 4), ("compiler", 1)):
        found = [json.loads((tmp_path / name / f"rank-{r}.json").read_text()) for r in range(2)]
        assert found[0] == found[1]
        assert found[0]["sizes"]["microbatches"] == pieces
        assert not found[0]["compiled"]
        assert found[0]["first"] == pytest.approx(alone, rel=1e-12)
    said = capfd.readouterr().err.splitlines()
    assert [line for line in said if "microbatches" in line or "compile" in line] == [
        "a step's 8 items do not fit at once: 2 processes x 4 microbatches of at most 1",
        "compile: fell back to eager: another process cannot compile it",
    ]


def test_the_process_whose_loss_is_not_finite_is_the_one_that_is_heard(tmp_path):
    payload = {"folder": str(tmp_path), "options": {"epochs": 1, "batch_size": 16}}
    with pytest.raises(WorkerError) as caught:
        run_on_ranks(f"{JOBS}:rank_1_has_a_broken_label", payload, world=2)
    assert f"the loss is inf. Rows of the batch: {(tmp_path / 'rows').read_text()}." in str(caught.value)
