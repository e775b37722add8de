"""What every process of a run does: fit from where the run stands, then predict its share of the test part."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save

from zoo.core.evaluation import raw_outputs
from zoo.core.files import write_atomic
from zoo.core.fit import FitResult, finish, fit, make_trainer, torch_device
from zoo.core.ranks import barrier, is_main
from zoo.core.resume import NAME, SaveEvery, read_checkpoint
from zoo.errors import DataError
from zoo.resources import locked
from zoo.specs.run import RunSpec
from zoo.workflows.build import Prepared, prepare
from zoo.workflows.resuming import tag_of

OUTPUTS = ".test-outputs.safetensors"
_LOCK = ".fit.lock"


def fit_job(payload: dict[str, Any]) -> None:
    """Be one of several processes: build what the launching process built, and :func:`work`."""
    run = RunSpec.model_validate(payload["run"])
    mirror = None if payload["mirror"] is None else Path(payload["mirror"])
    prepared = prepare(run, folder=Path(payload["data_folder"]), mirror=mirror)
    if prepared.split.hash != payload["split"]:
        raise DataError("the data file changed while the run was starting. Start again.")
    folder = Path(payload["folder"])
    with contextlib.ExitStack() as held:
        if is_main():
            # A launcher that was killed no longer holds the folder, and its processes may live on for a moment.
            held.enter_context(locked(folder / _LOCK, seconds=60.0))
        work(prepared, folder, progress=payload["progress"])


def work(prepared: Prepared, folder: Path, *, progress: bool) -> FitResult:
    """Fit from where the folder's checkpoint stands, and leave the test part's raw outputs in the folder.

    Every process of the job calls it; the outputs are in row order, whatever their number, and rank 0 writes them.
    """
    run, module = prepared.run, prepared.module
    path = folder / NAME
    state = read_checkpoint(path) if path.exists() else None
    place = device_of(run)
    trainer = make_trainer(
        module,
        folder=folder,
        device=place,
        progress=progress,
        has_val=bool(len(prepared.parts.get("val", ()))),
        save=SaveEvery(run.save_every_steps, run.save_every_minutes),
        tag=tag_of(prepared),
    )
    result = fit(module, prepared.datamodule, trainer, resume=state)
    if not result.interrupted:
        # From the file, as a resumed run would: what was in memory is not to matter.
        barrier()
        result = finish(module, read_checkpoint(path))
        network = module.network.to(torch_device(place))
        raw = raw_outputs(network, prepared.datamodule.loader(prepared.parts["test"]), torch_device(place))
        module.network.to("cpu")
        if is_main():
            write_atomic(folder / OUTPUTS, save({name: np.ascontiguousarray(v) for name, v in sorted(raw.items())}))
    barrier()
    return result


def device_of(run: RunSpec) -> str:
    """Return this process's own device for a run."""
    if run.device == "cpu" or not torch.cuda.is_available():
        return "cpu"
    return f"gpu:{os.environ.get('LOCAL_RANK', '0')}"


def fitted(prepared: Prepared, folder: Path) -> tuple[FitResult, dict[str, np.ndarray]] | None:
    """Load the selected weights of a finished fit into the network; return how it ended and the test outputs.

    None if the fit is not through.
    """
    path = folder / NAME
    state = read_checkpoint(path) if path.exists() else None
    if state is None or state["phase"] != "finalise" or not (folder / OUTPUTS).exists():
        return None
    return finish(prepared.module, state), load_file(folder / OUTPUTS)


def payload_of(prepared: Prepared, *, data_folder: Path, mirror: Path | None, folder: Path, progress: bool) -> Any:
    """Return what :func:`fit_job` needs, as plain values."""
    return {
        "run": json.loads(prepared.run.model_dump_json()),
        "data_folder": str(data_folder.resolve()),
        "mirror": None if mirror is None else str(mirror.resolve()),
        "folder": str(folder.resolve()),
        "progress": progress,
        "split": prepared.split.hash,
        "gpu": device_of(prepared.run) != "cpu",
    }
