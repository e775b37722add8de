"""Open dictionaries of named values, checked against their defaults: hyper-parameters, options of a featuriser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zoo.errors import InputError, unknown_name


def with_defaults(what: str, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every value of ``defaults``, those in ``given`` replaced; a whole number serves where a float is meant.

    Raises
    ------
    InputError
        For a name without a default, or a value of another type than its default's; ``what`` says what it is.
    """
    full = dict(defaults)
    for name, value in given.items():
        if name not in defaults:
            raise unknown_name(what, name, defaults)
        kind = type(defaults[name])
        whole = kind is float and isinstance(value, int) and not isinstance(value, bool)
        if type(value) is not kind and not whole:
            raise InputError(
                f"{what} {name}: {value!r} is not of type {kind.__name__}; "
                f"it must be of the type of its default, {defaults[name]!r}."
            )
        full[name] = kind(value)
    return full
