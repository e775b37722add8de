import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors, rdFingerprintGenerator
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import roc_auc_score

from zoo.core.baselines import majority, mean
from zoo.core.table import read_table
from zoo.errors import DataError
from zoo.molecules import baselines
from zoo.molecules.baselines import fingerprint_features, lightgbm, random_forest
from zoo.molecules.descriptors import descriptor_names
from zoo.resources import bundled_root

TREES = [random_forest, lightgbm]


@pytest.fixture(scope="module")
def data():
    table = read_table(bundled_root() / "datasets" / "freesolv" / "freesolv.csv")
    smiles = table.column("smiles")[:160]
    values = np.asarray(table.column("expt")[:160], dtype=float)[:, None]
    return smiles, values, np.arange(120), np.arange(120, 160)


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    """Fewer trees than in earnest, so that the tests are quick."""
    monkeypatch.setattr(baselines, "TREES", 40)


def test_mean_and_majority():
    values = np.array([[1.0, 0.0], [3.0, 9.0], [99.0, 4.0], [50.0, 6.0]])
    mask = np.array([[True, False], [True, True], [True, True], [True, True]])
    train = np.array([0, 1, 2])
    inputs = ["C", "CC", "CCC", "N"]
    found = mean(inputs, values, mask, train, kind="regression", seed=0)
    np.testing.assert_allclose(found, np.tile([103 / 3, 6.5], (4, 1)), rtol=1e-15)
    labels = np.array([[1.0], [1.0], [0.0], [0.0]])
    found = majority(inputs, labels, np.ones_like(labels, bool), train, kind="binary", seed=0)
    np.testing.assert_allclose(found, np.full((4, 1), 2 / 3), rtol=1e-15)
    classes = np.array([[0.0], [2.0], [2.0], [3.0]])
    found = majority(inputs, classes, np.ones_like(classes, bool), train, kind="multiclass", seed=0)
    np.testing.assert_allclose(found, np.tile([1 / 3, 0, 2 / 3, 0], (4, 1)), rtol=1e-15)


def test_features_are_counts_and_descriptors():
    smiles = ("CCO", "c1ccccc1C(=O)[O-].[Na+]")
    found = fingerprint_features(smiles)
    mols = [Chem.MolFromSmiles("CCO"), Chem.MolFromSmiles("c1ccccc1C(=O)O")]
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    np.testing.assert_array_equal(found[:, :2048], [generator.GetCountFingerprintAsNumPy(m) for m in mols])
    weight = found[:, 2048 + descriptor_names("rdkit2d").index("MolWt")]
    np.testing.assert_allclose(weight, [Descriptors.MolWt(m) for m in mols], rtol=1e-6)
    assert fingerprint_features(smiles) is found  # shared by all trees of the process


def test_a_forest_is_scikit_learns(data):
    smiles, values, train, test = data
    mask = np.ones_like(values, bool)
    found = random_forest(smiles, values, mask, train, kind="regression", seed=3, threads=1)
    features = fingerprint_features(tuple(smiles))
    model = RandomForestRegressor(40, max_features=1 / 3, random_state=3).fit(features[train], values[train, 0])
    np.testing.assert_allclose(found[:, 0], model.predict(features), rtol=1e-12)
    assert np.sqrt(np.mean((found[test] - values[test]) ** 2)) < 0.8 * values[test].std()


@pytest.mark.parametrize("baseline", TREES)
def test_missing_and_foreign_labels_change_no_bit(baseline, data):
    smiles, values, train, test = data
    mask = np.ones_like(values, bool)
    mask[:30] = False
    clean = baseline(smiles, np.where(mask, values, 0.0), mask, train, kind="regression", seed=0, threads=1)
    dirty = np.where(mask, values, 1e30)
    dirty[test] = -1e30
    again = baseline(smiles, dirty, mask, train, kind="regression", seed=0, threads=1)
    np.testing.assert_array_equal(clean, again)


@pytest.mark.parametrize("baseline", TREES)
def test_several_classified_targets(baseline, data):
    smiles, values, train, test = data
    labels = np.concatenate([values < -3, np.zeros_like(values), values < -5], axis=1).astype(float)
    labels[test, 1] = 1.0
    found = baseline(smiles, labels, np.ones_like(labels, bool), train, kind="binary", seed=0, threads=1)
    assert found.shape == (160, 3)
    assert (found >= 0).all()
    assert (found <= 1).all()
    assert roc_auc_score(labels[test, 0], found[test, 0]) > 0.8
    assert (found[:, 1] == 0.0).all()  # one class in training: its constant probability


@pytest.mark.parametrize("baseline", TREES)
def test_multiclass_probabilities(baseline, data):
    smiles, values, train, _ = data
    labels = np.digitize(values, [-5, -2]).astype(float)
    labels[labels == 1] = 3.0  # class 1 never occurs
    found = baseline(smiles, labels, np.ones_like(labels, bool), train, kind="multiclass", seed=0, threads=1)
    assert found.shape == (160, 4)
    np.testing.assert_allclose(found.sum(1), 1.0, rtol=1e-12)
    assert (found[:, 1] == 0.0).all()
    assert (found[train].argmax(1) == labels[train, 0]).mean() > 0.9


@pytest.mark.parametrize("baseline", [mean, *TREES])
def test_a_target_without_training_labels_is_an_error(baseline, data):
    smiles, values, train, test = data
    mask = np.zeros_like(values, bool)
    mask[test] = True
    with pytest.raises(DataError, match="target number 0 has no label in the training part"):
        baseline(smiles, values, mask, train, kind="regression", seed=0)
