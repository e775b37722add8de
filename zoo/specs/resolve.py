"""From a task, a card, a config file, flags and ``--set`` to the one frozen RunSpec, with the origin of every value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zoo.errors import SpecError, did_you_mean
from zoo.specs.dataset import DatasetSpec
from zoo.specs.explain import explain
from zoo.specs.run import RunSpec, StartSpec
from zoo.specs.settings import (
    OF_TASK,
    OPEN,
    SPLIT_KEYS,
    START_KEYS,
    TOP,
    Setting,
    of_document,
    of_mapping,
    of_set,
    parse_budget,
)
from zoo.specs.strict_yaml import read_yaml
from zoo.specs.task import TaskSpec


def resolve(
    task: TaskSpec,
    dataset: DatasetSpec,
    *,
    threads: int,
    config: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    sets: Sequence[str] = (),
    card: Mapping[str, Any] | None = None,
    start: StartSpec | None = None,
    data_file: str | None = None,
) -> RunSpec:
    """Return the run: defaults < task < card < config file < flags < ``--set``.

    Parameters
    ----------
    task, dataset
        What is trained on what.
    threads
        Number of threads, where nobody asks for another.
    config
        YAML file with the sections and keys that ``--print-config`` prints.
    flags
        Dotted key to value; None means that the flag was not given. :func:`flags_from` makes them.
    sets
        Texts ``dotted.key=value``; the value is a YAML scalar, list or mapping.
    card
        Dotted key to value, from the model that a run starts from.
    start
        That model; ``start.*`` settings say what is done with it.
    data_file
        A user's own file, where the run is not on a declared data set.

    Raises
    ------
    SpecError
        An unknown key or an impossible value: it names the file and line, the flag or the ``--set``.
    """
    settings = _Settings.of_task(task, dataset, threads, start)
    settings.apply("card", of_mapping(card or {}, "the card"))
    if config is not None:
        settings.apply(f"config:{config}", of_document(read_yaml(config)))
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    settings.apply("flag", of_mapping(given, ""))
    settings.apply("set", [of_set(text) for text in sets])
    return settings.run(task, dataset, data_file, start)


def format_config(run: RunSpec) -> str:
    """Return the settings of a run as YAML that ``--config`` reads, each line with its origin."""
    tree = _nested(settings_of(run))
    lines: list[str] = [f"# {run.task.name} on {run.data_file or run.dataset.name}"]
    for path, value in _walk(tree):
        key, indent = ".".join(path), "  " * (len(path) - 1)
        if isinstance(value, dict) and value and key != "split.fractions":
            lines.append(f"{indent}{path[-1]}:")
            continue
        text = json.dumps(value, ensure_ascii=False)  # JSON is YAML without its ambiguities
        lines.append(f"{indent}{path[-1]}: {text}".ljust(44) + f"  # {run.origin.get(key, 'default')}")
    return "\n".join(lines) + "\n"


def settings_of(run: RunSpec) -> dict[str, Any]:
    """Return every setting of a run under its dotted key."""
    found: dict[str, Any] = {key: getattr(run, key) for key in TOP if key not in OF_TASK}
    found["duplicates"] = run.task.duplicates
    censoring = {target.censoring for target in run.task.targets}
    found["censoring"] = censoring.pop() if len(censoring) == 1 else None
    for section, spec in (("train", run.train), ("split", run.task.split), ("model", run.model)):
        found.update({f"{section}.{name}": value for name, value in spec.model_dump().items()})
    del found["split.seed"]
    if run.start is not None:
        found.update({f"start.{name}": getattr(run.start, name) for name in START_KEYS})
    for key in OPEN:
        found.update({f"{key}.{name}": value for name, value in found.pop(key).items()})
    return found


def _walk(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every node of a tree of settings, sections before what they hold; scalars before sections."""
    for name, value in sorted(tree.items(), key=lambda item: isinstance(item[1], dict)):
        yield (*path, name), value
        if isinstance(value, dict) and ".".join((*path, name)) != "split.fractions":
            yield from _walk(value, (*path, name))


@dataclass
class _Settings:
    """Values by dotted key while the layers are laid over each other."""

    values: dict[str, Any]
    origin: dict[str, str]
    where: dict[str, str] = field(default_factory=dict)
    hparams_of: str | None = None
    """The architecture that the present ``model.hparams`` are meant for."""

    @classmethod
    def of_task(cls, task: TaskSpec, dataset: DatasetSpec, threads: int, start: StartSpec | None) -> _Settings:
        recipe = task.recipe
        values: dict[str, Any] = {
            **{name: RunSpec.model_fields[name].default for name in TOP if name not in ("threads", *OF_TASK)},
            **{f"train.{name}": value for name, value in recipe.train.model_dump().items()},
            **{f"split.{name}": getattr(task.split, name) for name in SPLIT_KEYS},
            **{f"split.options.{name}": value for name, value in task.split.options.items()},
            **{f"model.hparams.{name}": value for name, value in recipe.model.hparams.items()},
            **{f"model.featuriser.{name}": value for name, value in recipe.model.featuriser.items()},
            "model.architecture": recipe.model.architecture,
            **({} if start is None else {f"start.{name}": getattr(start, name) for name in START_KEYS}),
            "threads": threads,
            "split_seed": task.split.seed,
            "duplicates": task.duplicates,
            "censoring": None,
        }
        said = {
            *(f"train.{name}" for name in recipe.train.model_fields_set),
            *(f"split.{name}" for name in task.split.model_fields_set),
            *(key for key in values if key.startswith(OPEN)),
            *(task.model_fields_set & {"duplicates"}),
            *(["model.architecture"] if recipe.model.architecture else []),
            *(["split_seed"] if "seed" in task.split.model_fields_set else []),
        }
        meant_for = recipe.model.architecture or task.architecture_for(dataset.n_rows)
        origin = {key: "task" if key in said else "default" for key in values}
        return cls(values, origin, hparams_of=meant_for)

    def apply(self, origin: str, layer: Sequence[Setting]) -> None:
        given = {setting.key: setting.value for setting in layer}
        architecture = given.get("model.architecture")
        if architecture is not None and architecture != self.hparams_of:
            # Hyper-parameters recommended for another architecture would be unknown to this one.
            self._drop("model.hparams.")
            self.hparams_of = architecture
        method = given.get("split.method", self.values["split.method"])
        if method != self.values["split.method"]:
            # A committed file or a column belongs to the method it was made with.
            self._drop("split.options.")
            for key in ("split.file", "split.column", "split.val_column"):
                self.values[key], self.origin[key] = None, origin
        elif given.get("split.column", self.values["split.column"]) != self.values["split.column"]:
            self.values["split.val_column"], self.origin["split.val_column"] = None, origin
        for setting in layer:
            if setting.key.startswith("start.") and setting.key not in self.values:
                raise SpecError(f"{setting.where}: {setting.key} goes with `zoo finetune`, from a model.")
            self.values[setting.key] = setting.value
            self.origin[setting.key] = origin
            self.where[setting.key] = setting.where

    def _drop(self, prefix: str) -> None:
        for key in [key for key in self.values if key.startswith(prefix)]:
            del self.values[key]
            del self.origin[key]

    def run(self, task: TaskSpec, dataset: DatasetSpec, data_file: str | None, start: StartSpec | None) -> RunSpec:
        if start is not None and self.values["start.mode"] != "full":
            self._one_rate()
        values = dict(self.values)
        self._check_architecture(task)
        if isinstance(values["budget_seconds"], str):
            values["budget_seconds"] = parse_budget(values["budget_seconds"])
        tree = _nested(values)
        if start is not None:
            tree["start"] = {**tree["start"], "model": start.model, "config_sha256": start.config_sha256}
        split, duplicates, censoring = tree.pop("split"), tree.pop("duplicates"), tree.pop("censoring")
        changed = {"split": {**split, "seed": tree["split_seed"]}, "duplicates": duplicates}
        if censoring is not None:
            changed["targets"] = [{**target.model_dump(), "censoring": censoring} for target in task.targets]
        data = {
            "task": {**task.model_dump(), **changed},
            "dataset": dataset,
            "data_file": data_file,
            **tree,
            "origin": self.origin,
        }
        try:
            return RunSpec.model_validate(data)
        except ValidationError as error:
            raise SpecError("\n".join(self._problems(error, data))) from error

    def _one_rate(self) -> None:
        """Forget rates that are meant for a trained encoder's own weights, where these stay as they are."""
        for key, value in (("train.encoder_lr_scale", 1.0), ("train.layer_decay", None)):
            if self.origin[key] in ("default", "task", "card"):
                self.values[key], self.origin[key] = value, "start.mode"

    def _check_architecture(self, task: TaskSpec) -> None:
        name = self.values["model.architecture"]
        if isinstance(name, str) and name not in task.models:
            where = self.where.get("model.architecture", f"the task {task.name}")
            hint = did_you_mean(name, task.models)
            raise SpecError(
                f"{where}: model.architecture {name!r} is not one that the task {task.name!r} allows.{hint}"
                f" Allowed: {', '.join(task.models)}."
            )

    def _problems(self, error: ValidationError, data: Mapping[str, Any]) -> Iterator[str]:
        for problem in explain(error, RunSpec, data):
            parts = [str(part) for part in problem.location]
            key = ".".join(parts[1:] if parts[:1] == ["task"] else parts)
            key = "split_seed" if key == "split.seed" else key
            # A rule over a whole section, or a key inside a value, has no `where` of its own: take what touched it.
            near = (
                at for given, at in self.where.items() if given.startswith(f"{key}.") or key.startswith(f"{given}.")
            )
            yield f"{self.where.get(key) or ', '.join(near) or 'the task'}: {key}: {problem.message}"


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted keys as nested dictionaries; the open sections are there even when empty."""
    tree: dict[str, Any] = {}
    for section in OPEN:
        outer, inner = section.split(".")
        tree.setdefault(outer, {})[inner] = {}
    for key, value in values.items():
        *sections, name = key.split(".", 2)  # below an open section a name may hold dots
        at = tree
        for part in sections:
            at = at.setdefault(part, {})
        at[name] = value
    return tree
