"""The folder of a run: claimed by one run, and checked before it is resumed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zoo.core.files import csv_text, disk_error, write_atomic
from zoo.core.resume import NAME, read_checkpoint
from zoo.errors import BundleError, InputError
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
"""What a resumed run may change; epochs and budget only upwards."""


def check_out(out: Path, *, fresh: bool) -> None:
    """Raise before any work is done if the run folder cannot be made."""
    if fresh and out.exists() and (not out.is_dir() or any(out.iterdir())):
        hint = " To go on with the run in it, add --resume." if (out / "run.json").is_file() else ""
        raise InputError(f"--out {out} exists and is not empty. Choose another folder, or remove it.{hint}")
    parent = next(p for p in (out, *out.absolute().parents) if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"--out {out}: {parent} is no folder that can be written to. Choose another place.")


def claim(folder: Path) -> None:
    """Make the run folder this run's own: of two runs at once, the second is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "run.json").open("x").close()
    except FileExistsError as error:
        raise InputError(f"{folder} belongs to another run by now. Choose another folder with --out.") from error
    except OSError as error:
        raise disk_error(error, folder) from error


def write_start(folder: Path, prepared: Prepared) -> None:
    """Write the settings, the split, and what happened to rows."""
    write_run(folder, prepared.run)
    prepared.split.write(folder / "split.csv", prepared.data.records)
    rows = prepared.data.records.report.to_rows()
    if rows:
        text = csv_text(list(rows[0]), [list(r.values()) for r in rows])
        write_atomic(folder / "rows.csv", text.encode())


def write_run(folder: Path, run: RunSpec) -> None:
    """Write ``run.json``."""
    write_atomic(folder / "run.json", json.dumps(run.model_dump(mode="json"), indent=1).encode())


def new_folder(name: str) -> Path:
    """Return a run folder below ``runs`` that is not there yet."""
    base = Path("runs") / name
    folder, number = base, 2
    while folder.exists():
        folder, number = base.with_name(f"{base.name}-{number}"), number + 1
    return folder


def latest_folder(name: str) -> Path:
    """Return the newest run folder that :func:`new_folder` made for a name; the first one if there is none."""
    folder = new_folder(name)
    base = Path("runs") / name
    if not base.exists():
        return base
    number = int(folder.name.removeprefix(f"{base.name}-"))
    return base if number == 2 else base.with_name(f"{base.name}-{number - 1}")


def stored_run(folder: Path) -> RunSpec | None:
    """Return the run that a folder holds, or None if it holds none (or was killed before it was written)."""
    path = folder / "run.json"
    if not path.is_file() or not path.stat().st_size:
        return None
    try:
        return RunSpec.model_validate(json.loads(path.read_text()))
    except (ValueError, ValidationError) as error:
        raise BundleError(
            f"{path} is damaged or of another version of scizoo: {error}. Start a new run with another --out."
        ) from error


def resumed(stored: RunSpec, wanted: RunSpec, folder: Path) -> RunSpec:
    """Return the run to go on with.

    Raises
    ------
    InputError
        If the settings differ in what a resumed run may not change; the message shows each difference.
    """
    if wanted.origin.get("threads", "default") == "default":
        wanted = wanted.model_copy(update={"threads": stored.threads})
    before, now = _facts(stored), _facts(wanted)
    keys = [k for k in dict.fromkeys([*before, *now]) if before.get(k) != now.get(k) and k not in _MAY_CHANGE]
    if keys:
        lines = "\n".join(f"  {k}: {_show(before.get(k))} before, {_show(now.get(k))} now" for k in keys)
        raise InputError(
            f"the run in {folder} was made with other settings:\n{lines}\nA resumed run may change epochs and budget "
            "(upwards), devices and threads only. Give the old settings, leave them out with "
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
    return facts


def _show(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_finished(folder: Path, run: RunSpec) -> bool:
    """Whether a run is through, with its result written, and nothing has been asked for beyond it."""
    if not (folder / "result.json").is_file() or not (folder / NAME).is_file():
        return (folder / "result.json").is_file()
    state = read_checkpoint(folder / NAME)
    if state["stopped"] == "finished":
        return bool(state["place"][0] >= run.train.epochs)
    if state["stopped"] == "budget":
        return run.budget_seconds is not None and bool(state["elapsed"] >= run.budget_seconds)
    return True


def clear_leftovers(folder: Path) -> str | None:
    """Remove what a kill left half-written; put an earlier, shorter run's results aside and say where."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)
    for path in folder.glob(".bundle-*"):
        shutil.rmtree(path, ignore_errors=True)
    if not (folder / "result.json").is_file():
        shutil.rmtree(folder / "bundle", ignore_errors=True)  # written again, to the same bits
        return None
    steps = json.loads((folder / "result.json").read_text())["steps"]
    aside = folder / f"after-{steps}-steps"
    aside.mkdir(exist_ok=True)
    for name in ("bundle", "predictions.csv", "result.json"):
        if (folder / name).exists():
            (folder / name).rename(aside / name)
    return aside.name
