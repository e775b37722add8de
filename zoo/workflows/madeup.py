"""A bundle's examples with made-up labels: what a model can be verified on when its data are not at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from zoo.core.bundle import read_example
from zoo.core.cache import featurise
from zoo.core.datamodule import BatchLoader, DataSource, node_levels
from zoo.core.evaluation import raw_outputs
from zoo.core.files import csv_text
from zoo.core.scalers import unscale
from zoo.errors import InputError
from zoo.specs.dataset import DatasetSpec
from zoo.specs.target import TargetSpec
from zoo.specs.task import SplitSpec, TaskSpec
from zoo.workflows.model import Model, in_input_order
from zoo.workflows.network import DTYPES, build_network
from zoo.workflows.owndata import labelled_file
from zoo.workflows.pairs import ItemPairs, listed, pick_pairs

_PART = "zoo_part"
_LEAST = 3


def labelled_examples(model: Model, bundle: Path, path: Path) -> tuple[TaskSpec, DatasetSpec]:
    """Write a bundle's example inputs with labels to a file; return a task and a data set on it.

    The labels are what another network of the same architecture says, spread out so that they can be told apart: they
    can be learnt, and equal nodes have equal labels. The last input is the test part.

    Raises
    ------
    InputError
        If the bundle has fewer than three examples that can be read.
    """
    columns: dict[str, list[Any]] = read_example(bundle)["inputs"]
    raw = columns[model.spec.input_column]
    found = featurise(model.domain, raw, model.spec.featuriser.options, cache=False)
    if len(found.items) < _LEAST or found.problems:
        raise InputError(
            f"{bundle} was trained on {model.spec.provenance.task!r}, which is not in the catalogue, and it has "
            f"{len(found.items)} readable examples instead of {_LEAST}, so there is nothing to verify it on. Name the "
            "folder with the task by --include DIR."
        )
    outputs = _teacher(model, found.items)
    table = {name: [str(v) for v in values] for name, values in columns.items()}
    for target in model.spec.targets:
        table[target.source] = _labels(model, target, found.items, outputs[target.name])
    table[_PART] = ["train"] * (len(raw) - 1) + ["test"]
    path.write_text(csv_text(list(table), list(zip(*table.values(), strict=True))))
    task, dataset = labelled_file(path, model.spec, model.domain, model.spec.input_column)
    split = SplitSpec(method="column", column=_PART, fractions={"train": 0.6, "test": 0.4})
    return task.model_copy(update={"split": split}), dataset


def _teacher(model: Model, items: Any) -> dict[str, np.ndarray]:
    """Return raw outputs of a network of the same architecture with other weights."""
    spec = model.spec
    names = [] if spec.features is None else spec.features.names
    network = build_network(
        model.domain,
        spec.architecture.name,
        spec.architecture.hparams,
        spec.architecture.head,
        targets=spec.targets,
        n_features=len(names),
        seed=1,
    ).to(DTYPES[spec.dtype])
    # Features beside the input are left at their mean: the labels are to be learnt from the inputs.
    features = np.zeros((len(items), len(names))) if names else None
    levels = node_levels(spec.targets, model.domain.item_level)
    source = DataSource(items, np.arange(len(items)), {}, features, DTYPES[spec.dtype], levels=levels)
    return raw_outputs(network, BatchLoader(source, np.arange(len(items))), torch.device("cpu"))


def _labels(model: Model, target: TargetSpec, items: Any, raw: np.ndarray) -> list[str]:
    """Return a target's labels as cells of a table, from raw outputs ``(n, k)``."""
    first = raw[:, 0].astype(np.float64)
    if target.level == "pair":
        found = pick_pairs(items, model.domain.paired, target, np.ones(len(first), bool))
        return listed([_likeliest(own, first) for own in found])
    if target.kind in ("binary", "multiclass"):
        names = target.class_names
        # Nodes by the rank of their output, so that like ones are alike; items in turn, so that each class occurs.
        nodes = target.level != model.domain.item_level
        number = np.unique(first.round(5), return_inverse=True)[1] if nodes else np.arange(len(first))
        cells: list[Any] = [names[int(i) % len(names)] for i in number]
    else:
        spread = first.std()
        values = (first - first.mean()) / (spread if spread > 0 else 1.0)
        cells = unscale(model.spec.scalers[target.name], values).tolist()
    if target.level != model.domain.item_level:
        return in_input_order(items, target.level, cells)
    return [str(cell) for cell in cells]


def _likeliest(pairs: ItemPairs, output: np.ndarray) -> ItemPairs:
    """Return the likeliest hundredth of an item's pairs, at least one: contacts are rare, more are hard to learn."""
    best = np.argsort(-output[pairs.places], kind="stable")[: max(1, len(pairs.places) // 100)]
    return ItemPairs(pairs.positions[best], pairs.places[best])
