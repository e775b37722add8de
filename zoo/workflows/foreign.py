"""Inputs of another kind than a model reads or a column's name says: SMILES in place of proteins, or the reverse."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from zoo.core.cache import featurise
from zoo.core.domain import DOMAINS, Domain, get_domain

_log = logging.getLogger("zoo")
LOOKED_AT = 50
"""Inputs that are read to tell which domain they are of."""

_MOST = 0.9


class Foreign(NamedTuple):
    """What inputs look like, by name and in words, and whether the domain expected cannot read most of them."""

    name: str
    text: str
    certain: bool


def domain_of(inputs: Sequence[str]) -> Domain:
    """Return the domain that can read most of the first inputs; the first of those that read as many."""
    some = _first(inputs)
    return max((get_domain(name) for name in DOMAINS), key=lambda domain: _read(domain, some))


def foreign(inputs: Sequence[str], domain: Domain) -> Foreign | None:
    """Return how inputs look like those of another domain, or None if they do not.

    Short SMILES without signs can be read as proteins too (``CCO``), and hardly a protein as SMILES: where the first of
    two domains reads all inputs, they look like its own.
    """
    some, other, names = _first(inputs), domain_of(inputs), list(DOMAINS)
    own, others = _read(domain, some), _read(other, some)
    certain = 2 * own <= len(some) and others >= _MOST * len(some)
    earlier = names.index(other.name) < names.index(domain.name) and others == len(some)
    if other is domain or not some or not (certain or earlier):
        return None
    text = (
        f"the inputs look like {other.name}: of the first {len(some)}, {others} can be read as {other.input_kind} and "
        f"{own} as {domain.input_kind} ({domain.name})"
    )
    return Foreign(other.name, text, certain)


def warn_of_foreign(path: Path, inputs: Sequence[str], domain: Domain) -> None:
    """Warn if the inputs of a file look like those of another domain than a model's."""
    strange = foreign(inputs, domain)
    if strange is not None:
        _log.warning("%s: %s. The model is one of %s.", path, strange.text, domain.name)


def _first(inputs: Sequence[str]) -> list[str]:
    return [text for text in inputs if text.strip()][:LOOKED_AT]


def _read(domain: Domain, inputs: list[str]) -> int:
    return len(featurise(domain, inputs, {}, cache=False).position)
