"""Order and windows."""

import numpy as np
import pytest

from zoo.core.datamodule import random_key
from zoo.core.ragged import ragged_index
from zoo.core.sampler import ByCost, ByCount, epoch_order


def test_order_is_a_pure_function_of_seed_and_epoch():
    a, b = epoch_order(100, 3, 7), epoch_order(100, 3, 7)
    assert (a == b).all()
    assert sorted(a) == list(range(100))
    assert (epoch_order(100, 3, 8) != a).any()
    assert (epoch_order(100, 4, 7) != a).any()


@pytest.mark.parametrize(("n", "batch", "parts"), [(10, 4, 1), (10, 4, 3), (9, 4, 4), (3, 8, 8), (1, 1, 1)])
def test_windows_cover_each_item_once(n, batch, parts):
    plan = ByCount(n, batch)
    windows = plan.epoch(0, 0)
    assert len(windows) == plan.windows
    assert np.concatenate(windows).tolist() == epoch_order(n, 0, 0).tolist()
    assert max(map(len, windows)) <= batch
    for window in windows:
        dealt = plan.deal(window, parts)
        assert len(dealt) == parts
        assert np.concatenate(dealt).tolist() == window.tolist()


def costs(n=4000, seed=0):
    return np.random.default_rng(seed).lognormal(5.5, 0.6, n).clip(20, 1024)


@pytest.mark.parametrize(("cost", "budget"), [(costs(), 8000), (costs(50), 700), (costs(7), 1e6), (costs(9), 30)])
def test_windows_of_a_cost_hold_each_item_once_and_never_none(cost, budget):
    plan = ByCost(cost, budget)
    for epoch in (0, 1):
        windows = plan.epoch(3, epoch)
        assert len(windows) == plan.windows
        assert min(map(len, windows)) > 0
        assert sorted(np.concatenate(windows).tolist()) == list(range(len(cost)))
        sums = [plan.cost[own].sum() for own in windows]
        share = plan.cost.sum() / plan.windows
        assert max(sums) <= share + plan.cost.max()
        for own in windows:
            assert np.concatenate(plan.deal(own, 3)).tolist() == own.tolist()


def test_windows_of_a_cost_depend_on_seed_and_epoch_alone_and_mix():
    plan, again = (ByCost(costs(), 8000) for _ in range(2))
    first = plan.epoch(0, 0)
    assert all((a == b).all() for a, b in zip(first, again.epoch(0, 0), strict=True))
    for other in (plan.epoch(0, 1), plan.epoch(1, 0)):
        assert {tuple(sorted(w)) for w in first}.isdisjoint({tuple(sorted(w)) for w in other})
    longest = [plan.cost[own].max() for own in first]
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3  # no sorted run of windows


def test_little_of_a_window_of_a_cost_is_padding():
    def filled(plan):
        windows = [part for own in plan.epoch(0, 0) for part in plan.deal(own, 2)]
        return cost.sum() / sum(len(own) * cost[own].max(initial=0) for own in windows)

    cost = costs()
    assert filled(ByCost(cost, 8000)) > 0.93
    assert filled(ByCount(len(cost), 28)) < 0.6


def test_a_window_is_dealt_in_pieces_of_like_cost():
    plan = ByCost(costs(), 8000)
    for own in plan.epoch(0, 0):
        pieces = [plan.cost[part].sum() for part in plan.deal(own, 2)]
        assert max(pieces) - min(pieces) <= plan.cost[own].max()


def test_the_heaviest_share_is_no_lighter_than_any_share():
    plan = ByCost(costs(), 8000)
    order = np.argsort(-plan.cost)
    heaviest = plan.heaviest(order, 2)
    shares = [part for own in plan.epoch(0, 0) for part in plan.deal(own, 2)]
    assert plan.cost[heaviest].sum() >= 4000
    assert plan.cost[heaviest].min() * len(heaviest) >= max(plan.cost[s].max() for s in shares)


def test_ragged_index_gathers_nodes_of_repeated_and_empty_items():
    ptr = np.array([0, 2, 2, 5])
    where, sizes = ragged_index(ptr, np.array([2, 1, 0, 2]))
    assert where.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
    assert sizes.tolist() == [3, 0, 2, 3]
    where, sizes = ragged_index(ptr, np.array([], dtype=np.int64))
    assert where.tolist() == []


@pytest.mark.parametrize("words", [(0, 0, 0, 0, 0), (7, 3, 2**31, 1, 5), (2**32 - 1, 1), (2**32, 1), (2**70, 0, 9)])
def test_a_random_key_is_numpy_s_of_the_same_words(words):
    state = np.random.SeedSequence(list(words)).generate_state(1, np.uint64)
    assert random_key(*words) == int(state[0]) >> 1


def test_random_keys_differ_in_every_part():
    keys = {
        random_key(*k) for k in [(0, 0, 0, 0, 0), (1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1)]
    }
    assert len(keys) == 5
    assert all(0 <= k < 2**63 for k in keys)
