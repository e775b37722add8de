"""Cheap models to be compared with: linear models on composition, words or positions, the nearest sequences, trees.

Those of whole sequences are :class:`zoo.core.domain.Baseline`, those of residues :class:`zoo.core.domain.NodeBaseline`.
Features are computed from the sequences alone; scales and weights are fitted on the training part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from zoo.core.baselines import fitted
from zoo.core.ragged import ragged_index
from zoo.core.trees import boosted_trees
from zoo.proteins.alphabet import CODE
from zoo.proteins.descriptors import describe

LETTERS = "ACDEFGHIKLMNPQRSTVWYX"
"""The amino acids, and what stands for every other letter."""
TREES = 300
PENALTIES, STRENGTHS, FOLDS = np.logspace(-3, 5, 17), np.logspace(-4, 1, 6), 3
"""Penalties of ridge regression and inverse penalties of logistic regression to choose from, features scaled."""
NEAREST = 5
HALF_WINDOW = 7
"""Residues on each side of the one that is asked for."""
MOST_RESIDUES = 400_000
"""Residues that a linear model on windows is fitted on; of more, so many are drawn."""
RARE = 20

_CODE = np.full(256, LETTERS.index("X"), np.int64)
_CODE[np.frombuffer(LETTERS.encode(), np.uint8)] = np.arange(len(LETTERS))


def composition(
    inputs: Sequence[str],
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    seed: int,
    threads: int = 1,
) -> np.ndarray:
    """Fit a linear model on the shares of the amino acids and the length's logarithm."""
    del seed, threads
    return fitted(_linear(kind), composition_features(inputs), values, mask, train, kind=kind)


def kmers(
    inputs: Sequence[str],
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    seed: int,
    threads: int = 1,
) -> np.ndarray:
    """Fit a linear model on the shares of the 441 pairs of neighbours, beside the composition."""
    del seed, threads
    features = np.concatenate([composition_features(inputs), word_shares(inputs, 2).toarray()], axis=1)
    return fitted(_linear(kind), features, values, mask, train, kind=kind)


def onehot(
    inputs: Sequence[str],
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    seed: int,
    threads: int = 1,
) -> np.ndarray:
    """Fit a linear model on the letter at every position, for variants of one sequence.

    Sequences are not aligned: the first residues stand below each other. Positions at which the training part has one
    letter throughout do not count.
    """
    del seed, threads
    width = max(len(text) for text in inputs)
    codes = np.full((len(inputs), width), -1, np.int64)
    for row, text in enumerate(inputs):
        codes[row, : len(text)] = _codes(text)
    varied = np.flatnonzero((codes[train] != codes[train[0]]).any(axis=0))
    features = (codes[:, varied, None] == np.arange(len(LETTERS))).reshape(len(inputs), -1).astype(np.float64)
    return fitted(_linear(kind), features, values, mask, train, kind=kind)


def nearest(
    inputs: Sequence[str],
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    seed: int,
    threads: int = 1,
) -> np.ndarray:
    """Average the labels of the five training sequences that share most words of three residues.

    Similarity is the cosine of the counts of words, and the weight of a neighbour; a sequence without any relative
    has the average of all.
    """
    del seed, threads
    words = word_shares(inputs, 3)
    norm = np.sqrt(words.multiply(words).sum(axis=1))
    words = words.multiply(1 / np.maximum(norm, 1e-12)[:, None]).tocsr()
    return fitted(lambda: _Nearest(kind), words, values, mask, train, kind=kind)


def lightgbm(
    inputs: Sequence[str],
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    seed: int,
    threads: int = 2,
) -> np.ndarray:
    """Fit gradient-boosted trees (LightGBM's defaults, 300 rounds) on the composition and the length."""
    return _trees(composition_features(inputs), values, mask, train, kind=kind, seed=seed, threads=threads)


def lightgbm_descriptors(
    inputs: Sequence[str],
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    seed: int,
    threads: int = 2,
) -> np.ndarray:
    """Fit the trees of :func:`lightgbm` on the descriptors of peptides: :data:`zoo.proteins.descriptors.NAMES`."""
    features = np.stack([describe(CODE[np.frombuffer(text.encode("ascii"), np.uint8)]) for text in inputs])
    return _trees(features, values, mask, train, kind=kind, seed=seed, threads=threads)


def window(
    inputs: Sequence[str],
    ptr: np.ndarray,
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    seed: int,
    threads: int = 1,
) -> np.ndarray:
    """Fit a linear model on the letters of a residue and of its seven neighbours on each side, one-hot."""
    del threads
    features = window_features(inputs)
    nodes, _ = ragged_index(ptr, train)
    nodes = nodes[mask.reshape(len(mask), -1)[nodes].any(axis=1)]
    if len(nodes) > MOST_RESIDUES:
        nodes = np.sort(np.random.default_rng(seed).choice(nodes, MOST_RESIDUES, replace=False))

    def make() -> Any:
        return Ridge() if kind == "regression" else LogisticRegression(max_iter=1000, tol=1e-3)

    return fitted(make, features, values, mask, nodes, kind=kind)


def separation(
    inputs: Sequence[str],
    ptr: np.ndarray,
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    seed: int,
    threads: int = 1,
) -> np.ndarray:
    """Predict of a pair of residues how often pairs as far apart along the chain are in contact.

    Of separations that are rare in training, the frequency over all pairs counts as much as :data:`RARE` pairs.
    """
    del inputs, kind, seed, threads
    apart = np.concatenate([_separations(math.isqrt(n)) for n in np.diff(ptr).tolist()])
    nodes, _ = ragged_index(ptr, train)
    columns = []
    for y, valid in zip(values.T, mask.T, strict=True):
        own = nodes[valid[nodes]]
        total = np.bincount(apart[own], minlength=int(apart.max(initial=0)) + 1)
        hits = np.bincount(apart[own], y[own], minlength=len(total))
        columns.append(((hits + RARE * y[own].mean()) / (total + RARE))[apart])
    return np.stack(columns, axis=1)


def _separations(n: int) -> np.ndarray:
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))).ravel()


def composition_features(inputs: Sequence[str]) -> np.ndarray:
    """Return ``(n, 22)``: the share of each of :data:`LETTERS`, and the natural logarithm of the length."""
    counts = word_shares(inputs, 1).toarray()
    return np.concatenate([counts, np.log([[len(text)] for text in inputs])], axis=1)


def word_shares(inputs: Sequence[str], k: int) -> csr_array:
    """Return ``(n, 21**k)``: how often each word of ``k`` residues occurs, as a share of the words of a sequence."""
    codes = [_words(text, k) for text in inputs]
    ptr = np.cumsum([0, *(len(own) for own in codes)])
    weight = np.concatenate([np.full(len(own), 1 / max(1, len(own))) for own in codes])
    shares = csr_array((weight, np.concatenate(codes), ptr), shape=(len(inputs), len(LETTERS) ** k))
    shares.sum_duplicates()
    return shares


def window_features(inputs: Sequence[str]) -> csr_array:
    """Return ``(N, 15 * 22)`` for ``N`` residues: one-hot letters of the window, past the ends a letter of its own."""
    width, n_letters = 2 * HALF_WINDOW + 1, len(LETTERS) + 1
    rows = []
    for text in inputs:
        padded = np.pad(_codes(text), HALF_WINDOW, constant_values=len(LETTERS))
        rows.append(np.lib.stride_tricks.sliding_window_view(padded, width))
    letters = np.concatenate(rows) + n_letters * np.arange(width)
    ptr = np.arange(0, letters.size + 1, width)
    return csr_array((np.ones(letters.size, np.float32), letters.ravel(), ptr), shape=(len(letters), width * n_letters))


def _codes(text: str) -> np.ndarray:
    return _CODE[np.frombuffer(text.encode("ascii"), np.uint8)]


def _words(text: str, k: int) -> np.ndarray:
    codes = _codes(text)
    n = max(0, len(codes) - k + 1)
    words = np.zeros(n, np.int64)
    for offset in range(k):
        words = words * len(LETTERS) + codes[offset : offset + n]
    return words


def _trees(
    features: np.ndarray,
    values: np.ndarray,
    mask: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    seed: int,
    threads: int,
) -> np.ndarray:
    def make() -> Any:
        return boosted_trees(kind, rounds=TREES, seed=seed, threads=threads)

    return fitted(make, features, values, mask, train, kind=kind)


def _linear(kind: str) -> Callable[[], Any]:
    """Return a maker of ridge regression, its penalty chosen by leave-one-out, or of logistic regression."""
    return lambda: make_pipeline(StandardScaler(), RidgeCV(PENALTIES)) if kind == "regression" else _Logistic()


class _Logistic:
    """Logistic regression whose penalty is chosen by three-fold cross-validation where each class has three rows."""

    def fit(self, features: np.ndarray, y: np.ndarray) -> _Logistic:
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, tol=1e-3))
        if np.unique(y, return_counts=True)[1].min() >= FOLDS:
            grid = {"logisticregression__C": list(STRENGTHS)}
            model = GridSearchCV(model, grid, scoring="neg_log_loss", cv=FOLDS)
        self.model = model.fit(features, y)
        self.classes_ = self.model.classes_
        return self

    def predict_proba(self, features: np.ndarray) -> np.ndarray:
        """Return ``(n, c)`` probabilities."""
        shares: np.ndarray = self.model.predict_proba(features)
        return shares


class _Nearest:
    """Weighted mean of the labels of the most similar training rows; rows are unit vectors."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def fit(self, features: csr_array, y: np.ndarray) -> _Nearest:
        self.features = features
        self.classes_ = np.unique(y)
        self.y = y[:, None] if self.kind == "regression" else (y[:, None] == self.classes_).astype(np.float64)
        return self

    def predict(self, features: csr_array) -> np.ndarray:
        """Return ``(n, 1)``, or ``(n, c)`` shares of the classes."""
        k = min(NEAREST, len(self.y))
        result = np.empty((features.shape[0], self.y.shape[1]))
        for start in range(0, features.shape[0], 1024):
            alike = (features[start : start + 1024] @ self.features.T).toarray()
            best = np.argpartition(-alike, k - 1, axis=1)[:, :k]
            weight = np.take_along_axis(alike, best, axis=1)
            # A trace of the mean decides where there is no relative at all.
            total = weight.sum(axis=1, keepdims=True) + 1e-6
            told = (weight[:, :, None] * self.y[best]).sum(axis=1) + 1e-6 * self.y.mean(axis=0)
            result[start : start + 1024] = told / total
        return result

    predict_proba = predict
