"""Baselines: their features by hand, their fits against scikit-learn, and what they must find."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from zoo.core.domain import load_object
from zoo.proteins import baselines
from zoo.proteins.baselines import (
    LETTERS,
    composition,
    composition_features,
    kmers,
    lightgbm,
    lightgbm_descriptors,
    nearest,
    onehot,
    window,
    window_features,
    word_shares,
)
from zoo.proteins.domain import DOMAIN


def test_composition_by_hand():
    found = composition_features(["AACDX", "WBUOZ"])
    assert found.shape == (2, 22)
    assert found[0, [0, 1, 2, LETTERS.index("X"), -1]].tolist() == [0.4, 0.2, 0.2, 0.2, np.log(5)]
    assert found[1, LETTERS.index("X")] == 0.8
    np.testing.assert_allclose(found[:, :21].sum(axis=1), 1)


def test_words_by_hand():
    found = word_shares(["ACAC", "A"], 2).toarray()
    assert found.shape == (2, 441)
    assert found[0, 1] == pytest.approx(2 / 3)  # AC
    assert found[0, 21] == pytest.approx(1 / 3)  # CA
    assert not found[1].any()


def test_windows_by_hand():
    found = window_features(["AC", "D"]).toarray().reshape(3, 15, 22)
    assert (found.sum(axis=2) == 1).all()
    assert found.argmax(axis=2)[0].tolist() == [21] * 7 + [0, 1] + [21] * 6
    assert found.argmax(axis=2)[1].tolist() == [21] * 6 + [0, 1] + [21] * 7
    assert found.argmax(axis=2)[2].tolist() == [21] * 7 + [2] + [21] * 7  # no neighbour from another sequence


@pytest.fixture(scope="module")
def peptides():
    """Two hundred sequences, their share of lysine as a number, whether it is large, and which to train on."""
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACDEFGHIKKKKLMNPQ"), rng.integers(10, 40))) for _ in range(200)]
    shares = np.array([[text.count("K") / len(text)] for text in texts])
    return texts, shares, (shares > np.median(shares)).astype(float), np.arange(150)


# Of 463 shares in 150 sequences words of two are learnt less well.
@pytest.mark.parametrize(
    ("baseline", "least"), [(composition, 0.97), (kmers, 0.8), (lightgbm, 0.95), (lightgbm_descriptors, 0.95)]
)
def test_composition_is_learnt(baseline, least, peptides):
    texts, shares, large, train = peptides
    mask = np.ones_like(shares, bool)
    found = baseline(texts, shares, mask, train, kind="regression", seed=0)
    assert np.corrcoef(found[150:, 0], shares[150:, 0])[0, 1] > 0.95
    found = baseline(texts, large, mask, train, kind="binary", seed=0)
    assert roc_auc_score(large[150:], found[150:]) > least


def test_trees_on_descriptors_see_the_order_of_residues():
    """Two amphipathic helices and their shuffled letters: of one composition, so that only moments tell them apart."""
    rng = np.random.default_rng(1)
    helix = "KLLKLLLKLLKKLLKLLK"
    texts = [helix[i % 18 :] + helix[: i % 18] if i % 2 else "".join(rng.permutation(list(helix))) for i in range(300)]
    labels = (np.arange(300) % 2).astype(float)[:, None]
    mask, train = np.ones_like(labels, bool), np.arange(200)
    found = lightgbm_descriptors(texts, labels, mask, train, kind="binary", seed=0, threads=1)
    assert roc_auc_score(labels[200:], found[200:]) > 0.95
    blind = lightgbm(texts, labels, mask, train, kind="binary", seed=0, threads=1)
    assert roc_auc_score(labels[200:], blind[200:]) == pytest.approx(0.5)


def test_a_class_of_two_rows_is_no_obstacle(peptides):
    texts, _, large, _ = peptides
    train = np.concatenate([np.flatnonzero(large[:, 0] == 1)[:30], np.flatnonzero(large[:, 0] == 0)[:2]])
    found = composition(texts, large, np.ones_like(large, bool), train, kind="binary", seed=0)
    assert ((found > 0) & (found < 1)).all()


@pytest.mark.parametrize("baseline", [composition, kmers, lightgbm, lightgbm_descriptors, nearest])
def test_labels_of_other_parts_and_masked_ones_do_not_matter(baseline, peptides):
    texts, shares, _, train = peptides
    mask = np.ones_like(shares, bool)
    mask[5:20] = False
    spoilt = shares.copy()
    spoilt[5:20], spoilt[150:] = 1e6, -1e6
    first = baseline(texts, shares, mask, train, kind="regression", seed=0)
    np.testing.assert_array_equal(first, baseline(texts, spoilt, mask, train, kind="regression", seed=0))


def test_onehot_is_ridge_on_the_positions_that_vary():
    rng = np.random.default_rng(1)
    texts = ["MK" + "".join(rng.choice(list("ACD"), 2)) + "W" for _ in range(80)]
    values = np.array([[2.0 * (text[2] == "A") - (text[3] == "D")] for text in texts])
    found = onehot(texts, values, np.ones_like(values, bool), np.arange(60), kind="regression", seed=0)
    features = np.array([[text[i] == letter for i in (2, 3) for letter in LETTERS] for text in texts], float)
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 5, 17))).fit(features[:60], values[:60, 0])
    np.testing.assert_allclose(found[:, 0], model.predict(features), atol=1e-10)
    np.testing.assert_allclose(found, values, atol=0.01)


def test_the_nearest_decide():
    texts = ["MKTAYIAKQR", "GGSGGSGGSG", "MKTAYIAKQW", "GGSGGSGGSA", "WWWWW"]
    values = np.array([[1.0], [0.0], [0.0], [0.0], [0.0]])
    found = nearest(texts, values, np.ones_like(values, bool), np.array([0, 1]), kind="regression", seed=0)
    np.testing.assert_allclose(found[2:, 0], [1.0, 0.0, 0.5], atol=1e-5)  # a stranger has the mean of all
    found = nearest(texts, values, np.ones_like(values, bool), np.array([0, 1]), kind="binary", seed=0)
    np.testing.assert_allclose(found[2:, 0], [1.0, 0.0, 0.5], atol=1e-5)


@pytest.fixture(scope="module")
def chains():
    """Chains with a class per residue that its left neighbour decides; the first residue of each has no label."""
    rng = np.random.default_rng(2)
    texts = ["".join(rng.choice(list("ACDE"), rng.integers(5, 30))) for _ in range(60)]
    labels = [[0, *("ACDE".index(x) % 3 for x in text[:-1])] for text in texts]
    ptr = np.cumsum([0, *map(len, texts)])
    mask = np.ones((ptr[-1], 1), bool)
    mask[ptr[:-1]] = False
    return texts, ptr, np.concatenate(labels)[:, None].astype(float), mask


def test_a_window_sees_the_neighbours(chains):
    texts, ptr, values, mask = chains
    found = window(texts, ptr, values, mask, np.arange(40), kind="multiclass", seed=0)
    assert found.shape == (ptr[-1], 3)
    test = np.arange(ptr[40], ptr[-1])[mask[ptr[40] :, 0]]
    assert (found[test].argmax(axis=1) == values[test, 0]).mean() > 0.99
    features, rows = window_features(texts), np.flatnonzero(mask[: ptr[40], 0])
    model = LogisticRegression(max_iter=1000, tol=1e-3).fit(features[rows], values[rows, 0])
    np.testing.assert_allclose(found, model.predict_proba(features), atol=1e-12)


def test_of_many_residues_a_window_draws_some(chains, monkeypatch):
    texts, ptr, values, mask = chains
    monkeypatch.setattr(baselines, "MOST_RESIDUES", 200)
    one, again, other = (
        window(texts, ptr, values, mask, np.arange(40), kind="multiclass", seed=seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_every_name_in_the_table_is_a_function():
    for path in (*DOMAIN.baselines.values(), *DOMAIN.node_baselines.values(), *DOMAIN.splitters.values()):
        assert callable(load_object(path))
