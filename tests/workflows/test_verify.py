"""The ladder on tasks and bundles: what is right passes, what is broken on purpose fails."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

import zoo
from zoo.core.bundle import read_spec, read_weights
from zoo.core.table import read_table
from zoo.errors import InputError
from zoo.molecules.dmpnn import DMPNN
from zoo.specs.catalog import Catalog
from zoo.specs.target import TargetSpec
from zoo.workflows import cases
from zoo.workflows.cases import case_of
from zoo.workflows.fewrows import FEWEST, LETTERS, LONGEST, ROWS, choose

SMALL = {"model.hparams.width": 32, "model.hparams.head_width": 32}
ONE_PROCESS = [1, 2, 3, 4, 5, 6, 7, 8]


def failures(rungs):
    return {r.rung: r.reason for r in rungs if r.status == "fail"}


PROTEINS = ["amp", "pdb-ss3", "protein-mlm"]
ARCHITECTURES = [
    *((t, m) for t in ("freesolv", "freesolv-crippen", "bbb", "bbb-class") for m in ("dmpnn", "gine", "attentivefp")),
    *((t, "esm2") for t in PROTEINS),
]


def small(model):
    return (
        {"model.hparams.layers": 1, "model.hparams.width": 24, "model.hparams.heads": 2} if model == "esm2" else SMALL
    )


@pytest.mark.parametrize(("task", "model"), ARCHITECTURES)
def test_every_architecture_passes_on_every_kind_of_task(task, model):
    found = zoo.verify(task, model=model, settings=small(model), rungs=ONE_PROCESS)
    assert failures(found) == {}
    # How nodes stand in a protein means something: it has no other way to be written.
    assert [r.rung for r in found if r.status == "skip"] == ([5] if model == "esm2" else [])
    assert all(r.error <= r.tolerance for r in found if r.status == "pass")


@pytest.mark.parametrize(("task", "model"), [("bbb", "dmpnn"), *((t, "esm2") for t in PROTEINS)])
def test_two_ranks_agree_on_a_task(task, model):
    (rung,) = zoo.verify(task, settings=small(model), rungs=[9])
    assert (rung.status, rung.reason) == ("pass", "")
    assert 0 < rung.error <= 1e-10


def test_a_network_that_looks_at_its_neighbours_fails(monkeypatch):
    forward = DMPNN.forward

    def leaky(self, graph):
        return {level: x + 1e-3 * x.mean() for level, x in forward(self, graph).items()}

    monkeypatch.setattr(DMPNN, "forward", leaky)
    found = failures(zoo.verify("freesolv", settings=SMALL, rungs=[1, 4, 6]))
    assert list(found) == [4]
    assert "in a batch" in found[4] or "beside the largest item" in found[4]


def test_a_network_that_reads_the_order_of_atoms_fails(monkeypatch):
    forward = DMPNN.forward

    def ordered(self, graph):
        first = graph.atom_kind.index_select(0, graph.atom_ptr[:-1].long())
        degree = graph.atom_fields.index_select(0, first.long()).sum(1, keepdim=True)
        return {level: x + 1e-3 * degree for level, x in forward(self, graph).items()}

    monkeypatch.setattr(DMPNN, "forward", ordered)
    assert list(failures(zoo.verify("freesolv", settings=SMALL, rungs=[4, 5]))) == [5]


def test_a_featuriser_that_reads_the_string_fails(monkeypatch):
    monkeypatch.setattr("zoo.molecules.equivalents.random_smiles", lambda smiles, seed: smiles + "C")
    assert list(failures(zoo.verify("freesolv", settings=SMALL, rungs=[5]))) == [5]


def test_a_bundle_passes_with_its_own_weights_on_its_task(freesolv):
    found = zoo.verify(freesolv.folder, rungs=ONE_PROCESS)
    assert failures(found) == {}
    assert [r.status for r in found] == ["pass"] * 8
    with case_of(str(freesolv.bundle)) as case:
        assert case.name.startswith("freesolv-dmpnn on 9")
        module, data = case.build()
        double, _ = case.build(precision="64")
    weights, spec = read_weights(freesolv.bundle), read_spec(freesolv.bundle)
    for name, tensor in module.network.state_dict().items():
        assert torch.equal(tensor, weights[name])
        assert torch.equal(double.network.state_dict()[name], weights[name].double())
    assert module.scalers == spec.scalers
    label = data.source.labels["hydration_free_energy"]
    raw = label.values * spec.scalers["hydration_free_energy"].scale + spec.scalers["hydration_free_energy"].mean
    file = next(Catalog([]).dataset_folder("freesolv").glob("*.csv"))
    energies = pd.read_csv(file)["expt"].to_numpy()
    assert all(np.abs(energies - value).min() < 1e-9 for value in raw[label.mask])


def test_a_bundle_that_predicts_otherwise_than_it_says_fails(freesolv, monkeypatch):
    real = cases.read_example

    def changed(folder):
        example = real(folder)
        outputs = {name: [v + 1e-3 for v in values] for name, values in example["outputs"].items()}
        return {**example, "outputs": outputs}

    monkeypatch.setattr(cases, "read_example", changed)
    found = failures(zoo.verify(freesolv.bundle, rungs=[7]))
    assert "recorded predictions: error" in found[7]


@pytest.mark.parametrize("kind", ["molecule", "atom"])
def test_a_bundle_whose_data_are_gone_is_verified_on_its_examples(tmp_path, quick, kind):
    chains = ["C" * (2 + i // 2) + ("O" if i % 2 else "N") for i in range(40)]
    rows = [f"{s},{0.5 * i - 3},{'yes' if i % 3 else 'no'}" for i, s in enumerate(chains)]
    columns = ["y", "c"]
    if kind == "atom":
        rows = [f'{s},"{[0.1 * i] * len(s)}",{0.5 * i}' for i, s in enumerate(chains)]
        columns = ["y"]
    (tmp_path / "own.csv").write_text("\n".join(["smiles,y,c", *rows]) + "\n")
    run = zoo.train(
        data=tmp_path / "own.csv", target=columns, settings=quick | {"split.method": "random"}, out=tmp_path / "run"
    )
    with case_of(str(run.bundle)) as case:
        assert case.name == "own-dmpnn on 40 rows of own"
    (tmp_path / "own.csv").unlink()
    with case_of(str(run.bundle)) as case:
        assert case.name == "own-dmpnn on its examples with made-up labels, for its data are not at hand"
    found = zoo.verify(run.folder, rungs=ONE_PROCESS)
    assert failures(found) == {}
    shutil.move(run.bundle, tmp_path / "alone")  # without a run beside it, no file of one's own is known either
    assert failures(zoo.verify(tmp_path / "alone", rungs=[1, 7])) == {}


def test_a_bundle_of_every_kind_reproduces_its_examples(trained, monkeypatch):
    assert failures(zoo.verify(trained.run.bundle, rungs=[7], includes=trained.includes)) == {}
    real = cases.read_example

    def changed(folder):
        """Another label, number or node in the last prediction."""
        example = real(folder)
        name = next(iter(example["outputs"]))
        *others, last = example["outputs"][name]
        if isinstance(last, str) and last.startswith("["):
            last = json.dumps([*json.loads(last)[:-1], "-"])
        else:
            last = last + 1e-3 if isinstance(last, float) else f"not {last}"
        return {**example, "outputs": {**example["outputs"], name: [*others, last]}}

    monkeypatch.setattr(cases, "read_example", changed)
    found = failures(zoo.verify(trained.run.bundle, rungs=[7], includes=trained.includes))
    assert "recorded predictions: error" in found[7]


def test_what_cannot_be_verified_is_refused(freesolv):
    with pytest.raises(InputError, match=r"no task and no model 'fresolv'\. Did you mean 'freesolv'"):
        zoo.verify("fresolv")
    with pytest.raises(InputError, match="--model and --set go with a task"):
        zoo.verify(freesolv.bundle, model="gine")
    with pytest.raises(InputError, match="no rung 12"):
        zoo.verify("freesolv", rungs=[12])
    with pytest.raises(InputError, match=r"'dmpn' is not one that the task 'freesolv' allows\. Did you mean 'dmpnn'"):
        zoo.verify("freesolv", model="dmpn")


def test_what_a_deep_network_repeats_is_verified_on_two_layers_unless_a_number_is_asked_for():
    with case_of("pdb-ss3") as case:
        assert case.name.startswith("pdb-ss3 (esm2, 2 of 4 layers) on ")
        assert len(case.build()[0].network.encoder.layers) == 2
    with case_of("pdb-ss3", settings={"model.hparams.layers": 3}) as case:
        assert case.name.startswith("pdb-ss3 (esm2) on ")
        assert len(case.build()[0].network.encoder.layers) == 3


def test_of_long_inputs_fewer_and_the_shorter_ones_are_taken(tmp_path):
    rng = np.random.default_rng(0)
    task, dataset = Catalog([]).task("gb1-two-vs-rest"), Catalog([]).dataset("gb1")
    for lengths in (rng.integers(30, 1600, 500), np.full(500, 700)):
        lines = [f"{'M' * n},1.0" for n in lengths]
        (tmp_path / "t.csv").write_text("\n".join(["sequence,fitness", *lines]) + "\n")
        chosen = lengths[choose(read_table(tmp_path / "t.csv"), task, dataset)]
        assert FEWEST <= len(chosen) <= ROWS + 1
        assert len(chosen) <= FEWEST + 1 or chosen.sum() <= 1.3 * LETTERS
        assert chosen.max() == max([n for n in lengths if n <= LONGEST], default=700)


def test_rare_classes_and_the_longest_input_are_among_the_rows(tmp_path):
    rng = np.random.default_rng(0)
    rare = {int(i) for i in rng.choice(2000, 3, replace=False)}
    lines = [f"{'C' * (1 + i % 7)},{int(i in rare)}" for i in range(2000)]
    lines[1234] = f"{'C' * 50},"
    (tmp_path / "t.csv").write_text("\n".join(["smiles,y", *lines]) + "\n")
    catalog = Catalog([])
    task, dataset = catalog.task("freesolv"), catalog.dataset("freesolv")
    task = task.model_copy(update={"targets": [TargetSpec(name="y", level="molecule", kind="binary")]})
    rows = choose(read_table(tmp_path / "t.csv"), task, dataset)
    assert rare - {1234} <= set(rows)
    assert 1234 in rows
    assert ROWS <= len(rows) <= ROWS + 13


def test_the_number_of_threads_is_left_as_it_was():
    torch.set_num_threads(2)
    try:
        with case_of("freesolv") as case:
            case.build()
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
