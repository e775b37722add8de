"""Cases for the conformance kit: a task, or a bundle, on a few rows in a folder of their own."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from zoo.core.bundle import read_example, read_spec, read_weights
from zoo.core.cache import featurise
from zoo.core.conformance.case import Case, RungError
from zoo.core.datamodule import DataSource, ZooDataModule
from zoo.core.domain import get_domain, load_object
from zoo.core.evaluation import raw_outputs
from zoo.core.fit import FitResult
from zoo.core.module import ZooModule
from zoo.core.scalers import scale_features, scale_labels
from zoo.errors import DataError, InputError, did_you_mean
from zoo.specs.catalog import Catalog
from zoo.specs.model import ModelSpec
from zoo.specs.resolve import resolve
from zoo.specs.run import RunSpec
from zoo.specs.task import ModelChoice, TrainSpec
from zoo.workflows.build import Prepared, folder_of, prepare, scaled_features
from zoo.workflows.fewrows import FILE, few_rows
from zoo.workflows.finalise import finalise
from zoo.workflows.load import check_example, find_bundle, load_bundle
from zoo.workflows.madeup import labelled_examples
from zoo.workflows.owndata import own_file_lost
from zoo.workflows.pretrained import merged_state
from zoo.workflows.runfolder import run_beside

_ITEMS = 8
_BATCH = 16
_THREADS = 1
"""More do not pay on batches of a few items; ``--set threads=N`` asks for them."""


@contextlib.contextmanager
def case_of(
    name: str,
    *,
    model: str | None = None,
    settings: Mapping[str, Any] | None = None,
    sets: Sequence[str] = (),
    includes: Sequence[Path] = (),
    mirror: Path | None = None,
) -> Iterator[Case]:
    """Yield the case of a task by name, or of a bundle; its rows stand in a temporary folder until the end.

    Parameters
    ----------
    name
        A task, a zoo model, a bundle or a run folder.
    model, settings, sets
        Architecture and settings of a task, as ``zoo train`` takes them.
    includes, mirror
        Folders with more tasks and data sets, and one with copies of files that have a url.

    Raises
    ------
    InputError
        If there is no such task or bundle, or a bundle is given settings.
    """
    catalog = Catalog(includes)
    with _threads_kept(), tempfile.TemporaryDirectory(prefix="zoo-verify-") as place:
        folder = Path(place)
        if name in catalog.names("task") and not (Path(name) / "config.json").is_file():
            task = catalog.task(name)
            flags = {**({} if model is None else {"model.architecture": model}), **(settings or {})}
            run = resolve(task, catalog.dataset(task.dataset), threads=_THREADS, flags=flags, sets=sets)
            small = Small(name, few_rows(run, folder_of(run, catalog), folder, mirror), folder)
        else:
            if model is not None or settings or sets:
                raise InputError(f"--model and --set go with a task; {name} is a model that was made with its own.")
            small = _of_bundle(_bundle(name, catalog, includes), catalog, folder, mirror)
        yield small.drawn().case()


@contextlib.contextmanager
def _threads_kept() -> Iterator[None]:
    """Put the number of threads back in the end, for every build of a run sets it."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _bundle(name: str, catalog: Catalog, includes: Sequence[Path]) -> Path:
    known = [*catalog.names("task"), *catalog.names("model")]
    if name not in known and not Path(name).exists():
        raise InputError(
            f"no task and no model {name!r}.{did_you_mean(name, known)} Give a task (`zoo list tasks`), a zoo model "
            "(`zoo list models`), or the folder of a bundle."
        )
    return find_bundle(name, list(includes))


def _of_bundle(bundle: Path, catalog: Catalog, folder: Path, mirror: Path | None) -> Small:
    """Return a bundle on rows of the data it was trained on, or else on its examples with made-up labels."""
    spec = read_spec(bundle)
    run = run_beside(bundle)
    if run is not None and run.data_file is not None:
        run = run if own_file_lost(run) is None else None
    elif spec.provenance.task in catalog.names("task"):
        task = catalog.task(spec.provenance.task)
        run = resolve(task, catalog.dataset(task.dataset), threads=_THREADS)
    if run is not None:
        run = few_rows(_as_trained(run, spec), folder_of(run, catalog), folder, mirror)
        return Small(spec.name, run, folder, bundle)
    task, dataset = labelled_examples(load_bundle(bundle, device="cpu"), bundle, folder / FILE)
    run = _as_trained(resolve(task, dataset, threads=_THREADS), spec)
    return Small(spec.name, run, folder, bundle, made_up=True)


def _as_trained(run: RunSpec, spec: ModelSpec) -> RunSpec:
    """Return a run with the targets, the architecture and the featuriser of a bundle."""
    architecture = spec.architecture
    model = ModelChoice(
        architecture=architecture.name,
        hparams={**architecture.hparams, **architecture.head},
        featuriser=spec.featuriser.options,
    )
    train = run.train.model_copy(update={"precision": "64" if spec.dtype == "float64" else "32"})
    task = run.task.model_copy(update={"targets": spec.targets})
    # The bundle's own weights are put in: what they once started from is not needed.
    return run.model_copy(update={"task": task, "model": model, "train": train, "threads": _THREADS, "start": None})


@dataclass(frozen=True)
class Small:
    """A run on a few rows in a folder of its own, and the bundle whose weights it starts from, if any."""

    name: str
    run: RunSpec
    folder: Path
    bundle: Path | None = None
    made_up: bool = False
    """Whether the rows are a bundle's examples with labels that nobody measured."""

    def prepared(self, **train: Any) -> Prepared:
        """Build the run anew, with other values for some of its training settings."""
        own = self.run.train.model_dump()
        if self.run.train.batch_cost is not None:
            # A few items are no step of the usual cost: batches are counted in items.
            own |= {"batch_cost": None, "batch_size": _BATCH}
        settings = TrainSpec.model_validate({**own, **train})
        prepared = prepare(self.run.model_copy(update={"train": settings}), folder=self.folder)
        if self.bundle is not None:
            _take_over(prepared, self.bundle)
        return prepared

    def drawn(self) -> Small:
        """Return the run with the first split seed whose training part can be learnt from."""
        for seed in range(10):
            found = replace(self, run=self.run.model_copy(update={"split_seed": seed}))
            try:
                prepared = found.prepared()
            except DataError:
                continue
            # A bundle's name says which architecture it has, and its weights which sizes.
            return found if self.bundle is not None else found.shallow(prepared)
        self.prepared()
        return self

    def shallow(self, prepared: Prepared) -> Small:
        """Name the architecture, and take fewer of what it only repeats, unless a number was asked for."""
        run, cls = self.run, load_object(prepared.data.domain.architectures[prepared.architecture])
        enough = {
            name: count
            for name, count in getattr(cls, "ENOUGH", {}).items()
            if prepared.hparams[name] > count and run.origin.get(f"model.hparams.{name}") in (None, "task", "default")
        }
        said = "".join(f", {count} of {prepared.hparams[name]} {name}" for name, count in enough.items())
        model = run.model.model_copy(update={"hparams": {**run.model.hparams, **enough}})
        run = run.model_copy(update={"model": model})
        return replace(self, run=run, name=f"{self.name} ({prepared.architecture}{said})")

    def case(self) -> Case:
        """Return the case."""
        dataset = self.run.dataset
        rows = f"{dataset.files[0].rows} rows of {dataset.name}"
        on = "its examples with made-up labels, for its data are not at hand" if self.made_up else rows
        return Case(
            f"{self.name} on {on}",
            make,
            options={
                "run": json.loads(self.run.model_dump_json()),
                "folder": str(self.folder),
                "bundle": None if self.bundle is None else str(self.bundle.resolve()),
            },
            symmetry=self.equivalents if get_domain(self.run.task.domain).equivalents else None,
            reload=self.reload,
            examples=None if self.bundle is None else self.examples,
        )

    def reload(self, module: ZooModule, folder: Path) -> nn.Module:
        """Finish a run with the module's weights, load its bundle and have it reproduce its own example."""
        prepared = self.prepared(precision=module.train_spec.precision)
        prepared.module.network.load_state_dict(module.network.state_dict())
        test = prepared.datamodule.loader(prepared.parts["test"])
        raw = raw_outputs(prepared.module.network, test, torch.device("cpu"))
        result = FitResult(0, 0, "last", "finished")
        finalise(prepared, result, raw, folder=folder, compared={}, seconds=0.0)
        model = load_bundle(folder / "bundle", device="cpu")
        check_example(folder / "bundle", model, tolerance=1e-5)
        return model.network

    def examples(self) -> list[tuple[Tensor, Tensor]]:
        """Return what the bundle predicts for its examples, and what it says it does."""
        bundle = self.bundle or self.folder
        example, model = read_example(bundle), load_bundle(bundle, device="cpu")
        got = model.predict(pd.DataFrame(example["inputs"]), input_column=model.spec.input_column)
        return [_numbers(got[name].tolist(), want) for name, want in example["outputs"].items()]

    def equivalents(self, module: ZooModule, data: ZooDataModule) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield outputs for items whose input is written otherwise, or whose nodes stand otherwise, and the usual."""
        prepared = self.prepared(precision="64")
        records, domain = prepared.data.records, prepared.data.domain
        index = np.unique(np.append(data.parts["train"][:_ITEMS], int(np.argmax(records.items.size()))))
        items, inputs = records.items.subset(index), [records.inputs[i] for i in index]
        want = _sorted_outputs(prepared, module, items, index)
        for seed in (0, 1):
            for kind, path in domain.equivalents.items():
                change = load_object(path)
                if kind == "items":
                    other = change(items, seed)
                else:
                    texts = [change(text, seed) for text in inputs]
                    found = featurise(domain, texts, prepared.data.options, cache=False)
                    if found.problems:
                        problem = found.problems[0]
                        raise RungError(f"{inputs[problem.row]!r} written as {problem.value!r}: {problem.reason}")
                    other = found.items
                yield from zip(_sorted_outputs(prepared, module, other, index), want, strict=True)


def make(run: dict[str, Any], folder: str, bundle: str | None, **train: Any) -> tuple[ZooModule, ZooDataModule]:
    """Return module and data of a small run that is given as plain values."""
    small = Small("", RunSpec.model_validate(run), Path(folder), None if bundle is None else Path(bundle))
    prepared = small.prepared(**train)
    return prepared.module, prepared.datamodule


def _take_over(prepared: Prepared, bundle: Path) -> None:
    """Put a bundle's weights and scalers in place of those of a fresh run."""
    spec, module = read_spec(bundle), prepared.module
    own = module.network.state_dict()
    weights = merged_state(spec, read_weights(bundle))
    module.network.load_state_dict({n: w.to(own[n].dtype) if n in own else w for n, w in weights.items()})
    source, records = prepared.datamodule.source, prepared.data.records
    prepared.scalers = module.scalers = spec.scalers
    source.labels = {n: scale_labels(spec.scalers[n], labels) for n, labels in records.labels.items()}
    if spec.features is not None:
        prepared.feature_scaler = spec.features
        source.features = scaled_features(records, spec.features)


def _sorted_outputs(prepared: Prepared, module: ZooModule, items: Any, index: np.ndarray) -> list[Tensor]:
    """Return every target's outputs; those of an item's nodes are sorted, for their order may differ."""
    values = [v for v in (items.features, prepared.data.records.features) if v is not None]
    if prepared.data.records.features is not None:
        values[-1] = values[-1][index]
    scaler = prepared.feature_scaler
    features = None if scaler is None else scale_features(scaler, np.concatenate(values, axis=1))
    source = DataSource(items, np.arange(len(index)), {}, features, torch.float64)
    outputs = module(source.batch(np.arange(len(index))))
    found = []
    for target in prepared.run.task.targets:
        rows = outputs[target.name]
        if target.level != prepared.data.domain.item_level:
            sizes = np.diff(items.node_ptr(target.level)).tolist()
            rows = torch.cat([piece.sort(dim=0).values for piece in torch.split(rows, sizes)])
        found.append(rows)
    return found


def _numbers(got: Sequence[Any], want: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """Return two columns of predictions as numbers, lists node by node; texts become 0 and 1, for equal and not."""
    pairs = [pair for a, b in zip(got, want, strict=True) for pair in _pairs(a, b)]
    columns = torch.tensor(pairs, dtype=torch.float64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _pairs(a: Any, b: Any) -> list[tuple[float, float]]:
    if isinstance(a, str) and a.startswith("["):
        return _pairs(json.loads(a), json.loads(b))
    if isinstance(a, list):
        return [pair for p in zip(a, b, strict=True) for pair in _pairs(*p)]
    if isinstance(a, float) and isinstance(b, float | int):
        return [(a, float(b))]
    return [(float(a != b), 0.0)]
