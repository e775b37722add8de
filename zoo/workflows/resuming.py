"""Whether a run may go on, from where, and what is left of an earlier end."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zoo.core.bundle import read_spec
from zoo.core.ranks import ranks
from zoo.core.resume import NAME, read_checkpoint
from zoo.errors import BundleError, DataError, InputError
from zoo.specs.resolve import settings_of
from zoo.specs.run import RunSpec
from zoo.specs.settings import parse_budget
from zoo.workflows.build import Prepared

_MAY_CHANGE = frozenset(
    {
        "train.epochs",
        "budget_seconds",
        "device",
        "devices",
        "threads",
        "save_every_steps",
        "save_every_minutes",
    }
)
"""What a resumed run may change; epochs only upwards."""

_RESULTS = ("bundle", "merged", "predictions.csv")
"""What a run leaves beside ``result.json``, which comes last."""

_FINISHED = "is finished"


def resumed(stored: RunSpec, wanted: RunSpec, folder: Path) -> RunSpec:
    """Return the run to go on with.

    Raises
    ------
    InputError
        If the settings differ in what a resumed run may not change; the message shows each difference.
    """
    if wanted.origin.get("threads", "default") == "default":
        wanted = wanted.model_copy(update={"threads": stored.threads})
    if wanted.origin.get("train.epochs", "default") in ("default", "task"):  # an earlier resume may have raised them
        train = wanted.train.model_copy(update={"epochs": stored.train.epochs})
        wanted = wanted.model_copy(update={"train": train})
    if wanted.start is not None and wanted.start.layer == "best" and stored.layer_was_chosen:
        wanted = wanted.with_layer(stored.layer_was_chosen)
    before, now = _facts(stored), _facts(wanted)
    keys = [k for k in dict.fromkeys([*before, *now]) if before.get(k) != now.get(k) and k not in _MAY_CHANGE]
    if keys:
        lines = "\n".join(f"  {k}: {_show(before.get(k))} before, {_show(now.get(k))} now" for k in keys)
        raise InputError(
            f"the run in {folder} was made with other settings:\n{lines}\nA resumed run may change epochs (upwards), "
            "budget, devices and threads only. Give the old settings, leave them out with "
            f"`zoo train --resume --out {folder}`, or start a new run with another --out."
        )
    if wanted.train.epochs < stored.train.epochs:
        raise InputError(
            f"the run in {folder} was planned for {stored.train.epochs} epochs; --epochs can only be raised on resume."
        )
    return wanted


def rerun(stored: RunSpec, settings: Mapping[str, Any]) -> RunSpec:
    """Return a stored run with other values for what a resumed run may change, by dotted key."""
    wrong = sorted(set(settings) - _MAY_CHANGE)
    if wrong:
        raise InputError(
            f"a resumed run keeps its {', '.join(wrong)}; it may change {', '.join(sorted(_MAY_CHANGE))}. "
            "Leave the others out, or start a new run with another --out."
        )
    data = stored.model_dump()
    for key, value in settings.items():
        if key == "train.epochs":
            data["train"]["epochs"] = value
        else:
            data[key] = parse_budget(value) if key == "budget_seconds" and value is not None else value
        data["origin"][key] = "resume"
    try:
        return RunSpec.model_validate(data)
    except ValidationError as error:
        problem = error.errors()[0]
        raise InputError(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from error


def _facts(run: RunSpec) -> dict[str, Any]:
    """Return everything that makes a run what it is, by dotted key."""
    facts = settings_of(run)
    for number, file in enumerate(run.dataset.files):
        facts[f"data file {number + 1}"] = f"{file.name} {file.sha256[:12]}"
    facts["task"] = run.task.name
    facts["targets"] = [t.model_dump(mode="json") for t in run.task.targets]
    facts["metrics"] = [m.model_dump(mode="json") for m in run.task.metrics]
    facts["baselines"] = run.task.baselines
    if run.start is not None:
        facts["start.model"] = run.start.config_sha256
    return facts


def _show(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def identity(run: RunSpec) -> str:
    """Return a hash of everything that a resumed run may not change; its checkpoint carries it."""
    facts = {key: value for key, value in sorted(_facts(run).items()) if key not in _MAY_CHANGE}
    return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()


def tag_of(prepared: Prepared) -> dict[str, str]:
    """Return what a checkpoint says of the run that it belongs to."""
    run = prepared.run
    return {
        "run": identity(run),
        "split": prepared.split.hash,
        "ranks": str(max(ranks(), run.devices)),
        "threads": str(run.threads),
        "epochs": str(run.train.epochs),
        "features": getattr(prepared.datamodule.source.items, "fingerprint", ""),
    }


def finished(folder: Path, stored: RunSpec, run: RunSpec) -> str | None:
    """Return, in words, that a run is through, with everything written and nothing asked for beyond it, or None.

    Raises
    ------
    BundleError
        If the checkpoint or the result is damaged.
    InputError
        If there is something left to do and the checkpoint to do it from is gone, or it is of another run.
    """
    steps, whole = _steps_of_result(folder), _is_whole(folder)
    if not (folder / NAME).exists():
        if steps is None:
            return None
        if not whole or run.train.epochs > stored.train.epochs:
            what = "more epochs are asked for" if whole else "its bundle or its predictions are damaged or gone"
            raise InputError(
                f"the run in {folder} cannot go on: {what}, and {folder / NAME} is gone. Start a new run with "
                "another --out."
            )
        return _FINISHED
    state = _own_checkpoint(folder, run)
    if not whole or state["phase"] != "finalise" or steps != state["step"]:
        return None
    if state["stopped"] == "early" and run.train.epochs > stored.train.epochs:
        return f"{_FINISHED}: it had stopped early, and more epochs do not change where it ends"
    more_epochs = state["stopped"] == "finished" and state["place"][0] < run.train.epochs
    budget = math.inf if run.budget_seconds is None else run.budget_seconds
    more_time = state["stopped"] == "budget" and state["elapsed"] < budget
    return None if more_epochs or more_time else _FINISHED


def _is_whole(folder: Path) -> bool:
    """Whether the bundle, as it was written, and the predictions stand beside a result."""
    try:
        read_spec(folder / "bundle")
    except BundleError:
        return False
    return (folder / "predictions.csv").exists()


def _own_checkpoint(folder: Path, run: RunSpec) -> dict[str, Any]:
    """Return the state in a run's checkpoint, or raise if it is that of another run."""
    path = folder / NAME
    state = read_checkpoint(path)
    if state["tag"].get("run") != identity(run):
        raise InputError(
            f"{path} is the checkpoint of another run than the one that {folder / 'run.json'} describes. Put the "
            "right one back, or remove it to start the run anew."
        )
    return state


def _steps_of_result(folder: Path) -> int | None:
    """Return how many steps the run had made when its result was written, or None without a result.

    Raises
    ------
    BundleError
        If it holds no steps or no scores.
    """
    path = folder / "result.json"
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text())
        dict(found["metrics"])
        return int(found["steps"])
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(
            f"{path} is damaged. Remove it: the run then writes its results again, from its last checkpoint."
        ) from error


def check_place(folder: Path, prepared: Prepared) -> list[str]:
    """Return, in words, from where the run goes on, and whether to the same bits.

    Raises
    ------
    InputError
        If the checkpoint in the folder is of another run.
    DataError
        If the rows or their division have changed.
    """
    if not (folder / NAME).exists():
        return ["no checkpoint yet: starting from the beginning"]
    state, now = _own_checkpoint(folder, prepared.run), tag_of(prepared)
    before = state["tag"]
    if before["split"] != now["split"]:
        raise DataError(f"the data or the split of the run in {folder} has changed since it was started.")
    lines = [f"going on from step {state['step']}"]
    other = [f"{before[k]} {k} before, {now[k]} now" for k in ("ranks", "threads") if before[k] != now[k]]
    if other:
        lines.append(f"{' and '.join(other)}: equal to rounding (1e-10 in float64), not to the bit")
    if before.get("features", "") != now["features"]:
        lines.append("the frozen encoder's features were computed anew: equal to rounding, not to the bit")
    if before["epochs"] != now["epochs"]:
        lines.append("the schedule follows the new number of epochs from here on")
    return lines


def clear_leftovers(folder: Path) -> str | None:
    """Remove what a kill left half-written; put an earlier, shorter run's results aside and say where."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)
    for path in (*folder.glob(".bundle-*"), *folder.glob(".merged-*")):
        shutil.rmtree(path, ignore_errors=True)
    steps = _steps_of_result(folder)
    if steps is None or not _is_whole(folder):
        (folder / "result.json").unlink(missing_ok=True)
        for name in ("bundle", "merged"):  # written again, to the same bits
            shutil.rmtree(folder / name, ignore_errors=True)
        return None
    aside = folder / f"after-{steps}-steps"
    aside.mkdir(exist_ok=True)
    for name in (*_RESULTS, "result.json"):
        if (folder / name).exists():
            (folder / name).rename(aside / name)
    return aside.name
