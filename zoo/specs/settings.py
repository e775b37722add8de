"""The settings of a run by dotted key, and the three places a user gives them: flags, ``--set``, a config file.

Keys of ``train.*``, ``model.*`` and ``split.*`` come from the schemas, so that a new field needs no change here;
keys below ``model.hparams``, ``model.featuriser`` and ``split.options`` are open, for the domain knows them and
checks them when it builds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.errors import InputError, SpecError, did_you_mean
from zoo.specs.run import StartSpec
from zoo.specs.strict_yaml import Document, parse_yaml
from zoo.specs.task import SplitSpec, TrainSpec

OPEN = ("model.hparams", "model.featuriser", "split.options")
OF_TASK = ("duplicates", "censoring")
"""Settings that change the task itself; ``censoring`` of null leaves every target its own."""
TOP = (
    "seed",
    "split_seed",
    "budget_seconds",
    "threads",
    "device",
    "devices",
    "save_every_steps",
    "save_every_minutes",
    "on_invalid",
    "baseline",
    *OF_TASK,
)
# The seed of a split has one name, `split_seed`; options are open.
SPLIT_KEYS = tuple(name for name in SplitSpec.model_fields if name not in ("seed", "options"))
START_KEYS = tuple(name for name in StartSpec.model_fields if name not in ("model", "config_sha256"))
CLOSED = (
    "model.architecture",
    *(f"start.{name}" for name in START_KEYS),
    *(f"split.{name}" for name in SPLIT_KEYS),
    *(f"train.{name}" for name in TrainSpec.model_fields),
    *TOP,
)
_SECTIONS = ("model", "start", "train", "split")
_FLAGS = {
    "model": "model.architecture",
    "mode": "start.mode",
    "layer": "start.layer",
    "merge": "start.merge",
    "epochs": "train.epochs",
    "batch_size": "train.batch_size",
    "seed": "seed",
    "split_seed": "split_seed",
    "budget": "budget_seconds",
    "precision": "train.precision",
    "compile": "train.compile",
    "threads": "threads",
    "device": "device",
    "devices": "devices",
    "on_invalid": "on_invalid",
    "split": "split.method",
    "split_column": "split.column",
    "split_file": "split.file",
}


@dataclass(frozen=True)
class Setting:
    """One value for one dotted key."""

    key: str
    value: Any
    where: str
    """How messages name the place it was given at."""


def flags_from(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of the command line as dotted keys; only those that were given.

    ``--split-file`` and ``--split-column`` alone also choose their method.
    """
    flags = {dotted: args[name] for name, dotted in _FLAGS.items() if args.get(name) is not None}
    if args.get("no_baseline"):
        flags["baseline"] = False
    for key, method in (("split.file", "file"), ("split.column", "column")):
        if key in flags:
            if flags.get("split.method", method) not in ("file", "column"):
                flag = f"--split-{method}"
                raise InputError(f"{flag} and --split {flags['split.method']} contradict each other: leave one out.")
            flags[key] = str(Path(flags[key]).resolve()) if key == "split.file" else str(flags[key])
            flags.setdefault("split.method", method)
    return flags


def parse_budget(text: str | float) -> float:
    """Return seconds from ``90``, ``"90s"``, ``"5m"`` or ``"1h30m"``."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        seconds = float(text)
    else:
        number = r"(\d+(?:\.\d+)?)"
        match = re.fullmatch(rf"(?:{number}h)?(?:{number}m)?(?:{number}s?)?", str(text).replace(" ", "").lower())
        hours, minutes, rest = (float(part or 0) for part in match.groups()) if match else (0.0, 0.0, 0.0)
        seconds = 3600 * hours + 60 * minutes + rest
    if not 0 < seconds < float("inf"):
        raise InputError(f"budget {text!r} is not a time above zero. Write 90s, 5m or 1h30m.")
    return seconds


def _is_known(key: str) -> bool:
    return key in CLOSED or any(key.startswith(f"{section}.") and key != f"{section}." for section in OPEN)


def _unknown(key: str, where: str) -> SpecError:
    inside = [name for name in CLOSED if name.startswith(f"{key}.")]
    if inside:
        return SpecError(f"{where}: {key!r} is a section; name one of its settings, for example {inside[0]!r}.")
    if key == "split.seed":
        return SpecError(f"{where}: unknown setting 'split.seed'. The seed of the split is 'split_seed'.")
    names = [*CLOSED, *OPEN, *_SECTIONS]
    # A bare field name is the commonest slip: `lr` for `train.lr`.
    ending = [name for name in names if name.rsplit(".", 1)[-1] == key.rsplit(".", 1)[-1]]
    hint = f" Did you mean {ending[0]!r}?" if ending else did_you_mean(key, names)
    return SpecError(f"{where}: unknown setting {key!r}.{hint} `zoo train ... --print-config` lists all settings.")


def of_mapping(given: Mapping[str, Any], where: str) -> list[Setting]:
    """Return settings from dotted keys; those that have a flag are named by it in messages when ``where`` is empty."""
    for key in given:
        if not _is_known(key):
            raise _unknown(key, where or "given in Python")
    flags = {dotted: f"--{name.replace('_', '-')}" for name, dotted in _FLAGS.items()}
    return [Setting(key, value, where or flags.get(key, "given in Python")) for key, value in given.items()]


def of_set(text: str) -> Setting:
    """Return the setting of one ``--set KEY=VALUE``; the value is YAML."""
    key, equals, value = text.partition("=")
    key, where = key.strip(), f"--set {text}"
    if not equals or not key:
        raise SpecError(f"{where}: write --set KEY=VALUE, for example --set train.lr=0.001.")
    if not _is_known(key):
        raise _unknown(key, where)
    return Setting(key, parse_yaml(value, where).data, where)


def of_document(document: Document) -> list[Setting]:
    """Return the settings of a config file, each with its file and line."""
    if document.data is None:
        return []
    if not isinstance(document.data, dict):
        raise SpecError(f"{document.source}:1: a config file holds `key: value` lines and sections.")
    return list(_of_section(document.data, document, ()))


def _of_section(data: Mapping[str, Any], document: Document, path: tuple[str, ...]) -> Iterator[Setting]:
    for name, value in data.items():
        here = (*path, name)
        key, where = ".".join(here), document.where(here)
        if _is_known(key):
            yield Setting(key, value, where)
        elif key in (*OPEN, *_SECTIONS):
            if isinstance(value, dict):
                yield from _of_section(value, document, here)
            elif value is not None:
                raise SpecError(f"{where}: {key} is a section: put its keys below it, indented.")
        else:
            raise _unknown(key, where)
