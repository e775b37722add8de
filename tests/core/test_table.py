import csv
import gzip
import hashlib
import zipfile

import pytest

from zoo.core.table import read_table
from zoo.errors import DataError


def write(folder, data, name="t.csv"):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_delimiters_line_ends_and_byte_order_mark(tmp_path, end, delimiter, mark):
    text = end.join([f"smiles{delimiter}y", f"CCO{delimiter}1.5", f"C{delimiter}", f"N{delimiter}NA", ""])
    table = read_table(write(tmp_path, mark + text.encode()))
    assert table.columns == ["smiles", "y"]
    assert table.column("smiles") == ["CCO", "C", "N"]
    assert table.column("y") == ["1.5", "", "NA"]
    assert table.lines.tolist() == [2, 3, 4]
    assert len(table) == 3


def test_lines_count_newlines_in_quotes_and_blank_lines(tmp_path):
    table = read_table(write(tmp_path, 'name,y\n"a\nb",1\n\n"c, d",2\ne,"3"\n'))
    assert table.column("name") == ["a\nb", "c, d", "e"]
    assert table.column("y") == ["1", "2", "3"]
    assert table.lines.tolist() == [2, 5, 6]
    assert table.where(1) == "row 1 (line 5)"


def test_suffix_and_format_settle_tabs(tmp_path):
    text = "a,b,c\ty\n1,2,3\t4\n"  # commas are more frequent
    assert read_table(write(tmp_path, text, "t.tsv")).columns == ["a,b,c", "y"]
    assert read_table(write(tmp_path, text, "t.txt"), "tsv").columns == ["a,b,c", "y"]
    assert read_table(write(tmp_path, gzip.compress(text.encode()), "t.tsv.gz")).columns == ["a,b,c", "y"]


def test_delimiters_inside_quoted_header_cells_do_not_count(tmp_path):
    assert read_table(write(tmp_path, 'x;"a,b,c";y\n1;2;3\n')).columns == ["x", "a,b,c", "y"]


def test_a_single_column(tmp_path):
    assert read_table(write(tmp_path, "smiles\nCCO\nC\n")).column("smiles") == ["CCO", "C"]


def test_zip_members(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("in/one.csv", "a,b\n1,x\n")
        archive.writestr("in/two.csv", "a,b\n2,y\n")
    assert read_table(path, member="in/two.csv").column("a") == ["2"]
    with pytest.raises(DataError, match=r"no member 'in/too.csv'.*Did you mean 'in/two.csv'.*in/one.csv, in/two.csv"):
        read_table(path, member="in/too.csv")


def test_checksum_is_of_the_stored_bytes(tmp_path):
    path = write(tmp_path, gzip.compress(b"a,b\n1,2\n"), "t.csv.gz")
    assert read_table(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_long_cells_are_read_and_the_process_limit_is_left_alone(tmp_path):
    before = csv.field_size_limit()
    long = "1, " * 100_000
    assert read_table(write(tmp_path, f'x,y\n1,"{long}"\n')).column("y") == [long]
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("smiles,y\n", "has a header but no data.*below line 1"),
        ("CCO,1.5\nC,2\n", "line 1: the first line holds the number '1.5', so it seems to be data"),
        ("a,b,a\n1,2,3\n", "more than one column is called 'a'"),
        ("a,b\n1,2\n3\n4,5,6\n", r"2 rows do not have the header's 2 cells.\n  row 1 \(line 3\): 1 cells"),
        (b"a,b\n1,2\n\xff,3\n", "line 3: byte 0xff is not UTF-8.*UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
        (b"a,b\n1,\x002\n", "line 2: the file is not text"),
        ('a,b\n1,2\n"3,4\n5,6\n', "line 3: a quoted cell is not closed"),
    ],
)
def test_bad_files_are_named_with_line_and_remedy(tmp_path, data, message):
    path = write(tmp_path, data)
    with pytest.raises(DataError, match=f"(?s){message}") as error:
        read_table(path)
    assert str(path) in str(error.value)


def test_missing_and_damaged_files(tmp_path):
    write(tmp_path, "a\n1\n", "data.csv")
    with pytest.raises(DataError, match=r"no such file. Did you mean 'data.csv'\?"):
        read_table(tmp_path / "dta.csv")
    packed = gzip.compress(b"a,b\n" + bytes(range(32, 127)) * 50)
    with pytest.raises(DataError, match="compressed file is damaged"):
        read_table(write(tmp_path, packed[:-12], "t.csv.gz"))


def test_a_missing_column_lists_the_columns(tmp_path):
    table = read_table(write(tmp_path, "smiles,logS\nC,1\n"))
    with pytest.raises(DataError, match=r"(?s)no column 'logs'. Did you mean 'logS'\?.*columns: 'smiles', 'logS'"):
        table.column("logs")


def test_only_five_bad_rows_are_shown(tmp_path):
    rows = "".join(f"{i}\n" for i in range(9))
    with pytest.raises(DataError, match=r"(?s)9 rows.*row 4 \(line 6\).*and 4 more rows") as error:
        read_table(write(tmp_path, "a,b\n" + rows))
    assert "row 5" not in str(error.value)
