"""The one featuriser of proteins: the same function in training and prediction.

A sequence is upper-cased, and X, B, U, Z and O are kept, for they are tokens of their own. Everything that is changed
is counted.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zoo.core.options import with_defaults
from zoo.core.types import Featurised, RowProblem
from zoo.errors import InputError, unknown_name
from zoo.proteins.alphabet import CODE, FIRST_RESIDUE, NOT_A_RESIDUE, RESIDUES
from zoo.proteins.descriptors import NAMES, SETS, describe
from zoo.proteins.items import ProteinItems

NAME = "protein-sequence"
VERSION = 1
OPTIONS: dict[str, Any] = {"max_length": 1022, "long": "error", "overlap": 256, "odd": "X", "descriptors": "none"}
"""``max_length``: the most residues a model sees at once. ``long``: what happens to a longer sequence: ``error`` (a
problem of its row), ``crop`` (the first ones are kept) or ``window`` (windows that share ``overlap`` residues or more,
blended, so that every residue has its prediction). ``odd``: what becomes of J, ``*`` within, ``-`` and ``.``: ``X``
(an unknown residue), ``drop`` or ``error``. ``descriptors``: ``none``, or ``peptide``, with which the heads of whole
sequences also see :data:`zoo.proteins.descriptors.NAMES`."""
_CHOICES = {"long": ("error", "crop", "window"), "odd": ("X", "drop", "error"), "descriptors": SETS}
_ODD = frozenset(b"J*-.")
_UNKNOWN = RESIDUES.index("X") + FIRST_RESIDUE
_MISSING = frozenset({"nan", "NaN", "none", "None", "null"})
"""What other programs write for a missing cell, and would be residues."""
_STOP = "*"
_NUCLEOTIDES = frozenset("ACGTUN")
_LIKE_DNA = "look like DNA or RNA, of A, C, G, T, U and N alone; if they are, translate them first"
_SURELY_LONG = 30
_SHOWN = 60


class _Sequence(NamedTuple):
    """One sequence as tokens: the kept ones' place in the input, and the length of the input."""

    tokens: np.ndarray
    source: np.ndarray
    length: int


class _SequenceError(ValueError):
    """A sequence that cannot be used; the message says why."""


def featurise(inputs: list[str], options: Mapping[str, Any]) -> Featurised:
    """Turn sequences into tokens; a bad one goes to ``problems`` and never raises.

    Parameters
    ----------
    inputs
        Sequences of one-letter codes. White space, and the ``*`` by which translations end, are left out before
        residues are counted.
    options
        Any of :data:`OPTIONS`; the rest keep their defaults.

    Returns
    -------
    Featurised
        Items with residues in the order of the input; the key is the sequence that the model sees.
    """
    full = check_options(options)
    found: list[_Sequence] = []
    position: list[int] = []
    problems: list[RowProblem] = []
    notes: Counter[str] = Counter()
    for row, text in enumerate(inputs):
        try:
            found.append(_read(text, full, notes))
            position.append(row)
        except _SequenceError as why:
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
            problems.append(RowProblem(row, shown, str(why)))
    items = _items(found, full)
    return Featurised(
        position=np.asarray(position, np.int64),
        key=[own.tokens.tobytes().translate(_LETTER).decode("ascii") for own in found],
        items=items,
        problems=problems,
        notes={what: count for what, count in notes.items() if count},
    )


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with defaults filled in; unknown names and values are errors."""
    full = with_defaults("featuriser option", OPTIONS, options)
    for name, allowed in _CHOICES.items():
        if full[name] not in allowed:
            raise unknown_name(f"featuriser option {name}", str(full[name]), allowed)
    if full["max_length"] < 1:
        raise InputError(f"featuriser option max_length must be at least 1, got {full['max_length']}")
    if full["long"] == "window" and not 0 <= full["overlap"] < full["max_length"]:
        raise InputError(
            f"featuriser option overlap must be from 0 to max_length - 1 = {full['max_length'] - 1}, "
            f"got {full['overlap']}"
        )
    return full


_LETTER = bytes(
    ord(RESIDUES[i - FIRST_RESIDUE]) if 0 <= i - FIRST_RESIDUE < len(RESIDUES) else ord("?") for i in range(256)
)


def _read(text: str, options: Mapping[str, Any], notes: Counter[str]) -> _Sequence:
    """Return a sequence as tokens, and count what was changed once it is sure that it can be used."""
    given = "".join(text.split())
    letters = given.rstrip(_STOP)
    upper = letters.upper()
    if not given:
        raise _SequenceError("the sequence is empty")
    if text.strip() in _MISSING:
        raise _SequenceError(f"{text.strip()!r} stands for a missing sequence; in upper case it would be residues")
    if not letters.isascii():
        at = next(i for i, letter in enumerate(letters) if not letter.isascii())
        raise _foreign(letters[at], at)
    codes = np.frombuffer(upper.encode(), np.uint8)
    tokens = CODE[codes]
    wrong = np.flatnonzero(tokens == NOT_A_RESIDUE)
    keep = np.ones(len(tokens), bool)
    if len(wrong):
        _check_odd(upper, codes, wrong, options)
        tokens = np.where(tokens == NOT_A_RESIDUE, np.uint8(_UNKNOWN), tokens)
        keep[wrong] = options["odd"] == "X"
    source = np.flatnonzero(keep)
    if not len(source):
        raise _SequenceError("nothing of the sequence is a residue")
    cut = _cut(len(source), options)
    notes["stop (*) at the end left out"] += letters != given
    notes["lower case made upper case"] += letters != upper
    notes[_LIKE_DNA] += len(upper) >= _SURELY_LONG and _NUCLEOTIDES.issuperset(upper)
    notes["white space inside left out"] += given != text.strip()
    notes[f"J, *, - or . {'made X' if options['odd'] == 'X' else 'dropped'} (residues)"] += len(wrong)
    notes[f"cropped to {options['max_length']} residues"] += cut < len(source)
    notes["cut into windows"] += cut > options["max_length"]
    return _Sequence(tokens[source[:cut]], source[:cut], len(tokens))


def _check_odd(upper: str, codes: np.ndarray, wrong: np.ndarray, options: Mapping[str, Any]) -> None:
    foreign = [int(at) for at in wrong if codes[at] not in _ODD]
    if foreign:
        raise _foreign(upper[foreign[0]], foreign[0])
    if options["odd"] == "error":
        at = int(wrong[0])
        raise _SequenceError(
            f"{upper[at]!r} at residue {at + 1}; with featuriser option odd=X it would count as unknown, with "
            "odd=drop be left out"
        )


def _foreign(letter: str, at: int) -> _SequenceError:
    return _SequenceError(
        f"{letter!r} at residue {at + 1} is no one-letter code of an amino acid; allowed are {RESIDUES}, and J, *, - "
        "and . (model.featuriser.odd says what becomes of them)"
    )


def _cut(length: int, options: Mapping[str, Any]) -> int:
    """Return how many residues of a sequence are kept."""
    longest: int = options["max_length"]
    if length <= longest or options["long"] == "window":
        return length
    if options["long"] == "error":
        raise _SequenceError(
            f"the sequence has {length:,} residues, and {longest:,} are allowed. Cut it, or train with --set "
            "model.featuriser.long=crop (the first ones are seen) or =window (all are, in windows)"
        )
    return longest


def _items(found: list[_Sequence], options: Mapping[str, Any]) -> ProteinItems:
    none = np.zeros(0, np.int64)
    asked = options["descriptors"] != "none"
    described = np.asarray([describe(own.tokens) for own in found] if asked else [], np.float64)
    return ProteinItems(
        ptr=np.cumsum([0, *(len(own.tokens) for own in found)]).astype(np.int64),
        tokens=np.concatenate([none, *(own.tokens for own in found)]).astype(np.uint8),
        source=np.concatenate([none, *(own.source for own in found)]).astype(np.int32),
        n_source_residues=np.asarray([own.length for own in found], np.int64),
        checksum=np.asarray([zlib.crc32(own.tokens.tobytes()) for own in found], np.uint32),
        window=np.asarray([options["max_length"], options["overlap"]], np.int64),
        descriptors=described.reshape(len(found), len(NAMES) if asked else 0),
    )
