"""``zoo train`` end to end: artefacts, determinism, own files, bad input."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

import zoo
from zoo.cli import main
from zoo.errors import DataError, InputError, SpecError, StoppedError
from zoo.workflows.model import prediction_columns

SMILES = ["CCO", "CCN", "CCC", "c1ccccc1", "CC(=O)O", "CCCl", "OCCO", "c1ccncc1", "CCOCC", "CC#N", "C1CCCCC1", "CCS"]


def own_file(path, rows, header="smiles,y", newline="\n"):
    path.write_text(newline.join([header, *rows]) + newline)
    return path


def numbered(n=40):
    """SMILES of n different alcohols and amines with a made-up value each."""
    chains = ["C" * (1 + i // 2) + ("O" if i % 2 else "N") for i in range(n)]
    return [f"{s},{0.5 * i - 3}" for i, s in enumerate(chains)]


def test_a_run_leaves_what_the_design_names(freesolv):
    names = {p.name for p in freesolv.folder.iterdir()}
    assert {"run.json", "metrics.csv", "timing.csv", "result.json", "predictions.csv", "split.csv", "bundle"} <= names
    assert {p.name for p in freesolv.bundle.iterdir()} == {
        "config.json",
        "model.safetensors",
        "example.json",
        "README.md",
    }
    result = json.loads((freesolv.folder / "result.json").read_text())
    assert result["task"] == "freesolv"
    assert result["metrics"]["model"]["rmse"]["rows"] == result["split"]["sizes"]["test"]
    run = json.loads((freesolv.folder / "run.json").read_text())
    assert run["origin"]["train.epochs"] == "flag"


def test_metrics_in_the_result_are_those_of_the_predictions_file(freesolv):
    frame = pd.read_csv(freesolv.folder / "predictions.csv")
    error = frame["hydration_free_energy_pred"] - frame["hydration_free_energy"]
    assert freesolv.metrics["model"]["rmse"].value == pytest.approx(float(np.sqrt(np.mean(error**2))), rel=1e-12)
    data = pd.read_csv("datasets/freesolv/freesolv.csv")
    assert (data["expt"].to_numpy()[frame["row"]] == frame["hydration_free_energy"]).all()
    assert (data["smiles"].to_numpy()[frame["row"]] == frame["smiles"]).all()


def test_the_same_seed_gives_the_same_bits(trained, tmp_path):
    run, again = trained.run, trained.again(tmp_path / "again")
    for name in ("bundle/model.safetensors", "predictions.csv", "metrics.csv"):
        assert (again.folder / name).read_bytes() == (run.folder / name).read_bytes(), name
    other = trained.again(tmp_path / "other", seed=1)
    assert (other.bundle / "model.safetensors").read_bytes() != (run.bundle / "model.safetensors").read_bytes()


def test_evaluate_gives_the_scores_of_the_run(trained):
    found, want = zoo.evaluate(trained.run.folder, includes=trained.includes), trained.run.metrics["model"]
    assert found.keys() == want.keys()
    for name, score in found.items():
        assert score.value == pytest.approx(want[name].value, rel=1e-6)
        assert (score.rows, score.targets_scored) == (want[name].rows, want[name].targets_scored)


def test_evaluate_on_a_labelled_file(freesolv, tmp_path):
    frame = pd.read_csv(freesolv.folder / "predictions.csv")
    frame = frame.rename(columns={"hydration_free_energy": "expt"})[["smiles", "expt"]]
    frame.to_csv(tmp_path / "own.csv", index=False)
    assert zoo.evaluate(freesolv.bundle, data=tmp_path / "own.csv")["rmse"].value == pytest.approx(
        freesolv.metrics["model"]["rmse"].value, rel=1e-6
    )


@pytest.mark.parametrize("model", ["gine", "attentivefp"])
def test_every_architecture_trains(model, quick, tmp_path):
    run = zoo.train("freesolv", settings={**quick, "model.architecture": model, "train.epochs": 1}, out=tmp_path / "r")
    assert run.metrics["model"]["rmse"].value < 20


def test_descriptors_are_scaled_saved_and_used_again(quick, tmp_path):
    settings = {**quick, "model.featuriser.descriptors": "rdkit2d"}
    run = zoo.train("freesolv", settings=settings, out=tmp_path / "r")
    config = json.loads((run.bundle / "config.json").read_text())
    assert len(config["features"]["names"]) == len(config["features"]["mean"]) > 100
    frame = pd.read_csv(run.folder / "predictions.csv")
    again = run.load().predict(frame["smiles"].tolist())["hydration_free_energy_pred"].astype(float)
    np.testing.assert_allclose(again, frame["hydration_free_energy_pred"], rtol=1e-6, atol=1e-6)


def test_atom_targets_end_to_end(quick, tmp_path):
    run = zoo.train("freesolv-crippen", settings={**quick, "train.epochs": 30}, out=tmp_path / "r")
    assert run.metrics["model"]["r2"].value > 0.5  # contributions depend on the neighbourhood alone
    frame = run.load().predict(["CCO", "[Na+].CC(=O)[O-]", "nonsense"])
    column = next(c for c in frame.columns if c.endswith("_pred"))
    first, second = (json.loads(v) for v in frame[column][:2])
    assert [v is None for v in first] == [False, False, False]
    assert [v is None for v in second] == [True, False, False, False, False]  # the sodium was removed
    assert pd.isna(frame[column][2])
    assert frame["error"][2]


def test_own_file_with_inferred_kinds(quick, tmp_path, capsys):
    rows = [f"{line},{'yes' if i % 2 else 'no'}" for i, line in enumerate(numbered())]
    path = own_file(tmp_path / "my.csv", rows, "SMILES,solubility,active")
    sets = [f"--set={k}={json.dumps(v)}" for k, v in quick.items() if k not in ("baseline", "threads")]
    out = ["--out", str(tmp_path / "r"), "--threads", "1", "--no-baseline", *sets]
    code = main(
        ["train", "--data", str(path), "--target", "solubility", "--target", "active", "--split", "random", *out]
    )
    said = capsys.readouterr()
    assert code == 0, said.err
    assert "target 'solubility': regression at molecule level" in said.err
    assert "target 'active': binary at molecule level" in said.err
    assert said.out.splitlines()[-1].startswith("next: zoo predict ")
    frame = zoo.load(tmp_path / "r").predict(path)
    assert list(frame.columns) == [
        "SMILES",
        "solubility",
        "active",
        "solubility_pred",
        "active_pred",
        "active_prob",
        "error",
    ]
    assert set(frame["active_pred"]) <= {"yes", "no"}


def test_predict_writes_rows_in_order_whatever_is_in_them(freesolv, tmp_path, capsys):
    path = tmp_path / "in.csv"
    path.write_bytes("\ufeffname;smiles\r\nethanol;CCO\r\nbad;C1CC\r\nempty;\r\nion;[Cl-]\r\n".encode())
    assert (
        main(["predict", str(freesolv.bundle), str(path), "-o", str(tmp_path / "out.csv"), "--on-invalid", "null"]) == 0
    )
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [r["name"] for r in rows] == ["ethanol", "bad", "empty", "ion"]
    assert [bool(r["hydration_free_energy_pred"]) for r in rows] == [True, False, False, True]
    assert [bool(r["error"]) for r in rows] == [False, True, True, False]
    assert "2 of them without a prediction" in capsys.readouterr().out
    assert (
        main(["predict", str(freesolv.bundle), str(path), "-o", str(tmp_path / "x.csv"), "--on-invalid", "error"]) == 2
    )
    said = capsys.readouterr().err
    assert "row 1 (line 3)" in said
    assert "row 2 (line 4)" in said
    assert not (tmp_path / "x.csv").exists()
    assert (
        main(["predict", str(freesolv.bundle), str(path), "-o", str(tmp_path / "y.csv"), "--on-invalid", "skip"]) == 0
    )
    assert [r["name"] for r in csv.DictReader((tmp_path / "y.csv").open())] == ["ethanol", "ion"]


def test_a_prediction_does_not_depend_on_its_company(trained):
    model, inputs = trained.run.load(), trained.inputs
    together = numbers(model, inputs)
    longest = max(inputs, key=len)
    for i in (0, 17, len(inputs) - 1):
        for company in ([inputs[i]], [inputs[i], longest]):
            np.testing.assert_allclose(numbers(model, company)[0], together[i], rtol=1e-5, atol=1e-5)
    for one, other in zip(numbers(model, inputs, batch_size=37), together, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def numbers(model, inputs, **options):
    """Return per input every predicted number, in standardised units."""
    frame = model.predict(inputs, **options)
    rows = [[] for _ in inputs]
    for target in model.spec.targets:
        scale = getattr(model.spec.scalers[target.name], "scale", 1.0)
        for name in prediction_columns(target):
            if name.endswith("_pred") and target.kind != "regression":
                continue
            for row, cell in zip(rows, frame[name], strict=True):
                row.extend(np.asarray(json.loads(cell) if isinstance(cell, str) else [cell], float) / scale)
    return rows


BAD = {
    "empty file": ("", DataError, "empty"),
    "no header": ("CCO,1.0\nCCN,2.0\n", DataError, "line 1.*column names"),
    "missing column": ("smiles,x\nCCO,1\nCCN,2\n", DataError, "no column 'y'"),
    "all labels missing": ("smiles,y\nCCO,\nCCN,nan\nCCC,\n", DataError, "missing"),
    "constant target": ("smiles,y\n" + "".join(f"{s},1.5\n" for s in SMILES), DataError, "all 1?[0-9] labels"),
    "one row": ("smiles,y\nCCO,1.0\n", DataError, "all 1 labels"),
    "censored label": ("smiles,y\n" + "\n".join([*numbered(10), "CCBr,>5.0"]) + "\n", DataError, r"line 12.*>5\.0"),
    "mixed text and numbers": ("smiles,y\n" + "\n".join([*numbered(30), "CCBr,high"]) + "\n", DataError, "high"),
    "no valid SMILES": ("smiles,y\n" + "\n".join(f"xyz{i},{i}" for i in range(10)) + "\n", DataError, "line 2"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_end_in_one_clear_message(name, tmp_path, quick):
    text, kind, words = BAD[name]
    path = tmp_path / "my.csv"
    path.write_text(text)
    with pytest.raises(kind, match=words) as caught:
        zoo.train(data=path, target="y", settings={**quick, "split.method": "random"}, out=tmp_path / "r")
    assert "my.csv" in str(caught.value) or "'y'" in str(caught.value)
    assert not (tmp_path / "r" / "bundle").exists()


@pytest.mark.parametrize(("newline", "start", "sep"), [("\r\n", "", ","), ("\n", "\ufeff", ","), ("\n", "", "\t")])
def test_line_ends_marks_and_tabs_change_nothing(newline, start, sep, tmp_path, quick):
    rows = [line.replace(",", sep) for line in numbered()]
    text = start + newline.join([f"smiles{sep}y", *rows]) + newline
    plain = own_file(tmp_path / "plain.csv", numbered())
    odd = tmp_path / ("odd.tsv" if sep == "\t" else "odd.csv")
    odd.write_bytes(text.encode())
    settings = {**quick, "split.method": "random"}
    a = zoo.train(data=plain, target="y", settings=settings, out=tmp_path / "a")
    b = zoo.train(data=odd, target="y", settings=settings, out=tmp_path / "b")
    assert (a.bundle / "model.safetensors").read_bytes() == (b.bundle / "model.safetensors").read_bytes()


def test_unparsable_rows_are_left_out_and_reported(tmp_path, quick):
    rows = numbered(60)
    rows[3], rows[7] = "C1CC,0.0", "not-a-molecule,0.0"
    path = own_file(tmp_path / "my.csv", rows)
    settings = {**quick, "split.method": "random"}
    run = zoo.train(data=path, target="y", settings=settings, out=tmp_path / "r")
    dropped = list(csv.DictReader((run.folder / "rows.csv").open()))
    assert [(d["row"], d["event"]) for d in dropped] == [("3", "dropped"), ("7", "dropped")]
    with pytest.raises(DataError, match=r"row 3 \(line 5\)(.|\n)*row 7 \(line 9\)"):
        zoo.train(data=path, target="y", settings={**settings, "on_invalid": "error"}, out=tmp_path / "s")


def test_conflicting_duplicates_follow_the_policy(tmp_path, quick):
    path = own_file(tmp_path / "my.csv", [*numbered(30), "OC,100.0", "CO,200.0"])
    settings = {**quick, "split.method": "random"}
    run = zoo.train(data=path, target="y", settings=settings, out=tmp_path / "r")
    merged = [r for r in csv.DictReader((run.folder / "rows.csv").open()) if r["event"] == "merged"]
    assert {r["row"] for r in merged} == {"1", "30", "31"}
    with pytest.raises(DataError, match="duplicate"):
        zoo.train(data=path, target="y", settings={**settings, "duplicates": "error"}, out=tmp_path / "s")


def test_a_molecule_of_500_atoms_and_an_ion_are_trained_on(tmp_path, quick):
    path = own_file(tmp_path / "my.csv", [*numbered(30), "C" * 500 + ",1.0", "[Na+],2.0"])
    run = zoo.train(data=path, target="y", settings={**quick, "split.method": "random"}, out=tmp_path / "r")
    frame = run.load().predict(["C" * 500, "[Na+]"])
    assert frame["y_pred"].notna().all()


def test_wrong_settings_are_named(tmp_path):
    with pytest.raises(InputError, match="Did you mean 'freesolv'"):
        zoo.train("freesolvv")
    with pytest.raises(SpecError, match=r"train\.epoch"):
        zoo.train("freesolv", settings={"train.epoch": 3})
    with pytest.raises(InputError, match=r"hyper-parameter of dmpnn 'widht'.*'width'"):
        zoo.train("freesolv", settings={"model.hparams.widht": 3}, out=tmp_path / "r")
    with pytest.raises(InputError, match="type of its default"):
        zoo.train("freesolv", settings={"model.hparams.width": "big"}, out=tmp_path / "r")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    with pytest.raises(InputError, match="not empty"):
        zoo.train("freesolv", out=tmp_path / "full")


def test_an_interrupt_leaves_no_bundle(tmp_path, quick, monkeypatch):
    import signal  # noqa: PLC0415

    from zoo.core.module import ZooModule  # noqa: PLC0415

    real = ZooModule.training_step

    def ctrl_c(self, window, batch_idx):
        real(self, window, batch_idx)
        if self.global_step == 5:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ZooModule, "training_step", ctrl_c)
    with pytest.raises(StoppedError):
        zoo.train("freesolv", settings=quick, out=tmp_path / "r")
    assert (tmp_path / "r" / "last.ckpt").exists()
    assert not (tmp_path / "r" / "bundle").exists()
    assert main(["train", "freesolv", "--quiet", "--no-baseline", "--out", str(tmp_path / "s")]) == 130


def test_of_two_runs_with_one_folder_the_second_is_refused(tmp_path, quick, monkeypatch):
    from zoo.workflows import train as verb  # noqa: PLC0415

    real = verb._describe

    def other_run_starts(prepared, folder, say):
        folder.mkdir()
        (folder / "run.json").write_text("{}")
        real(prepared, folder, say)

    monkeypatch.setattr(verb, "_describe", other_run_starts)
    with pytest.raises(InputError, match="belongs to another run"):
        zoo.train("freesolv", settings=quick, out=tmp_path / "r")
    assert (tmp_path / "r" / "run.json").read_text() == "{}"
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == [".lock", "run.json"]


def test_an_impossible_folder_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="no folder that can be written to"):
        zoo.train("freesolv", out=tmp_path / "file" / "x")


def test_a_gpu_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match="no GPU here"):
        zoo.train("freesolv", settings={"device": "gpu"}, out=tmp_path / "r")


def test_wrong_kinds_and_doubled_targets_are_named(tmp_path):
    rows = [f"{line},{'abc'[i % 3]}" for i, line in enumerate(numbered())]
    path = own_file(tmp_path / "my.csv", rows, "smiles,y,c")
    with pytest.raises(DataError, match=r"3 classes \(a, b, c\); --kind binary needs two"):
        zoo.train(data=path, target="c", kind="binary", out=tmp_path / "r")
    with pytest.raises(InputError, match="--target y is given twice"):
        zoo.train(data=path, target=["y", "y"], out=tmp_path / "r")


def test_censored_labels_can_be_left_out(tmp_path, quick):
    path = own_file(tmp_path / "my.csv", [*numbered(40), "CCBr,>5.0", "CCI,<1"])
    settings = {**quick, "split.method": "random", "censoring": "mask"}
    run = zoo.train(data=path, target="y", settings=settings, out=tmp_path / "r")
    masked = [r for r in csv.DictReader((run.folder / "rows.csv").open()) if r["event"] == "masked"]
    assert [r["row"] for r in masked] == ["40", "41"]


def test_an_official_split_may_hold_the_same_molecule_twice_with_a_reason(tmp_path, quick):
    path = own_file(tmp_path / "my.csv", [*numbered(30), "CCCCO,7.0"])
    parts = ["train"] * 22 + ["val"] * 4 + ["test"] * 5
    split = tmp_path / "split.csv"
    split.write_text("row,part\n" + "".join(f"{i},{part}\n" for i, part in enumerate(parts)))
    settings = {**quick, "split.method": "file", "split.file": str(split)}
    with pytest.raises(DataError, match="overlap"):
        zoo.train(data=path, target="y", settings=settings, out=tmp_path / "r")
    allowed = {**settings, "split.overlap": "allow", "split.reason": "the official one"}
    run = zoo.train(data=path, target="y", settings=allowed, out=tmp_path / "s")
    written = dict(line.split(",") for line in (run.folder / "split.csv").read_text().splitlines()[1:])
    assert [written[str(i)] for i in range(31)] == parts


def test_a_split_method_that_contradicts_its_file_is_refused(tmp_path, capsys):
    path = own_file(tmp_path / "my.csv", numbered())
    words = ["train", "--data", str(path), "--target", "y", "--split", "random", "--split-file", "s.csv"]
    assert main(words) == 2
    assert "contradict" in capsys.readouterr().err


def test_evaluate_says_when_the_own_file_has_changed(tmp_path, quick):
    path = own_file(tmp_path / "my.csv", numbered())
    run = zoo.train(data=path, target="y", settings={**quick, "split.method": "random"}, out=tmp_path / "r")
    with pytest.raises(InputError, match="--part goes with a task"):
        zoo.evaluate(run.folder, data=path, part="val")
    own_file(path, numbered(20))
    with pytest.raises(DataError, match=r"has changed since\. Score a file with --data"):
        zoo.evaluate(run.folder)


def test_predicting_in_a_chain_and_onto_itself(freesolv, tmp_path, capsys):
    path = tmp_path / "in.csv"
    path.write_text("smiles,error\nCCO,\nCCN,\n")
    frame = zoo.predict(freesolv.bundle, path)
    assert list(frame.columns) == ["smiles", "hydration_free_energy_pred", "error"]
    path.write_text("smiles,error\nCCO,5\n")
    with pytest.raises(InputError, match=r"in\.csv has a column 'error' already"):
        zoo.predict(freesolv.bundle, path)
    path.write_text("smiles\nCCO\n")
    assert main(["predict", str(freesolv.bundle), str(path), "-o", str(path)]) == 2
    assert "is the input itself" in capsys.readouterr().err
    assert path.read_text() == "smiles\nCCO\n"
    with pytest.raises(InputError, match=r"predict\(\['CCO'\]\)"):
        freesolv.load().predict("CCO")
    assert freesolv.load().predict(["CCO", None])["error"].tolist()[1]
