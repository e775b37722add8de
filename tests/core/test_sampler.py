"""Order and windows."""

import numpy as np
import pytest

from zoo.core.datamodule import random_key
from zoo.core.ragged import ragged_index
from zoo.core.sampler import epoch_order, n_windows, window_parts


def test_order_is_a_pure_function_of_seed_and_epoch():
    a, b = epoch_order(100, 3, 7), epoch_order(100, 3, 7)
    assert (a == b).all()
    assert sorted(a) == list(range(100))
    assert (epoch_order(100, 3, 8) != a).any()
    assert (epoch_order(100, 4, 7) != a).any()


@pytest.mark.parametrize(("n", "batch", "parts"), [(10, 4, 1), (10, 4, 3), (9, 4, 4), (3, 8, 8), (1, 1, 1)])
def test_windows_cover_each_item_once(n, batch, parts):
    order = epoch_order(n, 0, 0)
    windows = [window_parts(order, w, batch, parts) for w in range(n_windows(n, batch))]
    assert all(len(w) == parts for w in windows)
    assert np.concatenate([p for w in windows for p in w]).tolist() == order.tolist()
    assert max(sum(map(len, w)) for w in windows) <= batch


def test_ragged_index_gathers_nodes_of_repeated_and_empty_items():
    ptr = np.array([0, 2, 2, 5])
    where, sizes = ragged_index(ptr, np.array([2, 1, 0, 2]))
    assert where.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
    assert sizes.tolist() == [3, 0, 2, 3]
    where, sizes = ragged_index(ptr, np.array([], dtype=np.int64))
    assert where.tolist() == []


def test_random_keys_differ_in_every_part():
    keys = {
        random_key(*k) for k in [(0, 0, 0, 0, 0), (1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1)]
    }
    assert len(keys) == 5
    assert all(0 <= k < 2**63 for k in keys)
