"""What is hidden of an item: how much, of which nodes, and that nothing but item, seed and epoch decides."""

import numpy as np
import pytest

from zoo.core.masking import Hiding
from zoo.core.types import Labels


def hiding(sizes, *, seed=0, forbidden=()):
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    allowed = np.ones(ptr[-1], bool)
    allowed[list(forbidden)] = False
    return Hiding(("t",), ptr, allowed, np.arange(len(sizes)) * 7 + 1, seed)


def test_shares_are_80_10_10_of_15_percent():
    found = hiding([1000] * 50).draw(np.arange(50), 0)
    n = 50_000 * 0.15
    assert len(found.nodes) == n
    assert not (found.masked & found.replaced).any()
    assert found.masked.sum() / n == pytest.approx(0.8, abs=0.02)
    assert found.replaced.sum() / n == pytest.approx(0.1, abs=0.015)
    assert (np.diff(found.nodes) > 0).all()
    assert found.pick.min() >= 0
    assert found.pick.max() < 1
    assert np.histogram(found.pick[found.replaced], 20, (0, 1))[0].min() > 15


def test_only_allowed_nodes_and_at_least_one():
    found = hiding([3, 1, 2, 4], forbidden=(0, 3, 6)).draw(np.arange(4), 0)
    assert found.sizes.tolist() == [1, 0, 1, 1]
    assert not {0, 3, 6} & set(found.nodes.tolist())


def test_an_item_hides_the_same_in_any_batch():
    own = hiding([40, 30, 20])
    whole = own.draw(np.array([0, 1, 2]), 5)
    alone = own.draw(np.array([1]), 5)
    part = slice(whole.sizes[0], whole.sizes[:2].sum())
    assert (whole.nodes[part] - 40).tolist() == alone.nodes.tolist()
    assert (whole.pick[part] == alone.pick).all()
    assert (whole.masked[part] == alone.masked).all()


def test_epochs_and_seeds_differ_and_evaluation_knows_neither():
    at = np.array([0])
    draws = [hiding([200], seed=s).draw(at, e).nodes.tolist() for s, e in ((0, 0), (0, 1), (1, 0))]
    assert len({tuple(d) for d in draws}) == 3
    first, second = (hiding([200], seed=s).draw(at, None).nodes.tolist() for s in (0, 9))
    assert first == second
    assert first not in draws


def test_labels_of_what_is_hidden():
    own = hiding([10, 0, 30])
    values = np.arange(40)
    labels = Labels(values, np.ones(40, bool), np.array([1.0, 2.0, 3.0]), own.ptr)
    index = np.array([2, 1, 0])
    found = own.labels(labels, index)
    flat = np.concatenate([values[10:], values[:10]])
    assert found.values.tolist() == flat[own.draw(index, None).nodes].tolist()
    assert found.ptr.tolist() == [0, 4, 4, 6]
    assert found.weight.tolist() == [3.0, 2.0, 1.0]
