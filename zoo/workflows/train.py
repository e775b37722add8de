"""``zoo train``: from a task's name, or a user's own file, to a run folder with a bundle."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from zoo.core.files import csv_text, disk_error, write_atomic
from zoo.core.fit import fit, make_trainer
from zoo.core.optim import describe_groups, make_optimizer
from zoo.errors import InputError
from zoo.resources import mirror_dir
from zoo.specs.catalog import Catalog
from zoo.specs.dataset import DatasetSpec
from zoo.specs.model import ScoreInfo
from zoo.specs.resolve import format_config, resolve
from zoo.specs.run import RunSpec
from zoo.specs.settings import flags_from
from zoo.specs.task import TaskSpec
from zoo.workflows.baselines import check_baselines, timed_baselines
from zoo.workflows.build import Prepared, folder_of, prepare
from zoo.workflows.console import print_json, print_table
from zoo.workflows.finalise import finalise
from zoo.workflows.load import load_bundle, pick_device
from zoo.workflows.model import Model
from zoo.workflows.owndata import own_task


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, its bundle, and its scores on the test part.

    ``metrics`` maps ``model`` and each baseline to its scores by metric name.
    """

    folder: Path
    bundle: Path
    metrics: dict[str, dict[str, ScoreInfo]]

    def load(self) -> Model:
        """Return the trained model."""
        return load_bundle(self.bundle)


def train(
    task: str | None = None,
    *,
    data: str | Path | None = None,
    target: str | Sequence[str] | None = None,
    kind: str | None = None,
    input_column: str | None = None,
    out: str | Path | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    includes: Sequence[Path] = (),
    mirror: Path | None = None,
    progress: bool = False,
) -> Run:
    """Train on a task by name, or on a file of one's own.

    Parameters
    ----------
    task
        Name of a task (``zoo list tasks``).
    data, target, kind, input_column
        Instead of a task: a CSV or TSV file, the column or columns to predict, their kind (else inferred), and the
        column of the inputs (else found).
    out
        Run folder; by default ``runs/<task>-<model>-seed<seed>``, with a number where that exists.
    config, settings
        A YAML file of settings, and settings by dotted key, for example ``{"train.epochs": 20, "seed": 1}``.
    includes, mirror
        Folders with more tasks and data sets, and one with copies of files that have a url.
    progress
        Whether to report on stderr.

    Returns
    -------
    Run
        The folder, the bundle, and the scores.

    Examples
    --------
    >>> run = zoo.train("freesolv")  # doctest: +SKIP
    >>> run.load().predict(["CCO"])  # doctest: +SKIP
    """
    targets = [target] if isinstance(target, str) else list(target or [])
    spec, dataset, notes, catalog = _what(
        task, data, targets=targets, kind=kind, input_column=input_column, includes=includes
    )
    run = resolve(
        spec,
        dataset,
        threads=_threads(),
        config=None if config is None else Path(config),
        flags=dict(settings or {}),
        data_file=None if data is None else str(Path(data).resolve()),
    )
    return execute(run, catalog, out=None if out is None else Path(out), mirror=mirror, progress=progress, notes=notes)


def _what(
    task: str | None,
    data: str | Path | None,
    *,
    targets: list[str],
    kind: str | None,
    input_column: str | None,
    includes: Sequence[Path],
) -> tuple[TaskSpec, DatasetSpec, list[str], Catalog]:
    catalog = Catalog(includes)
    if (task is None) == (data is None):
        raise InputError("name either a task (`zoo list tasks`) or a file: zoo train --data my.csv --target y")
    if data is not None:
        if not targets:
            raise InputError("a file needs the column to predict: zoo train --data my.csv --target y")
        spec, dataset, notes = own_task(Path(data), targets, kind=kind, input_column=input_column)
        return spec, dataset, notes, catalog
    if targets or kind or input_column:
        raise InputError("--target, --kind and --input go with --data FILE; a task names its own columns.")
    spec = catalog.task(str(task))
    return spec, catalog.dataset(spec.dataset), [], catalog


def execute(
    run: RunSpec,
    catalog: Catalog,
    *,
    out: Path | None,
    mirror: Path | None,
    progress: bool,
    notes: Sequence[str] = (),
) -> Run:
    """Carry out a resolved run and write its folder."""
    say = _say if progress else _silent
    _check_out(out or Path("runs"), fresh=out is not None)
    pick_device(run.device)
    started = time.monotonic()
    for note in notes:
        say(note)
    prepared = prepare(run, folder=folder_of(run, catalog), mirror=mirror)
    baselines = run.task.baselines if run.baseline else []
    check_baselines(prepared.data.domain, baselines)
    folder = out or _new_folder(run, prepared.architecture)
    _describe(prepared, folder, say)
    _claim(folder)
    _write_start(folder, prepared)
    has_val = bool(len(prepared.parts.get("val", ())))
    trainer = make_trainer(prepared.module, folder=folder, device=run.device, progress=progress, has_val=has_val)
    result = fit(prepared.module, prepared.datamodule, trainer)
    if result.stopped.startswith("SIG"):
        say(f"stopped by {result.stopped} after {result.steps} steps; no bundle was written. The log is in {folder}.")
        raise KeyboardInterrupt
    train_seconds = time.monotonic() - started
    say(f"{result.steps} steps in {train_seconds:.0f} s ({result.stopped}); weights: {result.selected}")
    if baselines:
        say(f"baselines: {', '.join(baselines)}")
    compared = timed_baselines(prepared, baselines)
    metrics = finalise(prepared, result, folder, compared, train_seconds)
    return Run(folder, folder / "bundle", metrics)


def _check_out(out: Path, *, fresh: bool) -> None:
    """Raise before any work is done if the run folder cannot be made."""
    if fresh and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out {out} exists and is not empty. Choose another folder, or remove it.")
    parent = next(p for p in (out, *out.absolute().parents) if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"--out {out}: {parent} is no folder that can be written to. Choose another place.")


def _claim(folder: Path) -> None:
    """Make the run folder this run's own: of two runs at once, the second is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "run.json").open("x").close()
    except FileExistsError as error:
        raise InputError(f"{folder} belongs to another run by now. Choose another folder with --out.") from error
    except OSError as error:
        raise disk_error(error, folder) from error


def _write_start(folder: Path, prepared: Prepared) -> None:
    write_atomic(folder / "run.json", json.dumps(prepared.run.model_dump(mode="json"), indent=1).encode())
    prepared.split.write(folder / "split.csv", prepared.data.records)
    rows = prepared.data.records.report.to_rows()
    if rows:
        text = csv_text(list(rows[0]), [list(r.values()) for r in rows])
        write_atomic(folder / "rows.csv", text.encode())


def _describe(prepared: Prepared, folder: Path, say: Any) -> None:
    run, records = prepared.run, prepared.data.records
    what = f"{len(records)} {prepared.data.domain.item_level}s"
    say(f"{run.task.name}: {records.n_rows} rows of {run.dataset.name} → {what}")
    for line in records.report.summary():
        say(f"  {line}")
    sizes = ", ".join(f"{name} {len(part)}" for name, part in prepared.parts.items())
    say(f"split: {prepared.split.method}, seed {run.split_seed}: {sizes} ({prepared.split.hash[:12]})")
    n = sum(p.numel() for p in prepared.module.network.parameters())
    threads = "1 thread" if run.threads == 1 else f"{run.threads} threads"
    say(f"model: {prepared.architecture}, {n:,} parameters, seed {run.seed}; {threads}")
    for line in describe_groups(make_optimizer(prepared.module.network, run.train)):
        say(f"  {line}")
    steps = len(prepared.datamodule.train_loader)
    say(f"{run.train.epochs} epochs of {steps} steps, {run.train.batch_size} items each → {folder}")


def _new_folder(run: RunSpec, architecture: str) -> Path:
    base = Path("runs") / f"{run.task.name}-{architecture}-seed{run.seed}"
    folder, number = base, 2
    while folder.exists():
        folder, number = base.with_name(f"{base.name}-{number}"), number + 1
    return folder


def _threads() -> int:
    return max(1, int(os.environ.get("OMP_NUM_THREADS") or 0) or torch.get_num_threads())


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _silent(line: str) -> None:
    """Say nothing."""


def train_command(args: argparse.Namespace) -> int:
    """Train, print the model beside its baselines, and say what to type next."""
    spec, dataset, notes, catalog = _what(
        args.task,
        args.data,
        targets=args.target or [],
        kind=args.kind,
        input_column=args.input,
        includes=args.include,
    )
    run = resolve(
        spec,
        dataset,
        threads=_threads(),
        config=args.config,
        flags=flags_from(vars(args)),
        sets=args.set or [],
        data_file=None if args.data is None else str(args.data.resolve()),
    )
    if args.print_config:
        sys.stdout.write(format_config(run))
        return 0
    done = execute(run, catalog, out=args.out, mirror=mirror_dir(args.mirror), progress=not args.quiet, notes=notes)
    if args.json:
        print_json(json.loads((done.folder / "result.json").read_text()))
        return 0
    print_scores(run, done.metrics)
    file = args.data or "your.csv"
    sys.stdout.write(f"next: zoo predict {done.bundle} {file} -o predictions.csv\n")
    return 0


def print_scores(run: RunSpec, metrics: Mapping[str, Mapping[str, ScoreInfo]]) -> None:
    """Print models in rows and metrics in columns, the primary one first, with what they rest on."""
    names = sorted((m.name for m in run.task.metrics), key=lambda n: n != run.task.primary.name)
    rows = [[name, *[found[n].value for n in names]] for name, found in metrics.items()]
    first = max(next(iter(metrics.values())).values(), key=lambda found: found.rows)
    scored = f"{first.targets_scored} of {first.targets} targets scored, " if first.targets > 1 else ""
    units = sorted({t.unit for t in run.task.targets if t.unit})
    title = f"test part: {scored}{first.rows} labels{', unit ' + ', '.join(units) if units else ''}"
    print_table(["model", *names], rows, title)
    for name in names:
        for target, why in metrics["model"][name].skipped.items():
            sys.stdout.write(f"{name}: {target} not scored, {why}\n")
