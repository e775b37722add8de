import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from zoo.core.records import assemble, connected
from zoo.core.table import Table
from zoo.core.types import Featurised, RowProblem
from zoo.errors import DataError, InputError
from zoo.specs.dataset import ColumnSpec, DatasetSpec, FileSpec
from zoo.specs.target import TargetSpec


@dataclass
class Words:
    """Items of a toy domain: an input is a word; its capitals are removed, and its letters are turned round."""

    words: list[str]

    def __len__(self):
        return len(self.words)

    def subset(self, index):
        return Words([self.words[i] for i in index])

    def _kept(self):
        return [[i for i, letter in enumerate(w) if letter.islower()][::-1] for w in self.words]

    def node_ptr(self, level):
        return np.cumsum([0, *(len(k) for k in self._kept())])

    def node_source(self, level):
        return np.asarray([i for k in self._kept() for i in k], dtype=np.int64)

    def n_source(self, level):
        return np.asarray([len(w) for w in self.words])


def featurise(words):
    """Sorted small letters are the key; a word with a digit cannot be read."""
    good = [i for i, w in enumerate(words) if w.isalpha()]
    bad = [RowProblem(i, w, "not a word") for i, w in enumerate(words) if not w.isalpha()]
    keys = ["".join(sorted(c for c in words[i] if c.islower())) for i in good]
    return Featurised(np.asarray(good, dtype=np.int64), keys, Words([words[i] for i in good]), bad, {"turned round": 2})


def dataset(**roles):
    columns = [ColumnSpec(name="word", role="input", kind="text")]
    columns += [ColumnSpec(name=n, role=r, kind="number") for n, r in roles.items()]
    file = FileSpec(name="t.csv", sha256="0" * 64, bytes=1, rows=1)
    return DatasetSpec(
        name="toy",
        title="",
        domain="molecules",
        files=[file],
        columns=columns,
        licence="CC0-1.0",
        source="",
        citation="",
    )


def target(name="y", kind="regression", **more):
    return TargetSpec(name=name, level=more.pop("level", "molecule"), kind=kind, **more)


def build(columns, targets, *, roles=None, duplicates="mean", **more):
    frame = pd.DataFrame(columns, dtype=str)
    table = Table(frame, Path("t.csv"), np.arange(len(frame)) + 2, "0" * 64)
    spec = dataset(**(roles or {}))
    return assemble(table, spec, targets, featurise(columns["word"]), duplicates=duplicates, **more)


def test_items_rows_and_labels():
    records = build({"word": ["ab", "x1", "cd", "ba", "ef"], "y": ["1", "2", "3", "1", ""]}, [target()])
    assert [r.tolist() for r in records.rows] == [[0, 3], [2]]
    assert records.keys == ["ab", "cd"]
    assert records.inputs == ["ab", "cd"]
    assert records.items.words == ["ab", "cd"]
    assert records.first_rows.tolist() == [0, 2]
    assert records.labels["y"].values.tolist() == [[1.0], [3.0]]
    assert records.labels["y"].mask.all()
    assert records.report.counts == {"rows": 5, "items": 2, "duplicate rows merged": 1, "rows dropped": 2}
    assert [(p.row, p.reason) for p in records.report.dropped] == [(1, "not a word"), (4, "no label in any target")]
    assert records.report.merged == []
    assert records.report.notes == {"turned round": 2}


@pytest.mark.parametrize(
    ("policy", "value", "valid"),
    [("mean", 3.0, True), ("median", 2.0, True), ("first", 1.0, True), ("drop", 0.0, False)],
)
def test_policies_for_unequal_numbers(policy, value, valid):
    columns = {"word": ["ab", "ba", "ab", "ba", "cd"], "y": ["1", "2", "6", "", "5"], "z": ["1"] * 5}
    records = build(columns, [target(), target("z")], duplicates=policy)
    assert records.labels["y"].values.tolist() == [[value], [5.0]]
    assert records.labels["y"].mask.tolist() == [[valid], [True]]
    assert records.labels["z"].values.tolist() == [[1.0], [1.0]]
    (merged,) = records.report.merged
    assert (merged.rows, merged.target, merged.values, merged.spread) == ([0, 1, 2], "y", ["1", "2", "6"], 5.0)


def test_policy_error_names_the_rows():
    with pytest.raises(DataError, match=r"(?s)target 'y': 1 items.*row 0 \(line 2\): rows 0, 2 say 1, 2"):
        build({"word": ["ab", "cd", "ba"], "y": ["1", "1", "2"]}, [target()], duplicates="error")
    with pytest.raises(InputError, match="Did you mean 'mean'"):
        build({"word": ["ab"], "y": ["1"]}, [target()], duplicates="men")


@pytest.mark.parametrize(("policy", "value", "valid"), [("mean", 0, False), ("median", 0, False), ("first", 1, True)])
@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_classes_in_conflict_are_masked(policy, value, valid, kind):
    columns = {"word": ["ab", "ba", "cd", "dc"], "y": ["b", "a", "b", "b"]}
    spec = target(kind=kind, classes=["a", "b"])
    records = build({**columns, "z": ["1", "1", "2", "2"]}, [spec, target("z")], duplicates=policy)
    assert records.labels["y"].values.reshape(-1).tolist() == [value, 1]
    assert records.labels["y"].mask.reshape(-1).tolist() == [valid, True]
    assert records.report.merged[0].values == ["b", "a"]


def test_an_item_whose_only_label_was_masked_is_dropped():
    records = build({"word": ["ab", "cd", "ba"], "y": ["1", "1", "0"]}, [target(kind="binary")])
    assert records.keys == ["cd"]
    reason = "no label left: it differs from that of a duplicate"
    assert [(p.row, p.reason) for p in records.report.dropped] == [(0, reason), (2, reason)]


def test_a_label_is_taken_from_any_of_the_rows():
    columns = {"word": ["ab", "ba"], "y": ["", "4"], "z": ["7", "NA"]}
    records = build(columns, [target(), target("z")])
    assert records.labels["y"].values.tolist() == [[4.0]]
    assert records.labels["z"].values.tolist() == [[7.0]]
    assert records.report.merged == []


def test_rows_with_different_features_are_different_items():
    columns = {"word": ["ab", "ba", "ab"], "y": ["1", "2", "3"], "ph": ["7", "7.0", "5"]}
    records = build(columns, [target()], roles={"ph": "feature"})
    assert [r.tolist() for r in records.rows] == [[0, 1], [2]]
    assert records.keys == ["ab", "ab"]
    assert records.features.tolist() == [[7.0], [5.0]]
    assert records.feature_names == ["ph"]


def test_rows_kept_apart_are_different_items():
    columns = {"word": ["ab", "ba", "ab"], "y": ["1", "2", "3"]}
    records = build(columns, [target()], apart=["train", "test", "train"])
    assert [r.tolist() for r in records.rows] == [[0, 2], [1]]


@pytest.mark.parametrize("role", ["feature", "weight"])
@pytest.mark.parametrize("cell", ["", "NA", "x", "inf"])
def test_features_and_weights_must_be_numbers(role, cell):
    columns = {"word": ["ab", "x1", "cd"], "y": ["1", "2", "3"], "f": ["1", "", cell]}
    with pytest.raises(DataError, match=rf"(?s)column 'f' \(role {role}\): 1 rows.*row 2 \(line 4\): '{cell}' is not"):
        build(columns, [target()], roles={"f": role})


def test_weights_are_averaged_over_duplicates_and_ride_with_the_labels():
    columns = {"word": ["ab", "cd", "ba"], "y": ["1", "2", "1"], "w": ["1", "5", "2"]}
    records = build(columns, [target()], roles={"w": "weight"})
    assert records.weight.tolist() == [1.5, 5.0]
    assert records.labels["y"].weight.tolist() == [1.5, 5.0]
    with pytest.raises(DataError, match=r"(?s)at least 0.*row 1 \(line 3\): -5 is below 0"):
        build({**columns, "w": ["1", "-5", "2"]}, [target()], roles={"w": "weight"})
    with pytest.raises(DataError, match="every weight in column 'w' is 0"):
        build({**columns, "w": ["0"] * 3}, [target()], roles={"w": "weight"})


def test_groups_join_through_duplicates():
    columns = {"word": ["ab", "cd", "ba", "ef", "gh"], "y": ["1"] * 5, "g": ["p", "q", "q", "", ""]}
    records = build(columns, [target()], roles={"g": "group"})
    ab, cd, ef, gh = records.groups
    assert ab == cd  # "ab" stands in group p and in group q
    assert len({ab, ef, gh}) == 3  # a blank cell names no group


def test_connected_components():
    names = connected([["a"], ["b"], ["a", "c"], [], ["c", "d"], ["b"]])
    assert names[0] == names[2] == names[4]
    assert names[1] == names[5]
    assert len(set(names)) == 3


def test_node_labels_follow_the_items_order_and_removed_nodes_are_counted():
    columns = {"word": ["aXb", "cd", "ef"], "y": ["[1, 2, 3]", "[null, 5]", ""]}
    records = build(columns, [target(level="atom")])
    labels = records.labels["y"]
    assert labels.ptr.tolist() == [0, 2, 4]  # "ef" has no label and is dropped
    assert labels.values.tolist() == [[3.0], [1.0], [5.0], [0.0]]
    assert labels.mask.tolist() == [[True], [True], [True], [False]]
    assert records.report.counts["atom labels of y dropped, atom removed"] == 1


def test_node_labels_of_duplicates_are_not_mixed_between_orders():
    columns = {"word": ["ab", "ba", "cd", "cd"], "y": ["", "[1, 2]", "[3, 4]", "[5, 6]"], "z": ["1"] * 4}
    records = build(columns, [target(level="atom"), target("z")])
    assert records.labels["y"].values.tolist() == [[0.0], [0.0], [4.0], [3.0]]
    assert records.labels["y"].mask.tolist() == [[False], [False], [True], [True]]
    assert records.report.counts["duplicate rows without use of their atom labels of y"] == 2


def test_node_labels_of_a_row_written_alike_are_used():
    records = build({"word": ["ab", "ab"], "y": ["", "[1, 2]"]}, [target(level="atom")])
    assert records.labels["y"].values.tolist() == [[2.0], [1.0]]


def test_node_classes_are_flat():
    spec = target(level="residue", kind="multiclass", classes=["h", "e", "c"])
    labels = build({"word": ["ab", "cd"], "y": ['["h", "e"]', '["c", null]']}, [spec]).labels["y"]
    assert labels.values.tolist() == [1, 0, 0, 2]
    assert labels.mask.tolist() == [True, True, False, True]


def test_nothing_usable_is_an_error():
    with pytest.raises(DataError, match=r"(?s)no row has a usable input.*row 0 \(line 2\): not a word"):
        build({"word": ["1", "2"], "y": ["1", "2"]}, [target()])
    with pytest.raises(DataError, match="no row with a usable input has a label of 'y'"):
        build({"word": ["ab", "x1"], "y": ["", "2"]}, [target()])


def test_the_report_as_rows_and_as_text(tmp_path):
    columns = {"word": ["ab", "x1", "ba", "cd"], "y": ["1", "2", "3", ">5"], "z": ["1"] * 4}
    records = build(columns, [target(censoring="mask"), target("z")])
    rows = records.report.to_rows()
    assert [(r["row"], r["event"], r["target"], r["value"]) for r in rows] == [
        (0, "merged", "y", "1 | 3"),
        (1, "dropped", "", "x1"),
        (2, "merged", "y", "1 | 3"),
        (3, "masked", "", ">5"),
    ]
    with (tmp_path / "r.csv").open("w") as stream:
        csv.DictWriter(stream, list(rows[0])).writerows(rows)
    text = records.report.summary()
    assert text[0] == "4 rows, 2 items, 1 duplicate rows merged, 1 rows dropped"
    assert "dropped, not a word: 1 (row 1)" in text
    assert "censored labels masked: 1 (row 3)" in text
    assert "unequal labels of duplicates, target 'y': 1 items (mean taken); largest difference 2 (rows 0, 2)" in text
    assert "turned round: 2" in text
