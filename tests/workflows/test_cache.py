"""The featurised cache: a second run does not featurise again; other options, a damaged file and a full disk do."""

from dataclasses import replace

import numpy as np
import pytest

from zoo.core.cache import featurise
from zoo.core.domain import get_domain
from zoo.errors import InputError, ZooError

SMILES = ["CCO", "bad smiles", "C[C@H](N)C(=O)O", "[Na+].[Cl-]", "C"]


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """Return the domain of molecules with a featuriser that counts its calls."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    calls = []
    domain = get_domain("molecules")

    def spy(inputs, options):
        calls.append(len(inputs))
        return domain.featurise(inputs, options)

    return replace(domain, featurise=spy), calls


def test_the_second_time_reads_the_same(counted):
    domain, calls = counted
    first = featurise(domain, SMILES, {"descriptors": "rdkit2d"})
    second = featurise(domain, SMILES, {"descriptors": "rdkit2d"})
    assert calls == [5]
    assert second.key == first.key
    assert second.problems == first.problems
    assert second.notes == first.notes
    assert second.position.tolist() == first.position.tolist() == [0, 2, 3, 4]
    a, b = first.items.arrays(), second.items.arrays()
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[k], b[k]) and a[k].dtype == b[k].dtype for k in a)
    assert second.items.feature_names == first.items.feature_names


def test_what_changes_the_features_changes_the_key(counted):
    domain, calls = counted
    featurise(domain, SMILES, {})
    featurise(domain, SMILES, {"standardise": False})
    featurise(domain, SMILES[:4], {})
    featurise(replace(domain, featuriser_version=domain.featuriser_version + 1), SMILES, {})
    assert calls == [5, 5, 4, 5]


def test_a_damaged_file_is_made_again(counted, tmp_path):
    domain, calls = counted
    featurise(domain, SMILES, {})
    (path,) = (tmp_path / "featurised").iterdir()
    path.write_bytes(path.read_bytes()[:100])
    assert featurise(domain, SMILES, {}).key == featurise(domain, SMILES, {}).key
    assert calls == [5, 5]


def test_an_unwritable_cache_is_no_error(counted, monkeypatch):
    domain, calls = counted

    def full(path, data):
        raise ZooError("no space left")

    monkeypatch.setattr("zoo.core.cache.write_atomic", full)
    assert len(featurise(domain, SMILES, {}).key) == 4
    assert calls == [5]


def test_an_unknown_option_is_refused(counted):
    with pytest.raises(InputError, match=r"'descriptor'.*Did you mean 'descriptors'"):
        featurise(counted[0], SMILES, {"descriptor": "rdkit2d"})
