"""Proteins from a user's own files: FASTA, labels in another file, and every way in which they can be wrong."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import zoo
from zoo.cli import main
from zoo.errors import DataError, InputError, ZooError
from zoo.workflows.build import load_data
from zoo.workflows.owndata import own_task

sys.path.insert(0, str(Path(__file__).parent))
from published import Payload, official, written

TINY = {
    "train.epochs": 1,
    "split.method": "random",
    "model.hparams.layers": 1,
    "model.hparams.width": 16,
    "model.hparams.heads": 2,
    "baseline": False,
}


def _chains():
    """Return thirty chains and a letter per residue that depends on the residue."""
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACDEFGHIKL"), rng.integers(12, 30))) for _ in range(30)]
    return [(f"p{i}", text, "".join("H" if x < "F" else "E" if x < "I" else "C" for x in text))
            for i, text in enumerate(texts)]  # fmt: skip


CHAINS = _chains()


@pytest.fixture
def chains():
    return list(CHAINS)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


def write(folder, name, lines):
    path = folder / name
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def fasta(folder, name, chains, column):
    return write(folder, name, [f">{c[0]}\n{c[column]}" for c in chains])


def load(path, target="label", labels=None, **options):
    task, dataset, notes = own_task(path, [target], kind=None, input_column=None, labels=labels)
    return load_data(task, dataset, options, folder=path.parent, mirror=None), notes


def test_labels_per_residue_stand_in_a_second_fasta(tmp_path, chains):
    path = fasta(tmp_path, "s.fasta", chains, 1)
    labels = fasta(tmp_path, "l.fasta", chains[::-1], 2)
    data, notes = load(path, labels=labels)
    assert notes[0] == "input: column 'sequence' (sequence)"
    assert "multiclass at residue level" in notes[1]
    found = data.records.labels["label"]
    assert "".join("CEH"[i] for i in found.values) == "".join(c[2] for c in chains)
    assert found.ptr.tolist() == np.cumsum([0, *(len(c[1]) for c in chains)]).tolist()


def test_labels_of_whole_sequences_stand_in_a_table_or_a_header(tmp_path, chains):
    path = fasta(tmp_path, "s.fasta", chains, 1)
    table = write(tmp_path, "l.csv", ["id,y", *(f"{c[0]},{i}.5" for i, c in enumerate(chains))])
    data, notes = load(path, "y", labels=table)
    assert "regression at sequence level" in notes[1]
    assert data.records.labels["y"].values[:, 0].tolist() == [i + 0.5 for i in range(30)]
    headers = write(tmp_path, "h.fasta", [f">{c[0]} tm={i}.5\n{c[1]}" for i, c in enumerate(chains)])
    data, _ = load(headers, "tm")
    assert data.records.labels["tm"].values[:, 0].tolist() == [i + 0.5 for i in range(30)]


def test_train_resume_and_predict(tmp_path, chains):
    path = fasta(tmp_path, "s.fasta", chains, 1)
    labels = fasta(tmp_path, "l.fasta", chains, 2)
    run = zoo.train(data=path, labels=labels, target="label", settings=TINY, out=tmp_path / "run")
    assert run.metrics["model"]["accuracy"].value is not None
    assert zoo.train(out=tmp_path / "run", resume=True).folder == run.folder
    found = run.load().predict(path)
    assert found["id"].tolist() == [c[0] for c in chains]
    assert [len(json.loads(cell)) for cell in found["label_pred"]] == [len(c[1]) for c in chains]
    labels.write_text(labels.read_text().replace("H", "C"))
    with pytest.raises(InputError, match=r'data file 2: "l.fasta \w+" before, "l.fasta \w+" now'):
        zoo.train(data=path, labels=labels, target="label", settings=TINY, out=tmp_path / "run", resume=True)


def test_windows_line_ends_blank_records_and_lower_case_are_counted(tmp_path, chains):
    path = tmp_path / "s.fasta"
    records = [f">{name} y={i}\r\n{text[:5].lower()}\r\n{text[5:]}\r\n" for i, (name, text, _) in enumerate(chains)]
    path.write_bytes("".join([*records, "\r\n>empty y=3\r\n\r\n"]).encode())
    report = load(path, "y")[0].records.report
    assert report.notes == {"lower case made upper case": 30}
    assert [(p.row, p.reason) for p in report.dropped] == [(30, "the sequence is empty")]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("MK1TA", "'1' at residue 3 is no one-letter code of an amino acid"),
        ("MK>TA", "'>' at residue 3 is no one-letter code"),
        ("M" * 40_000, "the sequence has 40,000 residues, and 1,022 are allowed.*long=crop"),
    ],
)
def test_a_bad_sequence_is_dropped_with_its_row_and_reason(tmp_path, chains, bad, reason):
    lines = [f">{name} y={i}\n{text}" for i, (name, text, _) in enumerate(chains)]
    path = write(tmp_path, "s.fasta", [*lines[:4], f">bad y=1\n{bad}", *lines[4:]])
    (problem,) = load(path, "y")[0].records.report.dropped
    assert problem.row == 4
    assert re.search(reason, problem.reason)
    with pytest.raises(ZooError, match=rf"(?s)s.fasta.*row 4 \(line 9, 'bad'\).*{reason}"):
        zoo.train(data=path, target="y", settings={**TINY, "on_invalid": "error"}, out=tmp_path / "run")


def test_a_sequence_of_40000_residues_is_seen_in_windows_on_request(tmp_path, chains):
    lines = [f">{name} y={i}\n{text}" for i, (name, text, _) in enumerate(chains)]
    path = write(tmp_path, "s.fasta", [*lines, f">titin y=1\n{'MKTAY' * 8000}"])
    data, _ = load(path, "y", long="window")
    assert data.records.items.size()[-1] == 40_000
    assert data.records.report.notes == {"cut into windows": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text[:-1],
            r"l.fasta: column 'label': 1 rows.*row 3 \(line 7, 'p3'\): the string has (\d+) values",
        ),
        (lambda text: "G" + text[1:], r"row 3 \(line 7, 'p3'\): residue 0: 'G' is none of the classes 'C', 'E', 'H'"),
    ],
)
def test_bad_labels_name_file_record_and_residue(tmp_path, chains, change, message):
    path = fasta(tmp_path, "s.fasta", chains, 1)
    good = fasta(tmp_path, "l.fasta", chains, 2)
    task, dataset, _ = own_task(path, ["label"], kind=None, input_column=None, labels=good)
    spoilt = [(*c[:2], change(c[2]) if c[0] == "p3" else c[2]) for c in chains]
    fasta(tmp_path, "l.fasta", spoilt, 2)
    file = dataset.files[1]
    file = file.model_copy(update={"sha256": zoo.resources.sha256_of(tmp_path / "l.fasta")})
    dataset = dataset.model_copy(update={"files": [dataset.files[0], file]})
    with pytest.raises(DataError, match=f"(?s){message}"):
        load_data(task, dataset, {}, folder=tmp_path, mirror=None)


def test_labels_one_residue_short_are_told_though_the_kind_is_inferred(tmp_path, chains):
    path = fasta(tmp_path, "s.fasta", chains, 1)
    spoilt = [(*c[:2], c[2][1:] if c[0] == "p3" else c[2]) for c in chains]
    with pytest.raises(DataError, match=r"(?s)l.fasta.*row 3 \(line 7, 'p3'\): the string has"):
        load(path, labels=fasta(tmp_path, "l.fasta", spoilt, 2))


def test_labels_that_count_the_stop_of_every_sequence_are_told(tmp_path, chains):
    write(tmp_path, "seqs.fasta", [f">{n}\n{text}*" for n, text, _ in chains])
    write(tmp_path, "long.fasta", [f">{n}\n{states}C" for n, _, states in chains])
    own = {"kind": None, "input_column": None}
    with pytest.raises(DataError, match=r"each letter is the class of a node, they do not fit: row 0 has \d+ for \d+"):
        own_task(tmp_path / "seqs.fasta", ["label"], labels=tmp_path / "long.fasta", **own)
    fasta(tmp_path, "states.fasta", chains, 2)
    task, _, _ = own_task(tmp_path / "seqs.fasta", ["label"], labels=tmp_path / "states.fasta", **own)
    assert (task.targets[0].level, task.targets[0].classes) == ("residue", ["C", "E", "H"])


def test_no_pair_in_contact_anywhere(tmp_path, chains):
    write(tmp_path, "own.csv", ["sequence,contacts", *[f"{text},[]" for _, text, _ in chains]])
    with pytest.raises(DataError, match=r"all lists of column 'contacts' are empty"):
        own_task(tmp_path / "own.csv", ["contacts"], kind=None, input_column=None)


def test_the_same_id_twice(tmp_path, chains):
    path = fasta(tmp_path, "s.fasta", [*chains, chains[2]], 1)
    with pytest.raises(
        DataError, match=r"(?s)s.fasta: 1 records have the id of an earlier one.*'p2' on lines 5 and 61"
    ):
        load(path, "y")


def test_ids_of_another_file_and_of_another_folder(tmp_path, chains):
    path = fasta(tmp_path, "s.fasta", chains, 1)
    strange = fasta(tmp_path, "l.fasta", [*chains, ("q1", "MK", "HH")], 2)
    with pytest.raises(DataError, match=r"(?s)l.fasta: 1 ids do not stand in .*s.fasta.*line 61, 'q1'"):
        load(path, labels=strange)
    (tmp_path / "sub").mkdir()
    with pytest.raises(InputError, match=r"--labels .*l.fasta: put the file into the folder of"):
        load(path, labels=fasta(tmp_path / "sub", "l.fasta", chains, 2))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model of residues, one of whole proteins and one of molecules, each hardly trained."""
    folder = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(folder / "cache"))
        path = fasta(folder, "s.fasta", CHAINS, 1)
        labels = fasta(folder, "l.fasta", CHAINS, 2)
        residue = zoo.train(data=path, labels=labels, target="label", settings=TINY, out=folder / "residue")
        table = write(folder, "y.csv", ["sequence,y", *(f"{c[1]},{i}" for i, c in enumerate(CHAINS))])
        sequence = zoo.train(data=table, target="y", settings=TINY, out=folder / "sequence")
        table = write(folder, "m.csv", ["smiles,y", *(f"{'C' * (i + 1)}O,{i}" for i in range(20))])
        settings = {"train.epochs": 1, "baseline": False, "split.method": "random", "model.hparams.width": 16}
        molecule = zoo.train(data=table, target="y", settings=settings, out=folder / "molecule")
    return {"residue": residue.bundle, "sequence": sequence.bundle, "molecule": molecule.bundle}


@pytest.fixture
def run(capsys):
    """Run a command; return its exit code and everything that it said."""

    def go(*words):
        code = main([*map(str, words)])
        said = capsys.readouterr()
        return code, said.out + said.err

    return go


def test_evaluate_reads_the_labels_of_residues_from_a_second_fasta(tmp_path, models, run):
    path, labels = fasta(tmp_path, "s.fasta", CHAINS, 1), fasta(tmp_path, "l.fasta", CHAINS[::-1], 2)
    predicted = zoo.load(models["residue"]).predict(path)["label_pred"]
    pairs = [
        pair for c, cell in zip(CHAINS, predicted, strict=True) for pair in zip(c[2], json.loads(cell), strict=True)
    ]
    share = sum(a == b for a, b in pairs) / len(pairs)
    found = zoo.evaluate(models["residue"], data=path, labels=labels)["accuracy"]
    assert (found.value, found.rows) == (pytest.approx(share), len(pairs))
    code, said = run("evaluate", models["residue"], "--data", path, "--labels", labels, "--json", "--quiet")
    assert code == 0
    assert json.loads(said)["accuracy"]["value"] == pytest.approx(share)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (
            lambda t: t[:-1],
            r"l\.fasta: column 'label': 30 rows.*'p0'\): the string has \d+ values, the input has \d+ res",
        ),
        (
            lambda t: "G" + t[1:],
            r"l\.fasta.*row 0 \(line 1, 'p0'\): residue 0: 'G' is none of the classes 'C', 'E', 'H'",
        ),
        (lambda t: "-" * len(t), r"l\.fasta: no row with a usable input has a label of 'label'"),
        (None, r"s\.fasta: no column 'label'.*labels in another file go with --labels FILE"),
    ],
    ids=["one short", "another alphabet", "all missing", "no labels"],
)
def test_evaluate_says_what_is_wrong_with_labels(tmp_path, models, run, labels, says):
    words = ["evaluate", models["residue"], "--data", fasta(tmp_path, "s.fasta", CHAINS, 1)]
    if labels is not None:
        words += ["--labels", fasta(tmp_path, "l.fasta", [(*c[:2], labels(c[2])) for c in CHAINS], 2)]
    code, said = run(*words)
    assert code == 2
    assert re.search(says, said, re.DOTALL), said


def test_labels_need_data(models, run):
    code, said = run("evaluate", models["residue"], "--labels", "l.fasta")
    assert (code, said) == (2, "zoo: --labels goes with --data FILE; a task has labels of its own.\n")


BAD = {
    "windows line ends": (">a\r\nMKTAY\r\nLL\r\n", [True], ""),
    "blank records": (">a\nMKT\n>b\n\n>c\n", [True, False, False], ""),
    "lower case": (">a\nmktay\n>b\nMK\n", [True, True], r"lower case made upper case: 1"),
    "digits": (">a\nMK1T\n>b\nMK\n", [False, True], ""),
    "odd residues": (">a\nMJ*-.\n>b\nBUZOX\n>c\n**K*\n", [True, True, True], r"J, \*, - or \. made X \(residues\): 6"),
    "40,000 residues": (f">a\nMK\n>titin\n{'MKTAY' * 8000}\n", [True, False], ""),
}


@pytest.mark.parametrize("name", BAD)
def test_predict_embed_and_evaluate_treat_a_bad_record_as_documented(tmp_path, models, run, name):
    text, usable, note = BAD[name]
    path, out = tmp_path / "b.fasta", tmp_path / "o.csv"
    path.write_bytes(text.encode())
    code, said = run("predict", models["residue"], path, "-o", out)
    assert code == 0
    assert re.search(note, said)
    frame = pd.read_csv(out, keep_default_na=False)
    assert [cell == "" for cell in frame["error"]] == usable
    assert [cell != "" for cell in frame["label_pred"]] == usable
    code, said = run("embed", models["residue"], path, "-o", tmp_path / "e.npz")
    assert code == 0
    assert re.search(note, said)
    for row, fine in enumerate(usable):
        assert fine or re.search(rf"row {row} \(line \d+, '{frame['id'][row]}'\) left out: ", said)
    labels = pd.DataFrame({"id": frame["id"], "y": range(len(frame))})
    labels.to_csv(tmp_path / "y.csv", index=False)
    code, said = run("evaluate", models["sequence"], "--data", path, "--labels", tmp_path / "y.csv")
    assert code == 0
    assert re.search(note, said)
    dropped = usable.count(False)
    assert (
        f"{len(usable)} rows, {len(usable) - dropped} items{f', {dropped} rows dropped' if dropped else ''}\n" in said
    )
    for row, fine in enumerate(usable):
        assert fine or re.search(rf"dropped, .*\b{row} '{frame['id'][row]}'", said)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "b.fasta: the file holds no record"),
        (">a\nMK\n>b\nMT\n>a\nMK\n", "b.fasta: 1 records have the id of an earlier one.*'a' on lines 1 and 5"),
    ],
)
@pytest.mark.parametrize("verb", ["predict", "embed", "evaluate", "train"])
def test_a_file_that_cannot_be_used_is_one_error_of_every_verb(tmp_path, models, run, verb, text, says):
    path = tmp_path / "b.fasta"
    path.write_text(text)
    words = {
        "predict": [models["residue"], path, "-o", tmp_path / "o.csv"],
        "embed": [models["residue"], path, "-o", tmp_path / "e.npz"],
        "evaluate": [models["residue"], "--data", path],
        "train": ["--data", path, "--target", "y", "--out", tmp_path / "run"],
    }
    code, said = run(verb, *words[verb])
    assert code == 2
    assert re.fullmatch(rf"zoo: .*{says}.*\n", said, re.DOTALL), said


SMILES = ["CC(=O)Oc1ccccc1", "c1ccccc1[N+](=O)[O-]", "C=C", "CCO", "CCN"]


def test_predictions_that_cannot_be_made_or_written(tmp_path, models, run):
    path, out = write(tmp_path, "own.csv", ["sequence,name", "MKTAYIAK,p1", "MKTAYWWW,p2"]), tmp_path / "out.csv"
    code, said = run("predict", models["sequence"], path, "--input", "name", "-o", out)
    assert code == 2
    assert re.search(r"no row could be predicted. Row 0: '1' at residue 2.*--input COL", said)
    assert len(pd.read_csv(out)) == 2
    inside = path / "out.csv"
    for verb, other, says in (
        ("predict", tmp_path / "out.xlsx", "ends in .csv"),
        ("predict", inside, "own.csv is no folder. Name another"),
        ("embed", inside.with_suffix(".npz"), "own.csv is no folder. Name another"),
    ):
        code, said = run(verb, models["sequence"], path, "-o", other)
        assert (code, says in said) == (2, True), said


def test_smiles_in_place_of_proteins_are_told(tmp_path, models, run):
    path = write(tmp_path, "t.csv", ["sequence,y", *(f"{s},{i}" for i, s in enumerate(SMILES))])
    told = r"the inputs look like molecules: of the first 5, 5 can be read as smiles and 2 as sequence \(proteins\)"
    code, said = run("train", "--data", path, "--target", "y", "--out", tmp_path / "run")
    assert code == 2
    assert re.search(rf"t\.csv: column 'sequence': {told}.*--input sequence", said)
    for words in (
        ["predict", models["residue"], path, "-o", tmp_path / "o.csv"],
        ["embed", models["residue"], path, "-o", tmp_path / "e.npz"],
        ["evaluate", models["sequence"], "--data", path],
    ):
        code, said = run(*words)
        assert code == 0
        assert re.search(rf"t\.csv: {told}\. The model is one of proteins", said)
    plain = write(tmp_path, "u.csv", ["sequence,y", *(f"{'C' * (i + 2)}O,{i}" for i in range(20))])
    code, said = run("train", "--data", plain, "--target", "y", "--input", "sequence", "--print-config")
    assert code == 0
    _, _, notes = own_task(plain, ["y"], kind=None, input_column=None)
    assert "note: the inputs look like molecules: of the first 20, 20 can be read as smiles and 20 as" in notes[1]


def test_proteins_in_place_of_molecules_are_told(tmp_path, models, run):
    path = fasta(tmp_path, "s.fasta", CHAINS, 1)
    code, said = run("predict", models["molecule"], path, "-o", tmp_path / "o.csv")
    assert code == 2
    assert "no column 'smiles' in the input" in said
    assert "The model reads molecules" in said
    code, said = run("predict", models["molecule"], path, "-o", tmp_path / "o.csv", "--input", "sequence")
    assert code == 2
    assert "the inputs look like proteins: of the first 30, 30 can be read as sequence and 0 as smiles" in said
    good = write(tmp_path, "m.csv", ["smiles", "CCO", "CCN", "c1ccccc1"])
    code, said = run("predict", models["molecule"], good, "-o", tmp_path / "o2.csv")
    assert (code, "look like" in said) == (0, False)


def test_rows_without_labels_one_row_and_doubled_rows(tmp_path, models, run):
    rows = [f"{c[1]},{i}" for i, c in enumerate(CHAINS)]
    for lines, says in (
        (["sequence,y", *(f"{c[1]}," for c in CHAINS)], "every label of column 'y' is missing"),
        (["sequence,y", rows[0]], "all 1 labels of column 'y' are '0'"),
    ):
        code, said = run("train", "--data", write(tmp_path, "t.csv", lines), "--target", "y", "--out", tmp_path / "r")
        assert code == 2
        assert re.fullmatch(rf"zoo: .*t\.csv: {says}.*\n", said), said
    path = write(tmp_path, "d.csv", ["sequence,y", *rows, f"{CHAINS[0][1]},7", f"{CHAINS[1][1].lower()},1"])
    code, said = run("evaluate", models["sequence"], "--data", path)
    assert code == 0
    assert "32 rows, 30 items, 2 duplicate rows merged" in said
    assert "unequal labels of duplicates, target 'y': 1 items (mean taken); largest difference 7 (rows 0, 30)" in said


def test_a_language_model_is_scored_on_sequences_alone(tmp_path, run):
    path = fasta(tmp_path, "s.fasta", CHAINS, 1)
    code, said = run("evaluate", written(tmp_path), "--data", path, "--json", "--quiet")
    assert code == 0
    assert json.loads(said)["perplexity"]["rows"] > 50


@pytest.mark.parametrize(("kind", "says"), [("cut", "is cut short, damaged"), ("payload", "none of its code was run")])
@pytest.mark.parametrize("verb", ["predict", "embed", "evaluate", "verify", "finetune"])
def test_a_bad_checkpoint_is_one_error_of_every_verb(tmp_path, run, verb, kind, says):
    path = fasta(tmp_path, "s.fasta", CHAINS, 1)
    content, _ = official()
    if kind == "payload":
        content["cfg"] = {**content["cfg"], "x": Payload(tmp_path / "ran")}
    weights = written(tmp_path, content=content)
    if kind == "cut":
        weights.write_bytes(weights.read_bytes()[:5000])
    more = {
        "predict": [path, "-o", tmp_path / "o.csv"],
        "embed": [path, "-o", tmp_path / "e.npz"],
        "evaluate": ["--data", path],
        "verify": [],
        "finetune": ["--data", path, "--target", "y", "--out", tmp_path / "run"],
    }
    if verb == "finetune":
        path.write_text("".join(f">{c[0]} y={i}\n{c[1]}\n" for i, c in enumerate(CHAINS)))
    code, said = run(verb, weights, *more[verb])
    assert code == 2
    assert re.fullmatch(rf"zoo: .*{says}.*\n", said), said
    assert not (tmp_path / "ran").exists()
