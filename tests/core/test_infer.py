import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from zoo.core.infer import infer_kind
from zoo.core.table import Table
from zoo.errors import DataError


def table_of(cells):
    return Table(pd.DataFrame({"y": cells}, dtype=str), Path("t.csv"), np.arange(len(cells)) + 2, "0" * 64)


def infer(cells, lengths=None):
    return infer_kind(cells, "y", table_of(cells), lengths)


@pytest.mark.parametrize(
    ("cells", "kind", "classes", "reason"),
    [
        (["1.5", "2", "", "NA"], "regression", None, "2 different numbers from 1.5 to 2"),
        (["0", "1", "1.0", ""], "binary", None, "only 0 and 1"),
        (["-1", "1", "1"], "binary", ["-1", "1"], "only two whole numbers"),
        (["1", "2", "3"] * 5, "multiclass", ["1", "2", "3"], "3 consecutive whole numbers"),
        (["1", "2", "3"] * 2, "regression", None, "3 different numbers"),
        (["10", "20", "30"] * 9, "regression", None, "3 different numbers"),
        ([str(i) for i in range(11)] * 9, "regression", None, "11 different numbers"),
        (["1.5", "2.5"] * 9, "regression", None, "2 different numbers"),
        ([">5.0", "1"], "regression", None, "some of them censored"),
        (["b", "a", "a", ""], "binary", ["a", "b"], r"2 different words: 'a' \(2\), 'b' \(1\)"),
        (["b", "a", "c"], "multiclass", ["a", "b", "c"], "3 different words"),
        (["True", "False"], "binary", ["False", "True"], "2 different words"),
    ],
)
def test_kinds_are_inferred_with_a_reason(cells, kind, classes, reason):
    found = infer(cells)
    assert (found.kind, found.classes, found.nodes) == (kind, classes, False)
    assert re.search(reason, found.reason)


@pytest.mark.parametrize(
    ("words", "positive"),
    [
        (["active", "inactive"], "active"),
        (["BBB+", "BBB-"], "BBB+"),
        (["no", "yes"], "yes"),
        (["false", "true"], "true"),
        (["a", "b"], "b"),
    ],
)
def test_the_positive_class_is_the_one_that_says_yes(words, positive):
    assert infer(words).positive == positive


def test_lists_are_node_labels():
    found = infer(["[1.5, null]", "", "[2, 3]"])
    assert (found.kind, found.nodes) == ("regression", True)
    assert infer(["[0, 1]", "[1, null]"]).kind == "binary"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["---.", "--..-"], "every label of column 'y' is missing"),
        (["HH-H", "H-?HH"], "all 6 labels of column 'y' are 'H'"),
    ],
)
def test_letters_that_are_no_target(cells, message):
    with pytest.raises(DataError, match=message):
        infer(cells, lengths={0: 4, 1: 5})


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["", "NA"], "every label of column 'y' is missing"),
        (["[null]", "[]"], "every label of column 'y' is missing"),
        (["2", "2", ""], "all 2 labels of column 'y' are '2'"),
        (["1", "2", "3", "soluble"], r"mixes numbers \(3 labels\) with text \(1 labels\).*row 3 \(line 5\): 'soluble'"),
        (["a", "b", "c", "7"], r"mixes numbers \(1 labels\) with text \(3 labels\).*row 3 \(line 5\): '7'"),
        ([f"word {i}" for i in range(21)], "holds 21 different texts, which is too many for classes"),
    ],
)
def test_columns_that_are_no_target(cells, message):
    with pytest.raises(DataError, match=f"(?s){message}"):
        infer(cells)
