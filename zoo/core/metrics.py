"""Metrics in original units, over valid labels only, and macro averages that say what they rest on.

The values are scikit-learn's and SciPy's own. Rows are put in row order first, so a metric does not depend on how they
were batched or spread over ranks. A metric that is undefined for a target (one class, constant labels) skips it and
says why; it never becomes a zero or a NaN in an average.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats
from sklearn import metrics as sk

from zoo.specs.model import ScoreInfo
from zoo.specs.target import TargetSpec


class UndefinedMetricError(ValueError):
    """The metric has no value for these labels; the message says why."""


@dataclass(frozen=True)
class Metric:
    """One metric: ``function(true, pred)``; which kinds of target it scores, and which direction is better."""

    function: Callable[[np.ndarray, np.ndarray], float]
    kinds: frozenset[str]
    direction: str
    needs: str = "value"
    """``value`` (number), ``probability`` of the positive class ``(n,)`` or of each class ``(n, c)``, or ``label``."""
    pairs: bool = False
    """Whether it scores targets of pairs only, item by item: ``function(true, pred)`` is given an item's matrices, NaN
    where there is no valid label, and the mean over the items that have a value counts."""

    def scores(self, spec: TargetSpec) -> bool:
        """Say whether it is a metric of this target."""
        return spec.kind in self.kinds and (spec.level == "pair" or not self.pairs)


def _both_classes(true: np.ndarray) -> None:
    if len(np.unique(true)) < 2:
        raise UndefinedMetricError("only one class among the labels")


def _roc_auc(true: np.ndarray, pred: np.ndarray) -> float:
    _both_classes(true)
    return float(sk.roc_auc_score(true, pred))


def _average_precision(true: np.ndarray, pred: np.ndarray) -> float:
    _both_classes(true)
    return float(sk.average_precision_score(true, pred))


def _varied(true: np.ndarray, pred: np.ndarray) -> None:
    if len(true) < 2:
        raise UndefinedMetricError("fewer than two labels")
    if np.ptp(true) == 0 or np.ptp(pred) == 0:
        raise UndefinedMetricError("constant labels or predictions")


def _r2(true: np.ndarray, pred: np.ndarray) -> float:
    if len(true) < 2 or np.ptp(true) == 0:
        raise UndefinedMetricError("fewer than two different labels")
    return float(sk.r2_score(true, pred))


def _spearman(true: np.ndarray, pred: np.ndarray) -> float:
    _varied(true, pred)
    return float(stats.spearmanr(true, pred).statistic)


def _pearson(true: np.ndarray, pred: np.ndarray) -> float:
    _varied(true, pred)
    return float(stats.pearsonr(true, pred).statistic)


def _cross_entropy(true: np.ndarray, pred: np.ndarray) -> float:
    classes = np.arange(pred.shape[1] if pred.ndim == 2 else 2)
    return float(sk.log_loss(true, pred, labels=classes))


def _precision_at_l(true: np.ndarray, pred: np.ndarray) -> float:
    """Return the share of contacts among the ``l`` likeliest pairs of an item of ``l`` nodes, of all if they are fewer.

    Of pairs with equal predictions at the end of the list, which would be in it is left to chance: they count by their
    share of contacts.
    """
    valid = ~np.isnan(true)
    label, score = true[valid], pred[valid]
    if not label.any():
        raise UndefinedMetricError("no item with a contact")
    count = min(len(true), len(score))
    last = np.sort(score)[-count]
    above, level = score > last, score == last
    found = label[above].sum() + (count - above.sum()) * label[level].mean()
    return float(found / count)


_NUMBERS = frozenset({"regression", "vector", "tensor"})
_CLASSES = frozenset({"binary", "multiclass"})
METRICS: dict[str, Metric] = {
    "rmse": Metric(lambda t, p: math.sqrt(sk.mean_squared_error(t, p)), _NUMBERS, "min"),
    "mae": Metric(lambda t, p: float(sk.mean_absolute_error(t, p)), _NUMBERS, "min"),
    "r2": Metric(_r2, frozenset({"regression"}), "max"),
    "spearman": Metric(_spearman, frozenset({"regression"}), "max"),
    "pearson": Metric(_pearson, frozenset({"regression"}), "max"),
    "roc_auc": Metric(_roc_auc, frozenset({"binary"}), "max", "probability"),
    "average_precision": Metric(_average_precision, frozenset({"binary"}), "max", "probability"),
    "precision_at_l": Metric(_precision_at_l, frozenset({"binary"}), "max", "probability", pairs=True),
    "brier": Metric(lambda t, p: float(np.mean((p - t) ** 2)), frozenset({"binary"}), "min", "probability"),
    "cross_entropy": Metric(_cross_entropy, _CLASSES, "min", "probability"),
    "perplexity": Metric(lambda t, p: math.exp(_cross_entropy(t, p)), frozenset({"multiclass"}), "min", "probability"),
    "accuracy": Metric(lambda t, p: float(sk.accuracy_score(t, p)), _CLASSES, "max", "label"),
    "balanced_accuracy": Metric(lambda t, p: float(sk.balanced_accuracy_score(t, p)), _CLASSES, "max", "label"),
    "mcc": Metric(lambda t, p: float(sk.matthews_corrcoef(t, p)), _CLASSES, "max", "label"),
}


@dataclass
class Outcome:
    """Labels and predictions of one target in original units, rows in order.

    ``true`` and ``mask`` are ``(n,)`` or ``(n, k)``; ``pred`` the same shape, except for a multiclass target, where it
    holds probabilities ``(n, c)``. For a binary target it holds the probability of the positive class. ``ptr``
    ``(n_items + 1,)`` says which rows are an item's, where it has several.
    """

    spec: TargetSpec
    true: np.ndarray
    mask: np.ndarray
    pred: np.ndarray
    ptr: np.ndarray | None = None


def score(name: str, outcomes: list[Outcome]) -> ScoreInfo:
    """Return the macro average of one metric over the targets whose kind it scores.

    The result says how many labels and targets it rests on, and why a target was left out.
    """
    metric = METRICS[name]
    eligible = [o for o in outcomes if metric.scores(o.spec)]
    values: list[float] = []
    rows = 0
    skipped: dict[str, str] = {}
    for outcome in eligible:
        mask = outcome.mask
        if not mask.any():
            skipped[outcome.spec.name] = "no label"
            continue
        true = outcome.true[mask]
        pred = outcome.pred[mask]
        if metric.needs == "label":
            pred = (
                pred.argmax(axis=1)
                if pred.ndim == 2 and outcome.spec.kind == "multiclass"
                else (pred >= 0.5).astype(int)
            )
        if not np.isfinite(pred).all():
            skipped[outcome.spec.name] = "non-finite predictions"
            continue
        try:
            with warnings.catch_warnings():
                # scikit-learn warns of a class missing among labels or predictions, which is common on small parts.
                warnings.simplefilter("ignore", UserWarning)
                values.append(_by_item(metric, outcome) if metric.pairs else metric.function(true, pred))
        except UndefinedMetricError as why:
            skipped[outcome.spec.name] = str(why)
            continue
        rows += int(mask.sum())
    value = float(np.mean(values)) if values else None
    return ScoreInfo(value=value, rows=rows, targets_scored=len(values), targets=len(eligible), skipped=skipped)


def _by_item(metric: Metric, outcome: Outcome) -> float:
    """Return the mean of a metric over the items that have a value."""
    if outcome.ptr is None:
        raise ValueError("a metric of pairs needs to know which pairs are an item's")
    true = np.where(outcome.mask, outcome.true, np.nan)
    values = []
    for start, end in itertools.pairwise(outcome.ptr.tolist()):
        n = math.isqrt(end - start)
        with contextlib.suppress(UndefinedMetricError):
            values.append(metric.function(true[start:end].reshape(n, n), outcome.pred[start:end].reshape(n, n)))
    if not values:
        raise UndefinedMetricError("no item with a contact")
    return float(np.mean(values))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return class probabilities of ``(n, c)`` logits, in float64."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    probabilities: np.ndarray = shifted / shifted.sum(axis=1, keepdims=True)
    return probabilities
