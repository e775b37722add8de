"""YAML means what it seems to mean, and every error names file and line."""

from __future__ import annotations

import pytest

from zoo.errors import SpecError
from zoo.specs.strict_yaml import parse_yaml, read_yaml


def parse(text):
    return parse_yaml(text, "f.yaml").data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("1e-3", 1e-3),
        ("1E5", 1e5),
        ("-2.5e+3", -2500.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("12", 12),
        ("-12", -12),
        ("+3", 3),
        ("0", 0),
        ("1:30", "1:30"),
        ("0x1f", "0x1f"),
        ("0o17", "0o17"),
        ("007", "007"),
        ("1_000", "1_000"),
        ("2020-01-01", "2020-01-01"),
        ("1.2.3", "1.2.3"),
        ("~", None),
        ("null", None),
        ("", None),
        ("'12'", "12"),
        ('"true"', "true"),
        ("=", "="),
        ("nan", "nan"),
        ("C[C@H](N)C(=O)O", "C[C@H](N)C(=O)O"),
    ],
)
def test_scalars(text, value):
    result = parse(f"key: {text}")["key"]
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "the key 'a' stands twice; it is first given in line 1"),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", 4, "the key 'b' stands twice; it is first given in line 2"),
        ("a: [1, {b: 1, b: 2}]\n", 1, "the key 'b' stands twice"),
        ("a: 1\n2: x\n", 2, "a key must be text, got '2'"),
        ("a: 1\nnull: x\n", 2, "a key must be text"),
        ("a: 1\n? [b, c]\n: x\n", 2, "a key must be text"),
        ("a: 1\nb: !!python/name:os.system x\n", 2, "YAML carries data, never code"),
        ("a: 1\nb: !!python/object/apply:os.system [x]\n", 2, "YAML carries data, never code"),
        ("a: 1\nb: !!set {x}\n", 2, "YAML carries data, never code"),
        ("b: !!int 1:30\n", 1, "is not allowed"),
        ("a:\n  - 1\n  - .inf\n", 3, "numbers must be finite"),
        ("a: -.inf\n", 1, "numbers must be finite"),
        ("a: .nan\n", 1, "numbers must be finite"),
        ("a: 1e999\n", 1, "numbers must be finite"),
        ("a: 1\nb: &x [*x]\n", 2, "inside its own anchor"),
        ("a: 1\n\tb: 2\n", 2, "spaces, not tabs"),
        ("a: 1\nb: [1, 2\nc: 3\n", 3, "not valid YAML"),
        ("a: *nowhere\n", 1, "not valid YAML"),
        ("a: 1\n---\nb: 2\n", 2, "not valid YAML"),
        ("a: 1\nb: \x07\n", 2, "U+0007"),
        ("a: 1\nb:\n  <<: 3\n", 3, "takes an alias"),
    ],
)
def test_errors_name_the_line(text, line, says):
    with pytest.raises(SpecError) as error:
        parse(text)
    assert str(error.value).startswith(f"f.yaml:{line}: ")
    assert says in str(error.value)


def test_anchors_and_merge_keys():
    text = "base: &b {x: 1, y: 2}\nmore: &m {y: 5, z: 6}\none: *b\ntwo:\n  y: 3\n  <<: *b\nthree:\n  <<: [*b, *m]\n"
    data = parse(text)
    assert data["one"] == {"x": 1, "y": 2}
    assert data["two"] == {"x": 1, "y": 3}
    assert data["three"] == {"x": 1, "y": 2, "z": 6}


def test_aliases_that_multiply_are_refused():
    levels = ["l0: &l0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    levels += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(SpecError, match="multiply"):
        parse("\n".join(levels))


def test_lines_of_keys_and_items():
    document = parse_yaml("a: 1\nb:\n  - x\n  - y: 1\n    z: 2\nc: {d: 3}\n", "f.yaml")
    assert document.line(("a",)) == 1
    assert document.line(("b",)) == 2
    assert document.line(("b", 0)) == 3
    assert document.line(("b", 1, "z")) == 5
    assert document.line(("c", "d")) == 6
    assert document.line(("b", 1, "absent")) == 4, "an absent key is reported where its section starts"
    assert document.where(("c",)) == "f.yaml:6"


def test_files_with_a_byte_order_mark_and_windows_line_ends(tmp_path):
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: \xc3\xa9\r\n")
    assert read_yaml(tmp_path / "f.yaml").data == {"a": 1, "b": "é"}


def test_a_file_that_is_not_utf8_names_the_line(tmp_path):
    (tmp_path / "f.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(SpecError, match=r"f\.yaml:2: the file is not UTF-8"):
        read_yaml(tmp_path / "f.yaml")


def test_a_missing_file(tmp_path):
    with pytest.raises(SpecError, match=r"cannot read .*absent\.yaml"):
        read_yaml(tmp_path / "absent.yaml")
