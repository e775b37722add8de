"""Metrics equal scikit-learn's and SciPy's on random inputs with missing labels."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sk

from zoo.core.metrics import METRICS, Outcome, score, softmax
from zoo.specs.target import TargetSpec

N = 200


def made(kind, seed, n_classes=4):
    rng = np.random.default_rng(seed)
    mask = rng.random(N) < 0.7
    classes = [str(i) for i in range(n_classes)] if kind == "multiclass" else None
    spec = TargetSpec(name=f"t{seed}", level="molecule", kind=kind, classes=classes)
    if kind == "regression":
        true, pred = rng.normal(size=N), rng.normal(size=N)
        true[~mask] = np.nan
    elif kind == "binary":
        true, pred = rng.integers(0, 2, N).astype(float), rng.random(N)
        true[~mask] = np.nan
    else:
        true, pred = rng.integers(0, n_classes, N), softmax(rng.normal(size=(N, n_classes)))
    return Outcome(spec, true, mask, pred)


ORACLES = {
    "rmse": ("regression", lambda t, p: np.sqrt(np.mean((t - p) ** 2))),
    "mae": ("regression", sk.mean_absolute_error),
    "r2": ("regression", sk.r2_score),
    "spearman": ("regression", lambda t, p: stats.spearmanr(t, p)[0]),
    "pearson": ("regression", lambda t, p: stats.pearsonr(t, p)[0]),
    "roc_auc": ("binary", sk.roc_auc_score),
    "average_precision": ("binary", sk.average_precision_score),
    "brier": ("binary", sk.brier_score_loss),
    "mcc": ("binary", lambda t, p: sk.matthews_corrcoef(t, p >= 0.5)),
    "accuracy": ("multiclass", lambda t, p: sk.accuracy_score(t, p.argmax(1))),
    "balanced_accuracy": ("multiclass", lambda t, p: sk.balanced_accuracy_score(t, p.argmax(1))),
    "cross_entropy": ("multiclass", lambda t, p: sk.log_loss(t, p, labels=[0, 1, 2, 3])),
    "perplexity": ("multiclass", lambda t, p: np.exp(-np.log(p[np.arange(len(t)), t]).mean())),
}


def test_every_metric_has_an_oracle():
    assert set(ORACLES) == {name for name, metric in METRICS.items() if not metric.pairs}


@pytest.mark.parametrize("name", ORACLES)
def test_macro_average_equals_the_oracle_on_valid_rows(name):
    kind, oracle = ORACLES[name]
    outcomes = [made(kind, seed) for seed in range(3)]
    want = np.mean([oracle(o.true[o.mask], o.pred[o.mask]) for o in outcomes])
    found = score(name, outcomes)
    assert found.value == pytest.approx(want, rel=1e-12)
    assert (found.targets_scored, found.targets) == (3, 3)
    assert found.rows == sum(o.mask.sum() for o in outcomes)


def test_a_target_with_one_class_is_left_out_and_named():
    good, flat = made("binary", 0), made("binary", 1)
    flat.true[:] = 1.0
    found = score("roc_auc", [good, flat])
    assert (found.targets_scored, found.targets) == (1, 2)
    assert found.skipped == {"t1": "only one class among the labels"}
    assert found.value == pytest.approx(sk.roc_auc_score(good.true[good.mask], good.pred[good.mask]))


def test_no_label_at_all_gives_no_value():
    outcome = made("regression", 0)
    outcome.mask[:] = False
    found = score("rmse", [outcome])
    assert found.value is None
    assert found.targets_scored == 0


def test_only_targets_of_the_right_kind_are_scored():
    found = score("rmse", [made("regression", 0), made("binary", 1)])
    assert found.targets == 1


def test_vectors_count_their_elements():
    spec = TargetSpec(name="f", level="atom", kind="vector")
    mask = np.array([[True, True, False], [True, False, False]])
    found = score("mae", [Outcome(spec, np.zeros((2, 3)), mask, np.array([[1.0, 2.0, 9.0], [3.0, 9.0, 9.0]]))])
    assert (found.value, found.rows) == (2.0, 3)


def contacts(*items, level="pair"):
    """An outcome of items whose matrices of labels (None: masked) and of predictions are given."""
    true = [v for item, _ in items for row in item for v in row]
    mask = np.asarray([v is not None for v in true])
    ptr = np.cumsum([0, *(len(item) ** 2 for item, _ in items)])
    pred = np.concatenate([np.ravel(p) for _, p in items]).astype(float)
    true = np.asarray([9.0 if v is None else v for v in true])
    return Outcome(TargetSpec(name="c", level=level, kind="binary"), true, mask, pred, ptr)


def test_precision_at_l_looks_at_each_item_by_itself():
    of_three = [[None, 1, 0], [None, None, 1], [0, 0, None]]
    by_hand = [[9, 0.9, 0.8], [9, 9, 0.1], [0.7, 0.2, 9]]  # the three likeliest valid pairs: 1, 0, 0
    of_two = [[None, 1], [None, None]]  # fewer valid pairs than nodes: all of them
    none = [[None, 0], [0, None]]  # no contact, so no value
    items = [(of_three, by_hand), (of_two, np.zeros((2, 2))), (none, np.ones((2, 2)))]
    assert score("precision_at_l", [contacts(*items)]).value == pytest.approx((1 / 3 + 1) / 2)
    assert score("precision_at_l", [contacts(*items[::-1])]).value == pytest.approx((1 / 3 + 1) / 2)
    found = score("precision_at_l", [contacts(items[2])])
    assert (found.value, found.skipped) == (None, {"c": "no item with a contact"})


def test_equal_predictions_count_by_the_share_of_contacts():
    labels = [[None, 1, 0], [0, None, 1], [0, 0, None]]
    assert score("precision_at_l", [contacts((labels, np.full((3, 3), 0.5)))]).value == pytest.approx(2 / 6)
    some = [[0.5, 0.9, 0.5], [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]  # one above, and two of five that are equal
    assert score("precision_at_l", [contacts((labels, some))]).value == pytest.approx((1 + 2 * 1 / 5) / 3)


def test_a_metric_of_pairs_scores_nothing_else():
    found = score("precision_at_l", [made("binary", 0)])
    assert (found.value, found.targets) == (None, 0)
