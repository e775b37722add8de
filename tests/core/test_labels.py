from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from zoo.core.labels import check_trainable, parse_labels
from zoo.core.node_labels import parse_node_labels
from zoo.core.table import Table
from zoo.core.types import Labels
from zoo.errors import DataError
from zoo.specs.target import TargetSpec


def table_of(cells):
    return Table(pd.DataFrame({"y": cells}, dtype=str), Path("t.csv"), np.arange(len(cells)) + 2, "0" * 64)


def target(kind="regression", **more):
    return TargetSpec(name="y", level=more.pop("level", "molecule"), kind=kind, **more)


def parse(cells, spec):
    return parse_labels(cells, spec, table_of(cells))


def test_numbers_and_missing_markers():
    cells = ["1.5", " -2 ", "1e-3", "+.5", "3.", "", " ", "nan", "NaN", "NA", "n/a", "null", "None", "-", "#N/A"]
    found = parse(cells, target())
    assert found.values.shape == found.mask.shape == (15, 1)
    assert found.values[:5, 0].tolist() == [1.5, -2.0, 0.001, 0.5, 3.0]
    assert found.mask[:, 0].tolist() == [True] * 5 + [False] * 10
    assert found.values[5:].tolist() == [[0.0]] * 10
    assert found.problems == []


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (">5.0", "'>5.0' is a censored label; --set censoring=mask"),
        ("<= 0.1", "censored"),
        ("~3", "censored"),
        ("inf", "'inf' is not finite"),
        ("-Infinity", "not finite"),
        ("1e999", "not finite"),
        ("1_000", "'1_000' is not a number"),
        ("3,5", r"'3,5' is not a number \(a decimal comma\? write a point\)"),
        ("abc", "'abc' is not a number"),
        ("x" * 50, "'" + "x" * 37 + r"\.\.\.' is not a number"),
    ],
)
def test_bad_numbers_name_row_and_line(cell, message):
    with pytest.raises(DataError, match=rf"(?s)t.csv: column 'y': 1 rows.*row 1 \(line 3\): .*{message}"):
        parse(["1", cell, "2"], target())


def test_all_bad_rows_are_counted_and_five_are_shown():
    cells = ["x"] * 7 + ["1"]
    with pytest.raises(DataError, match=r"(?s)7 rows.*row 4 \(line 6\).*and 2 more rows") as error:
        parse(cells, target())
    assert "row 5" not in str(error.value)


def test_censored_labels_are_masked_and_counted_on_request():
    found = parse(["1", ">5.0", "~ 3", "2"], target(censoring="mask"))
    assert found.mask[:, 0].tolist() == [True, False, False, True]
    assert [(p.row, p.value) for p in found.problems] == [(1, ">5.0"), (2, "~ 3")]


def test_log10_needs_labels_above_zero_and_leaves_them_raw():
    assert parse(["10", "0.1"], target(transform="log10")).values[:, 0].tolist() == [10.0, 0.1]
    with pytest.raises(DataError, match=r"(?s)2 rows.*row 1 \(line 3\): '0' is not above 0.*row 2.*'-1'"):
        parse(["10", "0", "-1"], target(transform="log10"))


@pytest.mark.parametrize(
    ("classes", "cells", "expected"),
    [
        (None, ["0", "1", "1.0", "0.", "True", "false", ""], [0, 1, 1, 0, 1, 0, None]),
        (["1", "2"], ["1", "2.0", "02"], [0, 1, 1]),
        (["no", "yes"], ["yes", " no ", "NA"], [1, 0, None]),
        (["none", "-"], ["none", "-", ""], [0, 1, None]),
    ],
)
def test_binary_classes(classes, cells, expected):
    found = parse(cells, target("binary", classes=classes))
    got = [int(v) if m else None for v, m in zip(found.values[:, 0], found.mask[:, 0], strict=True)]
    assert got == expected


def test_the_positive_class_is_index_one():
    spec = target("binary", classes=["BBB+", "BBB-"], positive="BBB+")
    assert parse(["BBB+", "BBB-"], spec).values[:, 0].tolist() == [1.0, 0.0]


def test_multiclass_labels_are_flat_integers():
    found = parse(["b", "c", "", "a"], target("multiclass", classes=["a", "b", "c"]))
    assert found.values.dtype == np.int64
    assert found.values.tolist() == [1, 2, 0, 0]
    assert found.mask.tolist() == [True, True, False, True]


def test_an_unknown_class_is_named_with_what_is_allowed():
    spec = target("binary", classes=["inactive", "active"])
    with pytest.raises(DataError, match=r"row 1 .*'Active' is none of the classes 'inactive', 'active'. Did you mean"):
        parse(["active", "Active"], spec)
    with pytest.raises(DataError, match="'2' is none of the classes '0', '1'"):
        parse(["2"], target("binary"))


def test_node_lists():
    cells = ["[1, null, 2.5]", "", '["NA", 3]', "not read", "[]"]
    found = parse_node_labels(cells, target(level="atom"), table_of(cells), np.array([3, 2, 2, -1, 0]))
    assert found[0].values.tolist() == [1.0, 0.0, 2.5]
    assert found[0].mask.tolist() == [True, False, True]
    assert found[1] is None
    assert found[3] is None
    assert found[2].mask.tolist() == [False, True]
    assert found[4].values.shape == (0,)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("[1, 2]", "the list has 2 values, the input has 3 atoms"),
        ("1, 2, 3", "is not a JSON list"),
        ('{"a": 1}', "is not a list"),
        ("[1, 2, [3]]", r"atom 2: '\[3\]' is not a number"),
        ('[1, ">2", 3]', "atom 1: '>2' is a censored label"),
        ("[1, 2, NaN, 4]", "the list has 4 values"),
        ("[1, Infinity, 4]", "atom 1: 'Infinity' is not finite"),
    ],
)
def test_bad_node_lists_name_row_line_and_atom(cell, message):
    cells = ["[1, 2, 3]", cell]
    with pytest.raises(DataError, match=rf"(?s)1 rows.*row 1 \(line 3\): .*{message}"):
        parse_node_labels(cells, target(level="atom"), table_of(cells), np.array([3, 3]))


def test_censored_nodes_are_masked_on_request():
    cells = ['[1, ">2"]']
    found = parse_node_labels(cells, target(level="atom", censoring="mask"), table_of(cells), np.array([2]))
    assert found[0].mask.tolist() == [True, False]
    assert found[0].censored == 1


def labels(values, mask=None, ptr=None):
    values = np.asarray(values, dtype=float).reshape(-1, 1)
    mask = np.ones_like(values, dtype=bool) if mask is None else np.asarray(mask).reshape(-1, 1)
    return Labels(values, mask, ptr=ptr)


def test_untrainable_targets():
    check_trainable(target(), labels([1, 2]))
    with pytest.raises(DataError, match="every label of column 'y' is missing"):
        check_trainable(target(), labels([1, 2], [False, False]))
    with pytest.raises(DataError, match="all 2 labels of column 'y' are 3,"):
        check_trainable(target(), labels([3, 3, 9], [True, True, False]))
    with pytest.raises(DataError, match="all 2 labels of column 'y' are yes,"):
        check_trainable(target("binary", classes=["no", "yes"]), labels([1, 1]))


def test_untrainable_among_some_items():
    found = labels([3, 3, 9])
    check_trainable(target(), found, np.array([0, 2]))
    with pytest.raises(DataError, match="all 2 labels"):
        check_trainable(target(), found, np.array([0, 1]))
    nodes = labels([1, 2, 5, 5], ptr=np.array([0, 2, 4]))
    check_trainable(target(level="atom"), nodes, np.array([0]))
    with pytest.raises(DataError, match="all 2 labels"):
        check_trainable(target(level="atom"), nodes, np.array([1]))


def test_vectors_do_not_come_from_a_table():
    with pytest.raises(DataError, match="Allowed there: regression, binary, multiclass"):
        parse(["1"], target("vector"))
