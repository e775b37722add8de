import gzip
import lzma

import pytest

from zoo.core.table import read_table
from zoo.errors import DataError

TWO = ">a first one\nMKV\nLL\n>b\nGG\n"


def write(folder, data, name="t.fasta"):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_any_line_ends(tmp_path, end, mark):
    table = read_table(write(tmp_path, mark + TWO.replace("\n", end).encode()))
    assert table.column("id") == ["a", "b"]
    assert table.column("sequence") == ["MKVLL", "GG"]
    assert table.column("description") == ["first one", ""]
    assert table.lines.tolist() == [1, 4]
    assert table.where(1) == "row 1 (line 4, 'b')"


def test_packed_files_are_the_same(tmp_path):
    plain = read_table(write(tmp_path, TWO)).frame
    for suffix, pack in ((".gz", gzip.compress), (".xz", lzma.compress)):
        path = write(tmp_path, pack(TWO.encode()), f"t.faa{suffix}")
        assert read_table(path).frame.equals(plain)
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(DataError, match=rf"t.faa{suffix}: the compressed file is damaged"):
            read_table(path)


@pytest.mark.parametrize("name", ["t.fa", "t.FASTA", "t.txt", "noname"])
def test_fasta_is_told_by_name_or_first_letter(tmp_path, name):
    assert read_table(write(tmp_path, "\n" + TWO, name)).column("sequence") == ["MKVLL", "GG"]


def test_a_table_stays_one_though_it_holds_fasta_signs(tmp_path):
    assert read_table(write(tmp_path, "sequence,y\n>a,1\n", "t.csv")).columns == ["sequence", "y"]


def test_lines_inside_a_record_are_joined_without_white_space(tmp_path):
    table = read_table(write(tmp_path, "\n>a\n\nMK V\n\tLL  \n\n\n>b\n 12 MA*\n"))
    assert table.column("sequence") == ["MKVLL", "12MA*"]
    assert table.columns == ["id", "sequence"]


def test_records_without_a_sequence_keep_their_row(tmp_path):
    table = read_table(write(tmp_path, ">a\n>b\n\n>c\nMK\n>d"))
    assert table.column("id") == ["a", "b", "c", "d"]
    assert table.column("sequence") == ["", "", "MK", ""]
    assert table.lines.tolist() == [1, 2, 4, 6]


def test_fields_of_headers_become_columns(tmp_path):
    text = (
        ">sp|P1|A_B Some protein OS=Homo sapiens GN=abc PE=4\nMK\n"
        ">c\tSET=train  VALIDATION=False\nGG\n>d x=y PE=\nAA\n>e a 5->3 thing sequence=no\nAA\n"
    )
    table = read_table(write(tmp_path, text))
    assert table.columns == ["id", "sequence", "description", "OS", "GN", "PE", "SET", "VALIDATION", "x"]
    assert table.column("id") == ["sp|P1|A_B", "c", "d", "e"]
    assert table.column("OS") == ["Homo sapiens", "", "", ""]
    assert table.column("PE") == ["4", "", "", ""]
    assert table.column("SET") == ["", "train", "", ""]
    assert table.column("x") == ["", "", "y", ""]
    assert table.column("description") == ["Some protein", "", "", "a 5->3 thing sequence=no"]
    assert table.column("sequence") == ["MK", "GG", "AA", "AA"]


def test_one_id_twice_names_both_lines(tmp_path):
    with pytest.raises(DataError, match=r"(?s)t.fasta: 1 records have the id of an earlier one.*'a' on lines 1 and 5"):
        read_table(write(tmp_path, ">a\nMK\n>b\nMK\n>a again\nGG\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MKV\n>a\nGG\n", r"line 1: FASTA begins with '>', here stands 'MKV'"),
        (">a\nMK\n>\nGG\n", r"line 3: a record without a name. Write an id after the '>'"),
        (">a\nMK\n>  \n", r"line 3: a record without a name"),
        ("\n\n", r"the file holds no record. A record is a line '>id'"),
    ],
)
def test_what_is_no_fasta(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_table(write(tmp_path, text))


def test_another_alphabet_of_bytes(tmp_path):
    with pytest.raises(DataError, match="line 2: byte 0xe9 is not UTF-8"):
        read_table(write(tmp_path, b">a\nM\xe9K\n"))
