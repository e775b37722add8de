"""Proteins from a user's own files: FASTA, labels in another file, and every way in which they can be wrong."""

import json
import re

import numpy as np
import pytest

import zoo
from zoo.errors import DataError, InputError, ZooError
from zoo.workflows.build import load_data
from zoo.workflows.owndata import own_task

TINY = {
    "train.epochs": 1,
    "split.method": "random",
    "model.hparams.layers": 1,
    "model.hparams.width": 16,
    "model.hparams.heads": 2,
    "baseline": False,
}


@pytest.fixture
def chains():
    """Thirty chains and a letter per residue that depends on the residue."""
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACDEFGHIKL"), rng.integers(12, 30))) for _ in range(30)]
    return [(f"p{i}", text, "".join("H" if x < "F" else "E" if x < "I" else "C" for x in text))
            for i, text in enumerate(texts)]  # fmt: skip


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


def test_smiles_in_the_sequence_column_are_refused(tmp_path):
    path = write(tmp_path, "t.csv", ["sequence,y", "CC(=O)Oc1ccccc1,1.5", "c1ccccc1[N+](=O)[O-],2", "C=C,3"])
    with pytest.raises(DataError, match=r"(?s)no row has a usable input.*'\(' at residue 3 is no one-letter code"):
        load(path, "y")
