from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from zoo.core.node_labels import mask_unknown, parse_node_labels
from zoo.core.table import Table
from zoo.errors import DataError
from zoo.specs.target import TargetSpec

STATES = ["C", "E", "H"]


def target(kind="multiclass", classes=STATES, **more):
    return TargetSpec(name="ss", level="residue", kind=kind, classes=classes, mask_column="resolved", **more)


def table_of(cells):
    return Table(pd.DataFrame({"ss": cells}), Path("t.csv"), np.arange(2, 2 + len(cells)), "")


def parse(cells, lengths, spec=None):
    return parse_node_labels(cells, spec or target(), table_of(cells), np.asarray(lengths))


def test_strings_of_letters_are_lists_of_classes():
    found = parse(["HHEC", '["H", null, "E", "C"]', "H-?C", "", "not read"], [4, 4, 4, 4, -1])
    assert found[0].values.tolist() == [2, 2, 1, 0]
    assert found[0].values.dtype == np.int64
    assert found[1].values.tolist() == [2, 0, 1, 0]
    assert found[1].mask.tolist() == [True, False, True, True]
    assert found[2].mask.tolist() == [True, False, False, True]
    assert found[3] is None
    assert found[4] is None


def test_a_binary_string_counts_the_positive_class():
    found = parse(["0110"], [4], target("binary", ["0", "1"]))
    assert found[0].values.tolist() == [0.0, 1.0, 1.0, 0.0]
    found = parse(["NP", "NA"], [2, 2], target("binary", ["N", "P"], positive="N"))
    assert found[0].values.tolist() == [1.0, 0.0]
    assert found[1] is None  # NA is missing, unless A is a class too
    assert parse(["NA"], [2], target("binary", ["N", "A"]))[0].mask.all()


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("HHE", "the string has 3 values, the input has 4 residues"),
        ("HHECC", "the string has 5 values, the input has 4 residues"),
        ('["H", "E"]', "the list has 2 values, the input has 4 residues"),
        ("HHGC", "residue 2: 'G' is none of the classes 'C', 'E', 'H'"),
        ("HHeC", "residue 2: 'e' is none of the classes 'C', 'E', 'H'. Did you mean 'E'"),
    ],
)
def test_bad_strings_name_row_line_and_residue(cell, message):
    with pytest.raises(DataError, match=rf"(?s)1 rows.*row 1 \(line 3\): .*{message}"):
        parse(["HHEC", cell], [4, 4])


def test_longer_names_need_a_list():
    with pytest.raises(DataError, match="'HHEC' is not a JSON list"):
        parse(["HHEC"], [4], target(classes=["coil", "helix"]))


def test_unknown_nodes_are_masked_and_counted():
    given = parse(["HHEC", "H-EC", "", "HH"], [4, 4, 4, 2])
    found, masked = mask_unknown(given, ["0110", "[1, 1, false, true]", "", "11"], target(), table_of([""] * 4))
    assert found[0].mask.tolist() == [False, True, True, False]
    assert found[0].values.tolist() == [0, 2, 1, 0]
    assert found[1].mask.tolist() == [True, False, False, True]
    assert found[2] is None
    assert found[3].mask.all()
    assert masked == 3


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("011", "the string has 3 values, the input has 4 residues"),
        ("", "the string has 0 values"),
        ("01X1", "residue 2: neither 1 nor 0 in '01X1'"),
    ],
)
def test_bad_masks_are_named(cell, message):
    with pytest.raises(DataError, match=rf"(?s)'resolved': 1 rows do not say which labels of 'ss'.*row 1.*{message}"):
        mask_unknown(parse(["HHEC", "HHEC"], [4, 4]), ["1111", cell], target(), table_of(["", ""]))


def test_only_levels_with_many_labels_have_a_mask():
    with pytest.raises(ValidationError, match="`mask_column` needs a level with many labels an item, not 'sequence'"):
        TargetSpec(name="y", level="sequence", kind="regression", mask_column="resolved")
