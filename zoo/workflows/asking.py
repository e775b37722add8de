"""Which run a user asks for: a new one of a task or a file, or the one that a folder holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from zoo.errors import InputError
from zoo.specs.catalog import Catalog
from zoo.specs.resolve import resolve
from zoo.specs.run import RunSpec
from zoo.workflows.owndata import own_task
from zoo.workflows.pretrained import card_of, find_start
from zoo.workflows.resuming import rerun
from zoo.workflows.runfolder import stored_run


def again(folder: Path, settings: Mapping[str, Any]) -> RunSpec:
    """Return the run that a folder holds, with what a resumed run may change."""
    stored = stored_run(folder)
    if stored is None:
        raise InputError(
            f"{folder} holds no run to resume. Say what to train too: zoo train TASK --resume --out {folder}, or "
            f"zoo train --data FILE --target COLUMN --resume --out {folder}"
        )
    return rerun(stored, settings)


def new_run(
    task: str | None,
    data: Path | None,
    *,
    labels: Path | None = None,
    targets: list[str],
    kind: str | None,
    input_column: str | None,
    includes: Sequence[Path],
    config: Path | None,
    flags: dict[str, Any],
    sets: Sequence[str] = (),
    model: str | Path | None = None,
    mirror: Path | None = None,
) -> tuple[RunSpec, Catalog, list[str]]:
    """Return the run that is asked for by a task or a file, and what was inferred from the file.

    ``model`` is that which the run starts from, if any.
    """
    catalog = Catalog(includes)
    notes: list[str] = []
    example = f"zoo {'train' if model is None else f'finetune {model}'} --data my.csv --target y"
    if (task is None) == (data is None):
        raise InputError(f"name either a task (`zoo list tasks`) or a file: {example}")
    if data is not None:
        if not targets:
            raise InputError(f"a file needs the column to predict: {example}")
        spec, dataset, notes = own_task(data, targets, kind=kind, input_column=input_column, labels=labels)
    else:
        if targets or kind or input_column or labels:
            raise InputError(
                "--labels, --target, --kind and --input go with --data FILE; a task names its own columns."
            )
        spec = catalog.task(str(task))
        dataset = catalog.dataset(spec.dataset)
    start, card = None, None
    if model is not None:
        start, made = find_start(model, includes, mirror)
        if made.domain != spec.domain:
            raise InputError(f"{model} is a model of {made.domain}, and {data or task} is about {spec.domain}.")
        card = card_of(made)
    run = resolve(
        spec,
        dataset,
        threads=_threads(flags.get("devices")),
        config=config,
        flags=flags,
        sets=sets,
        card=card,
        start=start,
        data_file=None if data is None else str(data.resolve()),
    )
    return run, catalog, notes


def _threads(devices: int | None) -> int:
    """Return the threads of each process where nobody asks for a number."""
    return max(1, (int(os.environ.get("OMP_NUM_THREADS") or 0) or torch.get_num_threads()) // max(1, devices or 1))
