"""What pydantic found wrong, in plain words, with a "did you mean"."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from zoo.errors import did_you_mean

Location = tuple[str | int, ...]

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a section of `key: value` lines",
    "model_type": "a section of `key: value` lines",
}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it stands in the data, and why."""

    location: Location
    message: str

    def __str__(self) -> str:
        dotted = dot(self.location)
        return f"{dotted}: {self.message}" if dotted else self.message


def dot(location: Location) -> str:
    """Return a location as a dotted key: ``targets[0].kind``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".")


def explain(error: ValidationError, spec: type[BaseModel], data: Any) -> list[Problem]:
    """Return the problems of a validation, one for each place: unknown keys first, for they explain the missing ones.

    pydantic reports a value that fits no member of a union once per member, at places that do not exist in the
    data; these are folded into one.
    """
    found: dict[Location, list[dict[str, Any]]] = {}
    for item in sorted(error.errors(include_url=False), key=lambda item: item["type"] != "extra_forbidden"):
        location = tuple(part for part in item["loc"] if part != "[key]")
        if item["type"] != "missing":
            location = _existing(location, data)
        found.setdefault(location, []).append(dict(item))
    return [Problem(location, _message(items, location, spec)) for location, items in found.items()]


def _existing(location: Location, data: Any) -> Location:
    for depth, part in enumerate(location):
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return location[:depth]
    return location


def _message(items: list[dict[str, Any]], location: Location, spec: type[BaseModel]) -> str:
    item = items[0]
    kind, given = str(item["type"]), item.get("input")
    if kind == "extra_forbidden":
        names = _field_names(spec, location[:-1])
        return f"unknown key {location[-1]!r}.{did_you_mean(str(location[-1]), names)} Known: {', '.join(names)}."
    if kind == "missing":
        return "this key is missing."
    if kind == "value_error":
        return f"{item['ctx']['error']}."
    if kind == "literal_error":
        expected = str(item["ctx"]["expected"])
        names = [part for part in expected.replace(" or ", ", ").split("'") if part.strip(", ")]
        hint = did_you_mean(given, names) if isinstance(given, str) else ""
        return f"must be {expected}, got {describe(given)}.{hint}"
    wanted = [_EXPECTED[i["type"]] for i in items if i["type"] in _EXPECTED]
    if wanted:
        return f"must be {' or '.join(dict.fromkeys(wanted))}, got {describe(given)}.{_remedy(kind, given)}"
    said = re.sub(r"^[A-Z][a-z]+ should", "must", str(item["msg"])).replace(" after validation", "")
    return f"{said}, got {describe(given)}."


def describe(value: Any) -> str:
    """Return what was given, with its type in a plain word."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list | tuple) else "a section"


def _remedy(kind: str, given: Any) -> str:
    if kind == "string_type" and isinstance(given, bool | int | float):
        return f' Put it in quotes: "{str(given).lower()}".'
    if kind == "list_type" and isinstance(given, str):
        return f" Write [{given}]."
    if kind == "float_type" and isinstance(given, str) and any(c in given for c in "_,"):
        return " Write digits without separators, and a point for decimals."
    return ""


def _field_names(spec: type[BaseModel], location: Location) -> list[str]:
    """Return the keys of the model that stands at a location, following lists, dictionaries and unions."""
    models = [spec]
    for part in location:
        annotations = (
            [m.model_fields[part].annotation for m in models if part in m.model_fields] if isinstance(part, str) else []
        )
        # A list index or a dictionary key stays within what the last field already led to.
        models = [model for a in annotations for model in _models_in(a)] or models
    return list(dict.fromkeys(name for model in models for name in model.model_fields))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (list, tuple, dict, Annotated, Union, types.UnionType):
        for inner in get_args(annotation):
            yield from _models_in(inner)
