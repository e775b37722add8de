"""YAML that says what it seems to say, and errors that name the line.

The scalars are those of YAML 1.2's core schema: ``yes``, ``no``, ``on``, ``off``, ``1:30``, ``0x1f``, ``1_000``,
``007`` and dates are text, ``1e-3`` is a number. Duplicate keys, keys that are not text, tags, recursion and
non-finite numbers are errors. Nothing but text, numbers, booleans, null, lists and mappings can come out.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from zoo.errors import SpecError

if TYPE_CHECKING:
    from zoo.specs.base import Spec

SpecT = TypeVar("SpecT", bound="Spec")
Location = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    "float": (
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    "merge": (r"<<", ["<"]),
}
_LARGEST = 200_000
"""Values in one document: more come only from aliases that multiply themselves."""


class _Loader(yaml.SafeLoader):
    """Resolves the scalars above and none of YAML 1.1's."""


_Loader.yaml_implicit_resolvers = {}
for _name, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"^(?:{_pattern})$"), _first)


@dataclass(frozen=True)
class Document:
    """A parsed file: its ``data``, and the line (from 1) where each key or list item stands."""

    data: Any
    lines: dict[Location, int]
    source: str

    def line(self, location: Location) -> int:
        """Return the line of a location, or of the nearest one above it that stands in the file."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)

    def where(self, location: Location) -> str:
        """Return ``file:line``."""
        return f"{self.source}:{self.line(location)}"


def parse_yaml(text: str, source: str) -> Document:
    """Parse one YAML document; ``source`` names it in errors."""
    try:
        node = _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        hint = " Indent with spaces, not tabs." if "'\\t'" in str(error.problem) else ""
        line = mark.line + 1 if mark else 1
        raise SpecError(f"{source}:{line}: not valid YAML: {error.problem or error.context}.{hint}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SpecError(
            f"{source}:{line}: a character that YAML does not allow: U+{ord(text[error.position]):04X}."
        ) from error
    builder = _Builder(source)
    return Document(None if node is None else builder.build(node, ()), builder.lines, source)


def read_yaml(path: Path) -> Document:
    """Read and parse a UTF-8 file (a byte order mark is accepted)."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SpecError(f"cannot read {path}: {error.strerror}.") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SpecError(f"{path}:{line}: the file is not UTF-8. Save it as UTF-8.") from error
    return parse_yaml(text, str(path))


def load_spec(path: Path, spec: type[SpecT]) -> SpecT:
    """Read a YAML file and validate it as ``spec``.

    Raises
    ------
    SpecError
        One line for each problem: file, line, dotted key, what was given and what is allowed.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - `zoo list` parses YAML without it

    from zoo.specs.explain import explain  # noqa: PLC0415

    document = read_yaml(path)
    if not isinstance(document.data, dict):
        given = "is empty" if document.data is None else "holds no `key: value` lines"
        raise SpecError(f"{path}:1: the file {given}; a {spec.__name__} starts with `name: ...`.")
    try:
        return spec.model_validate(document.data)
    except ValidationError as error:
        lines = [f"{document.where(p.location)}: {p}" for p in explain(error, spec, document.data)]
        raise SpecError("\n".join(lines)) from error


@dataclass
class _Builder:
    source: str
    lines: dict[Location, int] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)
    """Nodes being built: meeting one again is a loop of aliases."""
    built: int = 0

    def error(self, node: yaml.Node, message: str) -> SpecError:
        return SpecError(f"{self.source}:{node.start_mark.line + 1}: {message}")

    def build(self, node: yaml.Node, location: Location) -> Any:
        self.built += 1
        if id(node) in self.open:
            raise self.error(node, "an alias (*name) stands inside its own anchor.")
        if self.built > _LARGEST:
            raise self.error(node, f"more than {_LARGEST} values: aliases that multiply themselves?")
        self.lines.setdefault(location, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        expected = "map" if isinstance(node, yaml.MappingNode) else "seq"
        if node.tag != _TAG + expected:
            raise self.error(node, f"the tag {node.tag!r} is not allowed: YAML carries data, never code.")
        self.open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            value: Any = self.mapping(node, location)
        else:
            value = [self.build(child, (*location, i)) for i, child in enumerate(node.value)]
        self.open.remove(id(node))
        return value

    def scalar(self, node: yaml.ScalarNode) -> str | int | float | bool | None:
        kind, text = node.tag.removeprefix(_TAG), str(node.value)
        if kind in ("str", "merge"):
            return text
        if kind not in _SCALARS or not re.fullmatch(_SCALARS[kind][0], text):
            raise self.error(node, f"the tag {node.tag!r} is not allowed: YAML carries data, never code.")
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        number = int(text) if kind == "int" else float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        if not math.isfinite(number):
            raise self.error(node, f"{text}: numbers must be finite.")
        return number

    def mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                merged = {**self.merge(value_node, location), **merged}
                continue
            if key_node.tag != _TAG + "str":
                raise self.error(key_node, f"a key must be text, got {key_node.value!r}; put it in quotes.")
            key = str(key_node.value)
            place = (*location, key)
            if key in own:
                raise self.error(
                    key_node, f"the key {key!r} stands twice; it is first given in line {self.lines[place]}."
                )
            self.lines[place] = key_node.start_mark.line + 1
            own[key] = self.build(value_node, place)
        return {**merged, **own}

    def merge(self, node: yaml.Node, location: Location) -> dict[str, Any]:
        """Return what ``<<: *anchor`` brings; keys written out win over it, and the first of several anchors."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        result: dict[str, Any] = {}
        for part in parts:
            if not isinstance(part, yaml.MappingNode):
                raise self.error(node, "`<<` takes an alias (*name) of a mapping.")
            # Lines of merged keys are those of the anchor, unless the key is also written out.
            inner = _Builder(self.source, open=self.open, built=self.built)
            result = {**inner.build(part, location), **result}
            self.built = inner.built
            for place, line in inner.lines.items():
                self.lines.setdefault(place, line)
        return result
