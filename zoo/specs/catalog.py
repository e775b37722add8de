"""What there is: tasks, data sets and models by name, over the bundled folder and the user's own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from zoo import resources
from zoo.errors import SpecError, unknown_name
from zoo.specs.strict_yaml import load_spec, read_yaml

if TYPE_CHECKING:
    from zoo.specs.base import Spec
    from zoo.specs.dataset import DatasetSpec
    from zoo.specs.model import ModelSpec
    from zoo.specs.task import TaskSpec

    SpecT = TypeVar("SpecT", bound=Spec)

Kind = Literal["task", "dataset", "model"]
KINDS: tuple[Kind, ...] = ("task", "dataset", "model")
_PATTERNS: dict[Kind, str] = {
    "task": "tasks/*/*.yaml",
    "dataset": "datasets/*/dataset.yaml",
    "model": "cards/*/config.json",
}
_WORDS: dict[Kind, str] = {"task": "task", "dataset": "data set", "model": "model"}


class Catalog:
    """Every task, data set and model by name.

    Names come from the paths, so that nothing is parsed before it is asked for: ``tasks/<domain>/<name>.yaml``,
    ``datasets/<name>/dataset.yaml``, ``cards/<name>/config.json``. What a file says must agree with its path.

    Parameters
    ----------
    includes
        More folders laid out like the bundled one (``--include DIR``), after those of ``ZOO_INCLUDE``.
    """

    def __init__(self, includes: Iterable[Path | str] = ()) -> None:
        self.roots = resources.roots(includes)
        self._found: dict[Kind, dict[str, Path]] = {}

    def _table(self, kind: Kind) -> dict[str, Path]:
        if kind not in self._found:
            self._found[kind] = self._find(kind)
        return self._found[kind]

    def _find(self, kind: Kind) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for path in (path for root in self.roots for path in sorted(root.glob(_PATTERNS[kind]))):
            name = path.stem if kind == "task" else path.parent.name
            if name in found:
                raise SpecError(
                    f"the {_WORDS[kind]} {name!r} is defined twice:\n  {found[name]}\n  {path}\n"
                    f"Rename one of them (its path and its `name`)."
                )
            found[name] = path
        return dict(sorted(found.items()))

    def names(self, kind: Kind) -> list[str]:
        """Return the names of one kind, sorted."""
        return list(self._table(kind))

    def path(self, kind: Kind, name: str) -> Path:
        """Return the file that defines a name; an unknown name is an error that offers the nearest."""
        table = self._table(kind)
        if name not in table:
            raise unknown_name(_WORDS[kind], name, table)
        return table[name]

    def task(self, name: str) -> TaskSpec:
        """Return a task."""
        from zoo.specs.task import TaskSpec  # noqa: PLC0415 - pydantic only when a spec is asked for

        path = self.path("task", name)
        task = _load_named(path, TaskSpec, name)
        if task.domain != path.parent.name:
            line = read_yaml(path).line(("domain",))
            raise SpecError(
                f"{path}:{line}: domain: is {task.domain!r}, but the file lies in tasks/{path.parent.name}/."
                f" Move the file, or correct the domain."
            )
        return task

    def dataset(self, name: str) -> DatasetSpec:
        """Return a data set."""
        from zoo.specs.dataset import DatasetSpec  # noqa: PLC0415

        return _load_named(self.path("dataset", name), DatasetSpec, name)

    def dataset_folder(self, name: str) -> Path:
        """Return the folder of a data set."""
        return self.path("dataset", name).parent

    def model(self, name: str) -> ModelSpec:
        """Return what a zoo model's ``config.json`` says. Its checksums are verified where it is loaded to run."""
        from pydantic import ValidationError  # noqa: PLC0415

        from zoo.specs.explain import explain  # noqa: PLC0415
        from zoo.specs.model import ModelSpec  # noqa: PLC0415

        path = self.path("model", name)
        try:
            data = json.loads(path.read_bytes())
            return ModelSpec.model_validate(data)
        except ValidationError as error:
            raise SpecError("\n".join(f"{path}: {p}" for p in explain(error, ModelSpec, data))) from error
        except ValueError as error:
            raise SpecError(f"{path}: not valid JSON: {error}.") from error

    def model_path(self, name: str) -> Path:
        """Return the folder (a bundle) of a zoo model."""
        return self.path("model", name).parent


def _load_named(path: Path, spec: type[SpecT], name: str) -> SpecT:
    loaded = load_spec(path, spec)
    given = getattr(loaded, "name", name)
    if given != name:
        line = read_yaml(path).line(("name",))
        raise SpecError(f"{path}:{line}: name: is {given!r}, but the path says {name!r}. They must agree.")
    return loaded
