"""One matrix over every bundled data set."""

import importlib.util
import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from rdkit import Chem
from rdkit.Chem import Crippen

from zoo.core.table import read_table
from zoo.errors import DownloadError
from zoo.resources import bundled_root, locate, sha256_of
from zoo.specs.catalog import Catalog
from zoo.workflows.build import read_dataset

CATALOG = Catalog()
ROOT = bundled_root()
LARGEST = 3_000_000
SPDX = {"CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "BSD-3-Clause", "MIT", "Apache-2.0"}


def find(file, folder):
    """Return the file's path, or skip where it is neither bundled nor mirrored."""
    beside = ROOT.parent / "shared" / "mirror"
    mirror = None if os.environ.get("ZOO_MIRROR") or not beside.is_dir() else beside
    offline = pytest.MonkeyPatch()
    offline.setenv("ZOO_OFFLINE", "1")
    try:
        return locate(file, folder, mirror)
    except DownloadError:
        pytest.skip(f"{file.name} is not here")
    finally:
        offline.undo()


@pytest.fixture(params=CATALOG.names("dataset"))
def dataset(request):
    return CATALOG.dataset(request.param)


def test_the_bundled_ones_are_here():
    assert {"freesolv", "bbb", "solubility", "esol", "tox21", "clintox", "sider"} <= set(CATALOG.names("dataset"))
    assert {"amp", "gb1", "pdb-ss3", "secondary-structure", "uniprot-sample"} <= set(CATALOG.names("dataset"))


def test_files_are_as_declared(dataset):
    folder = CATALOG.dataset_folder(dataset.name)
    for file in dataset.files:
        path = find(file, folder)
        assert sha256_of(path) == file.sha256
        assert path.stat().st_size == file.bytes
        assert len(read_table(path, file.format, file.member)) == file.rows
        if file.url is None:
            assert path.parent == folder
            assert file.bytes <= LARGEST
            assert (folder / "build.py").is_file()
        else:
            assert not (folder / file.name).exists(), "a file declared by url is not committed"
    table, _ = read_dataset(dataset, folder, path.parent)
    assert {column.name for column in dataset.columns} <= set(table.columns)
    assert len(table) == dataset.n_rows
    if all(file.url is None for file in dataset.files):
        assert set(table.columns) == {column.name for column in dataset.columns}


def test_the_data_sheet_says_what_it_must(dataset):
    sheet = (CATALOG.dataset_folder(dataset.name) / "README.md").read_text(encoding="utf-8")
    for part in ("**What.**", "**How measured.**", "**Known issues.**", "**Licence.**", "**Cite.**", dataset.licence):
        assert part in sheet
    assert dataset.licence in SPDX or (dataset.licence.startswith("LicenseRef-") and "licence" in dataset.description)
    assert re.search(r"\b(19|20)\d\d\b", dataset.citation)
    assert dataset.known_issues
    assert not (CATALOG.dataset_folder(dataset.name) / "__init__.py").exists()


def test_targets_have_descriptions_or_units(dataset):
    for column in dataset.by_role("target"):
        assert column.unit or column.description
    tasks = [CATALOG.task(name) for name in CATALOG.names("task")]
    asked = {t.objective for task in tasks if task.dataset == dataset.name for t in task.targets}
    assert dataset.by_role("target") or asked == {"masked"}


def load_build(name):
    path = Path(ROOT / "datasets" / name / "build.py")
    spec = importlib.util.spec_from_file_location(f"build_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_crippen_labels_are_rdkits():
    build = load_build("freesolv")
    table = read_table(ROOT / "datasets" / "freesolv" / "freesolv.csv")
    given = missing = 0
    for row, (smiles, cell) in enumerate(zip(table.column("smiles"), table.column("crippen"), strict=True)):
        mol = Chem.MolFromSmiles(smiles)
        full = build.crippen_contributions(mol)
        assert sum(full) == pytest.approx(Crippen.MolLogP(mol), abs=1e-9)
        labels = json.loads(cell)
        assert len(labels) == mol.GetNumAtoms()
        kept = [(label, value) for label, value in zip(labels, full, strict=True) if label is not None]
        assert all(label == pytest.approx(value, abs=5.1e-5) for label, value in kept)
        assert len(kept) == (len(labels) + 1) // 2
        assert labels == build.half_masked(full, row)
        given, missing = given + len(kept), missing + len(labels) - len(kept)
    assert 0.4 < missing / (given + missing) < 0.5


def test_bbb_holds_what_its_sheet_says():
    table = read_table(ROOT / "datasets" / "bbb" / "bbb.csv")
    classes, ratios = table.column("bbb"), table.column("logbb")
    assert (classes.count("BBB+"), classes.count("BBB-")) == (4956, 2851)
    measured = [(c, float(r)) for c, r in zip(classes, ratios, strict=True) if r]
    assert len(measured) == 1058
    assert all((ratio >= -1) == (name == "BBB+") for name, ratio in measured)
    refused = [i for i, s in enumerate(table.column("smiles")) if Chem.MolFromSmiles(s) is None]
    assert refused == [5043, 7737]


def test_one_chain_of_the_small_set_is_what_the_entry_says():
    folder = ROOT / "datasets" / "pdb-ss3"
    sequences, labels = (read_table(folder / name) for name in ("pdb-ss3.fasta", "labels.fasta"))
    row = sequences.column("id").index("1ubi-A")
    states = labels.column("sequence")[row]
    assert sequences.column("sequence")[row].startswith("MQIFVKTLTGKTITLEVEPSDTIENVKAKIQDKEGIPPDQQRLIFAGKQLEDGR")
    assert set(states[22:34]) == {"H"}  # HELIX record of 1UBI: residues 23 to 34
    assert set(states[1:6] + states[11:16] + states[65:71]) == {"E"}  # inside the strands of its SHEET records
    assert Counter("".join(labels.column("sequence"))) == {"C": 7045, "H": 5430, "E": 3206, "-": 1302}


def test_no_peptide_begins_with_the_methionine_of_translation():
    table = read_table(ROOT / "datasets" / "amp" / "amp.csv")
    first, classes = table.column("first_m"), table.column("activity")
    pairs = zip(table.column("sequence"), first, strict=True)
    assert not any(sequence.startswith("M") and mark == "0" for sequence, mark in pairs)
    assert Counter(zip(classes, first, strict=True))[("other", "1")] == 1587
