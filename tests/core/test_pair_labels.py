from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from zoo.core.infer import infer_kind
from zoo.core.pair_labels import lay_pairs, parse_pairs
from zoo.core.table import Table
from zoo.errors import DataError
from zoo.specs.target import TargetSpec

TARGET = TargetSpec(name="touch", level="pair", kind="binary", min_separation=2)


def table_of(cells):
    return Table(pd.DataFrame({"touch": cells}), Path("t.csv"), np.arange(2, 2 + len(cells)), "")


def parse(cells, lengths):
    return parse_pairs(cells, TARGET, table_of(cells), np.asarray(lengths), "residue")


def lay(parsed, sizes, source=None, known=None, rows=None, inputs=None, separation=2):
    sizes = np.asarray(sizes)
    bounds = [np.concatenate([[0], np.cumsum(s)]) for s in (sizes, sizes**2)]
    source = np.concatenate([np.arange(n) for n in sizes]) if source is None else np.asarray(source)
    rows = [np.asarray([i]) for i in range(len(sizes))] if rows is None else rows
    inputs = inputs or [f"{i}" for i in range(len(parsed))]
    return lay_pairs(
        parsed, known, rows, inputs, ptr=bounds[0], source=source, pair_ptr=bounds[1], separation=separation
    )


def test_pairs_are_read_in_either_order_and_once():
    found = parse(["[[3, 0], [1, 2], [0, 3]]", "[]", "", "not read"], [4, 4, 4, -1])
    assert found[0].tolist() == [[0, 3], [1, 2]]
    assert found[1].shape == (0, 2)
    assert found[2:] == [None, None]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("0-3", "'0-3' is not a JSON list of pairs"),
        ('{"0": 3}', "is not a JSON list of pairs"),
        ("[0, 3]", r"pair 0: '0' is not \[i, j\], two whole numbers"),
        ("[[0, 3], [1, 2, 3]]", r"pair 1: '\[1, 2, 3\]' is not"),
        ("[[0, 1.5]]", "is not"),
        ("[[0, true]]", "is not"),
        ("[[0, 4]]", r"pair 0: \[0, 4\] is outside the input of 4 residues, whose positions are 0 to 3"),
        ("[[-1, 2]]", "is outside"),
        ("[[2, 2]]", r"pair 0: \[2, 2\] is one residue, not two"),
    ],
)
def test_a_bad_cell_names_file_row_and_pair(cell, message):
    with pytest.raises(DataError, match=rf"(?s)t.csv.*1 rows.*row 1 \(line 3\): .*{message}.*Correct these cells"):
        parse(["[[0, 3]]", cell], [4, 4])


def test_every_pair_counts_once_and_none_that_is_close_or_unknown():
    """Against all pairs one by one, for random items with removed nodes."""
    rng = np.random.default_rng(0)
    lengths, kept, parsed, known = [], [], [], {}
    for row in range(12):
        n = int(rng.integers(2, 9))
        keep = np.flatnonzero(rng.random(n) < 0.8)
        lengths.append(n)
        kept.append(keep if len(keep) else np.asarray([0]))
        pairs = np.asarray([(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.4], int)
        parsed.append(None if row == 5 else pairs.reshape(-1, 2))
        known[row] = rng.random(n) < 0.7
    found = lay(parsed, [len(k) for k in kept], np.concatenate(kept), known)
    start = removed = close = 0
    for row, own in enumerate(kept):
        contacts = set() if parsed[row] is None else set(map(tuple, parsed[row].tolist()))
        for a, i in enumerate(own.tolist()):
            for b, j in enumerate(own.tolist()):
                at = start + a * len(own) + b
                valid = parsed[row] is not None and j - i >= 2 and known[row][i] and known[row][j]
                assert found.labels.mask[at, 0] == valid
                assert found.labels.values[at, 0] == (valid and (i, j) in contacts)
        start += len(own) ** 2
        close += sum(j - i < 2 for i, j in contacts)
        removed += sum(j - i >= 2 and not {i, j} <= set(own.tolist()) for i, j in contacts)
    assert (found.close, found.removed) == (close, removed)
    assert start == len(found.labels.values) == found.labels.ptr[-1]
    assert 0 < found.labels.values.sum() < found.labels.mask.sum()
    assert found.labels.values.itemsize + found.labels.mask.itemsize == 3


def test_nodes_in_another_order_keep_their_pairs():
    """What an item's nodes are called does not matter, only where they stand in the input."""
    found = lay([np.asarray([[0, 2]])], [3], source=[2, 0, 1])
    assert np.argwhere(found.labels.mask.reshape(3, 3)).tolist() == [[1, 0]]  # input 0 is node 1, input 2 is node 0
    assert found.labels.values.reshape(3, 3)[1, 0] == 1


def test_duplicates_take_the_pairs_of_the_first_row_that_is_written_alike():
    pairs = [None, np.asarray([[0, 2]]), np.asarray([[1, 3]]), np.asarray([[0, 3]])]
    rows = [np.arange(4)]
    found = lay(pairs, [4], rows=rows, inputs=["MKTA", "mkta", "MKTA", "MKTA"])
    assert np.argwhere(found.labels.values.reshape(4, 4)).tolist() == [[1, 3]]
    assert found.unused_rows == [1, 3]


def test_a_column_of_pairs_is_told_from_one_of_labels():
    cells = ["[]", "[[0, 9], [1, 12]]", "", "[ [2, 8] ]"]
    found = infer_kind(cells, "touch", table_of(cells))
    assert (found.kind, found.pairs, found.nodes) == ("binary", True, False)
    assert not infer_kind(["[0, 1]", "[1, 0]"], "touch", table_of(cells)).pairs


@pytest.mark.parametrize(
    "wrong",
    [
        {"level": "residue", "kind": "binary", "min_separation": 6},
        {"level": "pair", "kind": "regression"},
        {"level": "pair", "kind": "binary", "classes": ["no", "yes"]},
        {"level": "pair", "kind": "binary", "min_separation": 0},
    ],
)
def test_what_a_target_of_pairs_may_say(wrong):
    with pytest.raises(ValidationError):
        TargetSpec(name="touch", **wrong)
