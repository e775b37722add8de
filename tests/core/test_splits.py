import hashlib
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from zoo.core.domain import Domain
from zoo.core.parts import official_parts
from zoo.core.records import Records
from zoo.core.report import Report
from zoo.core.splits import assign, make_split
from zoo.core.table import Table
from zoo.errors import DataError, InputError
from zoo.specs.task import SplitSpec


def first_letter(inputs, *, seed, options):
    return [text[0] for text in inputs]


DOMAIN = Domain(
    name="toy",
    item_level="item",
    node_levels=(),
    input_kind="text",
    featuriser="toy",
    featuriser_version=1,
    featuriser_options={},
    featurise=lambda inputs, options: None,
    architectures={},
    baselines={},
    splitters={"letter": "first_letter_splitter:first_letter"},
)


@pytest.fixture(autouse=True)
def _splitter(monkeypatch):
    module = types.ModuleType("first_letter_splitter")
    module.first_letter = first_letter
    monkeypatch.setitem(sys.modules, "first_letter_splitter", module)


def records_of(rows, keys=None, groups=None, n_rows=None):
    rows = [np.asarray(r) for r in rows]
    keys = keys or [f"k{i}" for i in range(len(rows))]
    n_rows = n_rows or max(int(r.max()) for r in rows) + 1
    return Records(None, rows, keys, {}, groups, None, None, [], list(keys), n_rows, Report())


def singles(n):
    return records_of([[i] for i in range(n)])


def make(spec, seed, records, **more):
    return make_split(spec, seed, records, records.inputs, domain=DOMAIN, **more)


RANDOM = SplitSpec(method="random")


def test_random_parts_have_exact_sizes_and_cover_everything():
    split = make(RANDOM, 0, singles(103))
    assert split.sizes == {"train": 83, "val": 10, "test": 10}
    assert sorted(np.concatenate(list(split.parts.values()))) == list(range(103))
    assert all((np.diff(index) > 0).all() for index in split.parts.values())
    assert (split.method, split.seed) == ("random", 0)


@pytest.mark.parametrize("n", [3, 4, 5, 9, 11])
def test_small_sets_fill_every_part(n):
    sizes = make(RANDOM, 0, singles(n)).sizes
    assert set(sizes) == {"train", "val", "test"}
    assert sum(sizes.values()) == n


def test_all_four_parts():
    fractions = {"train": 0.5, "val": 0.2, "calibration": 0.2, "test": 0.1}
    assert make(SplitSpec(method="random", fractions=fractions), 0, singles(40)).sizes == {
        "train": 20,
        "val": 8,
        "calibration": 8,
        "test": 4,
    }


def test_a_seed_is_a_split_and_other_seeds_are_others():
    one, same, other = (make(RANDOM, seed, singles(200)) for seed in (1, 1, 2))
    assert one.hash == same.hash != other.hash
    assert one.parts["test"].tolist() == same.parts["test"].tolist() != other.parts["test"].tolist()


def test_a_split_is_the_same_in_another_process():
    code = (
        "from zoo.core.splits import assign; import numpy as np;"
        "print(''.join(p[1] for p in assign("
        "[str(i) for i in range(30)], np.arange(30), {'train': 0.8, 'test': 0.2}, 7)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    parts = assign([str(i) for i in range(30)], np.arange(30), {"train": 0.8, "test": 0.2}, 7)
    assert found == "".join(p[1] for p in parts)
    # drawn once and kept: a released split must never change
    assert [row for row in range(30) if parts[row] == "test"] == [7, 8, 9, 13, 14, 23]


def test_every_item_is_in_each_part_equally_often():
    times = Counter()
    for seed in range(300):
        times.update(make(RANDOM, seed, singles(10)).parts["test"].tolist())
    assert sum(times.values()) == 300
    assert all(12 <= times[i] <= 55 for i in range(10))  # 30 expected, standard deviation 5.2


def test_the_hash_is_that_of_all_rows_with_their_parts():
    records = records_of([[0, 5], [1], [3], [4]], n_rows=7)
    split = make(RANDOM, 0, records)
    part = {item: name for name, index in split.parts.items() for item in index}
    lines = [(0, part[0]), (1, part[1]), (3, part[2]), (4, part[3]), (5, part[0])]
    assert split.hash == hashlib.sha256("".join(f"{r},{p}\n" for r, p in lines).encode()).hexdigest()


def test_keys_and_groups_stay_together():
    keys = [f"k{i // 2}" for i in range(60)]
    groups = [f"g{i // 6}" for i in range(60)]
    for seed in range(10):
        split = make(RANDOM, seed, records_of([[i] for i in range(60)], keys, groups))
        part = {item: name for name, index in split.parts.items() for item in index}
        for i in range(60):
            assert part[i] == part[i - i % 6]
        assert split.sizes == {"train": 48, "val": 6, "test": 6}


def test_a_domains_labels_stay_together():
    keys = [f"{'abcdefghij'[i % 10]}{i}" for i in range(50)]
    split = make(SplitSpec(method="letter"), 0, records_of([[i] for i in range(50)], keys))
    letters = {name: {keys[i][0] for i in index} for name, index in split.parts.items()}
    assert split.sizes == {"train": 40, "val": 5, "test": 5}
    assert letters["train"].isdisjoint(letters["test"] | letters["val"])
    assert letters["test"].isdisjoint(letters["val"])


def test_large_blocks_go_to_train_first():
    blocks = ["big"] * 60 + ["middle"] * 8 + [f"s{i}" for i in range(32)]
    for seed in range(20):
        parts = assign(blocks, np.arange(100), {"train": 0.8, "val": 0.1, "test": 0.1}, seed)
        assert set(parts[:68]) == {"train"}
        assert Counter(parts) == {"train": 80, "val": 10, "test": 10}


def test_a_block_larger_than_train_still_leaves_the_other_parts_filled():
    parts = assign(
        ["big"] * 95 + [f"s{i}" for i in range(5)], np.arange(100), {"train": 0.8, "val": 0.1, "test": 0.1}, 0
    )
    assert set(parts[:95]) == {"train"}
    assert set(parts[95:]) == {"val", "test"}


def test_too_few_blocks_leave_a_part_empty_which_is_an_error():
    records = records_of([[i] for i in range(10)], groups=["a"] * 5 + ["b"] * 5)
    with pytest.raises(
        DataError, match=r"split 'random' of 10 items leaves (val|test|val, test) empty. Give more rows"
    ):
        make(RANDOM, 0, records)


@pytest.mark.parametrize("rows", [[], [[0]]])
def test_one_row_cannot_be_divided(rows):
    with pytest.raises(DataError, match=r"only . usable row"):
        make(RANDOM, 0, records_of(rows, n_rows=1))


def test_unknown_methods_and_parts():
    with pytest.raises(InputError, match=r"unknown split method 'leter'\. Did you mean 'letter'"):
        make(SplitSpec(method="leter"), 0, singles(10))


COLUMN = SplitSpec(method="column", column="set")


def test_column():
    split = make(COLUMN, 0, records_of([[0, 3], [1], [4]], n_rows=5), column=["train", "Valid", "?", " train ", "TEST"])
    assert {p: i.tolist() for p, i in split.parts.items()} == {"train": [0], "val": [1], "test": [2]}


def test_column_of_items_instead_of_rows():
    split = make(COLUMN, 0, records_of([[0, 3], [1], [4]], n_rows=5), column=["train", "val", "test"])
    assert {p: i.tolist() for p, i in split.parts.items()} == {"train": [0], "val": [1], "test": [2]}


def test_column_errors():
    records = records_of([[0, 3], [1], [4]], n_rows=5)
    with pytest.raises(DataError, match=r"2 rows name no part \(row 1: '', row 4: 'tset'\). Parts are train, val"):
        make(COLUMN, 0, records, column=["train", "", "", "train", "tset"])
    with pytest.raises(DataError, match=r"1 duplicates stand in more than one part \(row 0 train, row 3 test\)"):
        make(COLUMN, 0, records, column=["train", "val", "", "test", "test"])
    with pytest.raises(DataError, match="leaves test empty"):
        make(COLUMN, 0, records, column=["train", "val", "", "train", "val"])
    with pytest.raises(DataError, match=r"one part per data row is needed \(5\), got 4"):
        make(COLUMN, 0, records, column=["train"] * 4)


def test_keys_and_groups_that_straddle_are_an_error_unless_allowed():
    column = ["train", "test", "val", "train"]
    twins = records_of([[i] for i in range(4)], keys=["a", "a", "b", "c"])
    with pytest.raises(DataError, match=r"tears duplicates apart \(row 0 train, row 1 test\)"):
        make(COLUMN, 0, twins, column=column)
    grouped = records_of([[i] for i in range(4)], groups=["g", "h", "i", "i"])
    with pytest.raises(DataError, match=r"tears groups apart \(row 2 val, row 3 train\)"):
        make(COLUMN, 0, grouped, column=column)
    allowed = SplitSpec(method="column", column="set", overlap="allow", reason="the official split")
    assert make(allowed, 0, twins, column=column).sizes == {"train": 2, "val": 1, "test": 1}


def test_a_written_split_is_read_back_and_wins(tmp_path):
    records = records_of([[0, 5], [1], [3], [4]], n_rows=7)
    spec = SplitSpec(method="random", file="s_{seed}.csv")
    computed = make(spec, 3, records, folder=tmp_path)
    moved = {"train": computed.parts["test"], "val": computed.parts["val"], "test": computed.parts["train"]}
    type(computed)(moved, "random", 3, "").write(tmp_path / "s_3.csv", records)
    read = make(spec, 3, records, folder=tmp_path)
    assert read.parts["test"].tolist() == computed.parts["train"].tolist()
    body = (tmp_path / "s_3.csv").read_text().removeprefix("row,part\n")
    assert read.hash == hashlib.sha256(body.encode()).hexdigest()
    assert [line.split(",")[0] for line in body.splitlines()] == ["0", "1", "3", "4", "5"]
    assert make(spec, 4, records, folder=tmp_path).sizes == computed.sizes  # no file of that seed: computed


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("0,train\n1,test\n", r"1 data rows with a usable input and label are not in the split file \(rows 3\)"),
        ("0,train\n1,test\n2,val\n3,val\n", r"1 rows of the split file have no usable input or label \(rows 2\)"),
        ("0,train\n1,tst\n3,val\n", r"row 1 \(line 3\): 'tst' is not a part. Did you mean 'test'\?"),
        ("0,train\n1,test\n3,val\n1,val\n", "row 1 stands twice"),
        ("0,train\n1,test\n3,val\n99,val\n", r"'99' is not a row of the data \(0 to 3\)"),
        ("0,train\n1,train\n3,val\n", "leaves test empty"),
    ],
)
def test_files_that_do_not_fit(tmp_path, body, message):
    (tmp_path / "s.csv").write_text("row,part\n" + body)
    spec = SplitSpec(method="random", file="s.csv")
    with pytest.raises(DataError, match=f"(?s){message}"):
        make(spec, 0, records_of([[0], [1], [3]]), folder=tmp_path)


def test_a_users_file_may_list_rows_that_cannot_be_used(tmp_path):
    (tmp_path / "s.csv").write_text("row,part\n0,train\n1,test\n2,val\n3,val\n")
    spec = SplitSpec(method="file", file=str(tmp_path / "s.csv"))
    assert make(spec, 0, records_of([[0], [1], [3]])).sizes == {"train": 1, "val": 1, "test": 1}
    with pytest.raises(DataError, match="no such split file"):
        make(SplitSpec(method="file", file="absent.csv"), 0, singles(5), folder=tmp_path)


def table_of(**columns):
    n = len(next(iter(columns.values())))
    return Table(pd.DataFrame(columns, dtype=str), Path("t.csv"), np.arange(2, 2 + n), "")


def test_a_second_column_marks_the_rows_that_validate():
    table = table_of(set=["train", "train", "test", "Train"], v=["False", "True", "", "1"], w=["", "yes", "", ""])
    spec = SplitSpec(method="column", column="set", val_column="v")
    assert official_parts(spec, table) == ["train", "val", "test", "val"]
    assert official_parts(SplitSpec(method="column", column="set"), table) == table.column("set")
    with pytest.raises(DataError, match=r"(?s)column 'w' .*row 1 \(line 3\): 'yes' is neither true nor false"):
        official_parts(spec.model_copy(update={"val_column": "w"}), table)
    with pytest.raises(DataError, match=r"(?s)row 0 \(line 2\): a row of the part 'test' cannot validate"):
        official_parts(spec, table_of(set=["test"], v=["true"]))
    with pytest.raises(ValidationError, match="`val_column` goes with method 'column'"):
        SplitSpec(method="random", val_column="v")
