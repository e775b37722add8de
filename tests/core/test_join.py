import pytest

from zoo.core.join import join, rename
from zoo.core.table import read_table
from zoo.errors import DataError


@pytest.fixture
def read(tmp_path):
    def make(name, text):
        (tmp_path / name).write_text(text)
        return read_table(tmp_path / name)

    return make


def test_columns_come_to_the_row_of_their_id(read):
    sequences = read("s.fasta", ">a\nMK\n>b\nGG\n>c\nAAA\n")
    labels = rename(read("l.fasta", ">c SET=test\nHHH\n>a SET=train\nCC\n"), {"sequence": "ss", "SET": "set"})
    more = read("m.csv", "id,y\nb,2\nc,3\na,1\n")
    table = join([sequences, labels, more], "id")
    assert table.columns == ["id", "sequence", "ss", "set", "y"]
    assert table.column("sequence") == ["MK", "GG", "AAA"]
    assert table.column("ss") == ["CC", "", "HHH"]
    assert table.column("set") == ["train", "", "test"]
    assert table.column("y") == ["1", "2", "3"]
    assert table.path.name == "s.fasta"
    assert table.where(2) == "row 2 (line 5, 'c')"
    assert table.origin("ss").path.name == "l.fasta"
    assert table.origin("ss").where(2) == "row 2 (line 1, 'c')"
    assert table.origin("y").where(0) == "row 0 (line 4, 'a')"
    assert table.origin("sequence") is table


def test_rename_refuses_what_is_not_there_or_there_twice(read):
    table = read("a.csv", "id,y\na,1\n")
    with pytest.raises(DataError, match="no column 'z'"):
        rename(table, {"z": "x"})
    with pytest.raises(DataError, match="two columns are called 'id'"):
        rename(table, {"y": "id"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,y\na,1\nd,2\n", r"(?s)l.csv: 1 ids do not stand in .*s.csv.*row 1 \(line 3\): 'd' is not there"),
        (
            "id,y\na,1\na,2\n",
            r"(?s)l.csv: column 'id': 1 rows have no id of their own.*row 1 \(line 3\): the id 'a' is",
        ),
        ('id,y\n" ",1\n', r"row 0 \(line 2\): the id is blank"),
        ("id,x\na,1\n", r"l.csv: the column 'x' stands in another file too"),
        ("name,y\na,1\n", r"l.csv: no column 'id'"),
    ],
)
def test_ids_that_do_not_fit(read, text, message):
    with pytest.raises(DataError, match=message):
        join([read("s.csv", "id,x\na,1\nb,2\n"), read("l.csv", text)], "id")
