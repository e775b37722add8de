"""The folder of a run: one run claims it, one process at a time works in it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from zoo.core.files import csv_text, disk_error, in_the_way, write_atomic
from zoo.core.resume import NAME
from zoo.errors import BundleError, InputError
from zoo.resources import locked
from zoo.specs.run import RunSpec
from zoo.workflows.build import Prepared

_LOCK = ".lock"


def check_out(out: Path, *, fresh: bool) -> None:
    """Raise before any work is done if the run folder cannot be made."""
    if fresh and out.exists() and (not out.is_dir() or any(p.name != _LOCK for p in out.iterdir())):
        hint = " To go on with the run in it, add --resume." if (out / "run.json").is_file() else ""
        raise InputError(f"--out {out} exists and is not empty. Choose another folder, or remove it.{hint}")
    way = in_the_way(out)
    if way is not None:
        raise InputError(f"--out {out}: {way} is no folder that can be written to. Choose another place.")


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run folder while this one works in it.

    Raises
    ------
    InputError
        If another process works in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(error, folder) from error
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / _LOCK, seconds=0.0))
        except TimeoutError as error:
            raise InputError(
                f"another process works on the run in {folder}. Wait until it is through, or choose another --out."
            ) from error
        except PermissionError:
            pass  # a folder to read only: a finished run can still be shown
        except OSError as error:
            raise disk_error(error, folder) from error
        yield


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


def write_layers(folder: Path, metric: str, scores: list[tuple[int, float]]) -> None:
    """Write what each layer of a frozen encoder scored on validation, if one was chosen by that."""
    if not scores:
        return
    write_atomic(folder / "layers.csv", csv_text(["layer", f"val_{metric}"], scores).encode())


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
    """Return the run that a folder holds, or None if it holds none (or was killed before it was written).

    Raises
    ------
    BundleError
        If ``run.json`` cannot be read, or holds something else.
    InputError
        If the folder holds other files.
    """
    path = folder / "run.json"
    if path.is_file() and path.stat().st_size:
        return _read_run(path)
    if (folder / NAME).exists():
        raise InputError(
            f"{folder} holds a checkpoint, and its run.json is missing or empty, so nobody can tell which run it is "
            "of. Put run.json back, or start a new run with another --out."
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is no folder. Choose another.")
    strangers = sorted(p.name for p in folder.glob("*") if not p.name.startswith(".") and p != path)
    if strangers:
        raise InputError(
            f"{folder} is no run folder: it holds {strangers[0]} and no run.json. Choose another --out for a new run, "
            "or name the folder of the run to go on with."
        )
    return None


def run_beside(bundle: Path) -> RunSpec | None:
    """Return the run that a bundle stands in, or None if it stands alone."""
    path = bundle.parent / "run.json"
    return _read_run(path) if path.is_file() else None


def _read_run(path: Path) -> RunSpec:
    remedy = "Put the original back, or start a new run with another --out."
    try:
        return RunSpec.model_validate(json.loads(path.read_text()))
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "as a whole"
        raise BundleError(
            f"{path} is damaged or of another version of scizoo ({where}: {problem['msg']}). {remedy}"
        ) from error
    except ValueError as error:
        raise BundleError(f"{path} is damaged: {error}. {remedy}") from error
