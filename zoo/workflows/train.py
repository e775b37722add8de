"""``zoo train``: from a task's name, or a user's own file, to a run folder with a bundle."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.core.launch import SignalledError, run_on_ranks
from zoo.core.optim import describe_groups, make_optimizer
from zoo.core.precision import check_precision
from zoo.core.ranks import barrier, is_main, long_barrier, object_from_main, ranks
from zoo.core.resume import NAME as CHECKPOINT
from zoo.errors import InputError, ZooError
from zoo.resources import mirror_dir
from zoo.specs.catalog import Catalog
from zoo.specs.model import ScoreInfo
from zoo.specs.resolve import format_config
from zoo.specs.run import RunSpec
from zoo.specs.settings import flags_from, of_set
from zoo.workflows.asking import again, new_run
from zoo.workflows.baselines import check_baselines, timed_baselines
from zoo.workflows.build import Prepared, folder_of, prepare
from zoo.workflows.console import print_json, print_table
from zoo.workflows.finalise import finalise
from zoo.workflows.launch import check_devices, is_writer, membership, started_by
from zoo.workflows.layers import with_best_layer
from zoo.workflows.load import load_bundle, pick_device
from zoo.workflows.model import Model
from zoo.workflows.owndata import check_own_file
from zoo.workflows.resuming import check_place, clear_leftovers, finished, resumed
from zoo.workflows.runfolder import (
    check_out,
    claim,
    latest_folder,
    new_folder,
    only_one,
    stored_run,
    write_layers,
    write_start,
)
from zoo.workflows.stopping import stopped_run, terminable
from zoo.workflows.worker import OUTPUTS, fitted, payload_of, work


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
    labels: str | Path | None = None,
    target: str | Sequence[str] | None = None,
    kind: str | None = None,
    input_column: str | None = None,
    out: str | Path | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    includes: Sequence[Path] = (),
    mirror: Path | None = None,
    progress: bool = False,
    resume: bool = False,
) -> Run:
    """Train on a task by name, or on a file of one's own.

    Parameters
    ----------
    task
        Name of a task (``zoo list tasks``).
    data, labels, target, kind, input_column
        Instead of a task: a CSV, TSV or FASTA file, another one in its folder with labels by ``id`` (if they do not
        stand in the first), the column or columns to predict, their kind (else inferred), and the column of the
        inputs (else found).
    out
        Run folder; by default ``runs/<task>-<model>-seed<seed>``, with a number where that exists.
    config, settings
        A YAML file of settings, and settings by dotted key, for example ``{"train.epochs": 20, "seed": 1}``.
    includes, mirror
        Folders with more tasks and data sets, and one with copies of files that have a url.
    progress
        Whether to report on stderr.
    resume
        Go on with the run in ``out`` (or in the newest folder of the default name) from its last checkpoint, to the
        same bits as if it had never stopped; a finished run is returned as it is. With ``out`` alone, everything else
        is taken from the run.

    Returns
    -------
    Run
        The folder, the bundle, and the scores.

    Examples
    --------
    >>> run = zoo.train("freesolv")  # doctest: +SKIP
    >>> run.load().predict(["CCO"])  # doctest: +SKIP
    """
    return start_run(
        None,
        task,
        data=data,
        labels=labels,
        target=target,
        kind=kind,
        input_column=input_column,
        out=out,
        config=config,
        settings=settings,
        includes=includes,
        mirror=mirror,
        progress=progress,
        resume=resume,
    )


def start_run(
    model: str | Path | None,
    task: str | None,
    *,
    data: str | Path | None,
    labels: str | Path | None,
    target: str | Sequence[str] | None,
    kind: str | None,
    input_column: str | None,
    out: str | Path | None,
    config: str | Path | None,
    settings: Mapping[str, Any] | None,
    includes: Sequence[Path],
    mirror: Path | None,
    progress: bool,
    resume: bool,
) -> Run:
    """Carry out what :func:`train` is asked for, or with a model what :func:`zoo.finetune` is."""
    targets = [target] if isinstance(target, str) else list(target or [])
    folder = None if out is None else Path(out)
    notes: list[str] = []
    if resume and folder is not None and task is None and data is None:
        unread = {"config": config, "labels": labels, "target": target, "kind": kind, "input_column": input_column}
        given = [name for name, value in unread.items() if value is not None]
        if given:
            raise InputError(
                f"a resumed run keeps its {', '.join(given)}: leave them out, or name the task or the data."
            )
        run, catalog = again(folder, dict(settings or {})), Catalog(includes)
    else:
        run, catalog, notes = new_run(
            task,
            None if data is None else Path(data),
            labels=None if labels is None else Path(labels),
            targets=targets,
            kind=kind,
            input_column=input_column,
            includes=includes,
            config=None if config is None else Path(config),
            flags=dict(settings or {}),
            model=model,
            mirror=mirror,
        )
    return execute(run, catalog, out=folder, mirror=mirror, progress=progress, notes=notes, resume=resume)


def execute(
    run: RunSpec,
    catalog: Catalog,
    *,
    out: Path | None,
    mirror: Path | None,
    progress: bool,
    notes: Sequence[str] = (),
    resume: bool = False,
) -> Run:
    """Carry out a resolved run and write its folder."""
    say = _say if progress and is_writer() else _silent
    with (
        terminable(),
        membership(gpu=pick_device(run.device).type == "cuda"),
        contextlib.ExitStack() as held,
    ):
        check_devices(run)
        check_precision(run.train.precision, pick_device(run.device))
        started = time.monotonic()
        for note in notes:
            say(note)
        data_folder = folder_of(run, catalog)
        check_out(out or Path("runs"), fresh=out is not None and not resume)
        # Only a folder named for us needs to know which architecture the data asks for.
        prepared = prepare(run, folder=data_folder, mirror=mirror) if out is None else None
        folder = out or _named_folder(run, prepared, resume=resume)
        is_there = resume and (folder / "run.json").is_file()
        if is_main() and is_there:
            held.enter_context(only_one(folder))
        folder, run, done = object_from_main(_enter(run, folder, resume=resume, say=say) if is_main() else None)
        if done is not None:
            say(f"the run in {folder} {done}")
            return finished_run(folder)
        if resume:
            check_own_file(run, "Put it back as it was, or start a new run with another --out.")
        run, tried = with_best_layer(run, data_folder=data_folder, mirror=mirror, say=say)
        if prepared is None or prepared.run != run:
            prepared = prepare(run, folder=data_folder, mirror=mirror)
        baselines = run.task.baselines if run.baseline else []
        if is_main():
            check_baselines(prepared.data.domain, baselines)
            _describe(prepared, folder, say)
            if not is_there:
                held.enter_context(only_one(folder))
            _start(folder, prepared, resume=resume, say=say)
            write_layers(folder, prepared.module.monitor, tried)
        barrier()
        try:
            _fit(prepared, folder, data_folder=data_folder, mirror=mirror, progress=progress)
            with long_barrier():
                if is_main():
                    _finish(prepared, folder, baselines, started, say)
        except (KeyboardInterrupt, SignalledError) as signalled:
            raise stopped_run(folder, getattr(signalled, "name", "Ctrl-C")) from signalled
    return finished_run(folder)


def _named_folder(run: RunSpec, prepared: Prepared | None, *, resume: bool) -> Path:
    architecture = run.model.architecture if prepared is None else prepared.architecture
    mode = "" if run.start is None else f"-{run.start.mode}"
    name = f"{run.task.name}-{architecture}{mode}-seed{run.seed}"
    return latest_folder(name) if resume else new_folder(name)


def _enter(run: RunSpec, folder: Path, *, resume: bool, say: Any) -> tuple[Path, RunSpec, str | None]:
    """Return the run folder, the run to carry out in it, and in words that it is finished already, or None."""
    if not resume:
        return folder, run, None
    stored = stored_run(folder)
    if stored is None:
        say(f"nothing to resume in {folder}: starting from the beginning")
        return folder, run, None
    run = resumed(stored, run, folder)
    return folder, run, finished(folder, stored, run)


def _start(folder: Path, prepared: Prepared, *, resume: bool, say: Any) -> None:
    """Claim a new run's folder, or tidy up the one that is resumed."""
    if resume and stored_run(folder) is not None:
        place = check_place(folder, prepared)
        aside = clear_leftovers(folder)
        if aside is not None:
            say(f"results of the shorter run are kept in {folder / aside}")
        for line in place:
            say(line)
    else:
        if resume:
            (folder / "run.json").unlink(missing_ok=True)  # of a run killed while it was claiming
        claim(folder)
    write_start(folder, prepared)


def _fit(prepared: Prepared, folder: Path, *, data_folder: Path, mirror: Path | None, progress: bool) -> None:
    """Fit in this process, or in as many as the run asks for."""
    run = prepared.run
    if started_by() is not None or run.devices == 1:
        result = work(prepared, folder, progress=progress)
        if result.interrupted:
            raise SignalledError(result.stopped)
        return
    payload = payload_of(prepared, data_folder=data_folder, mirror=mirror, folder=folder, progress=progress)
    run_on_ranks("zoo.workflows.worker:fit_job", payload, world=run.devices, threads=run.threads)
    if fitted(prepared, folder) is None:
        raise SignalledError("a signal to its processes")


def _finish(prepared: Prepared, folder: Path, baselines: list[str], started: float, say: Any) -> None:
    """Write what a finished fit leaves behind."""
    found = fitted(prepared, folder)
    if found is None:
        raise ZooError(f"{folder / CHECKPOINT} is gone. Start a new run with another --out.")
    result, raw = found
    train_seconds = time.monotonic() - started
    say(f"{result.steps} steps in {train_seconds:.0f} s ({result.stopped}); weights: {result.selected}")
    if baselines:
        say(f"baselines: {', '.join(baselines)}")
    (folder / OUTPUTS).unlink()  # made again if need be; a finished run has none, whenever it is killed
    compared = timed_baselines(prepared, baselines)
    finalise(prepared, result, raw, folder=folder, compared=compared, seconds=train_seconds)


def finished_run(folder: Path) -> Run:
    """Return the run that a folder with a result holds."""
    found = json.loads((folder / "result.json").read_text())["metrics"]
    metrics = {name: {m: ScoreInfo.model_validate(s) for m, s in scores.items()} for name, scores in found.items()}
    return Run(folder, folder / "bundle", metrics)


def _describe(prepared: Prepared, folder: Path, say: Any) -> None:
    run, records = prepared.run, prepared.data.records
    what = f"{len(records)} {prepared.data.domain.item_level}s"
    say(f"{run.task.name}: {records.n_rows} rows of {run.dataset.name} → {what}")
    for line in records.report.summary():
        say(f"  {line}")
    sizes = ", ".join(f"{name} {len(part)}" for name, part in prepared.parts.items())
    say(f"split: {prepared.split.method}, seed {run.split_seed}: {sizes} ({prepared.split.hash[:12]})")
    n = sum(p.numel() for p in prepared.network.parameters())
    threads = "1 thread" if run.threads == 1 else f"{run.threads} threads"
    say(f"model: {prepared.architecture}, {n:,} parameters, seed {run.seed}; {threads}")
    for line in _started_from(prepared):
        say(f"  {line}")
    for line in describe_groups(make_optimizer(prepared.module.network, run.train)):
        say(f"  {line}")
    steps = prepared.datamodule.train_loader.windows
    what = prepared.datamodule.train_loader.plan.what
    say(f"{run.train.epochs} epochs of {steps} steps, {what} each{_division(run)} → {folder}")


def _started_from(prepared: Prepared) -> list[str]:
    """Say which model a run starts from, and what of it is trained."""
    how = prepared.run.start
    if how is None:
        return []
    layer = "" if how.layer is None else f", cut off after layer {how.layer}"
    trained = {
        "full": "everything is trained",
        "lora": f"adapters of rank {how.lora_rank} and the heads are trained",
        "head": "the heads are trained",
    }[how.mode]
    fresh = f"; new in the encoder, and trained: {', '.join(prepared.new)}" if prepared.new else ""
    return [f"encoder of {how.model}{layer}; {trained}, the heads are new{fresh}"]


def _division(run: RunSpec) -> str:
    """Say how a step's items are divided over processes and microbatches."""
    world, pieces = max(ranks(), run.devices), run.train.microbatches
    if world * pieces == 1:
        return ""
    over = [f"{world} processes"] * (world > 1) + [f"{pieces} microbatches"] * (pieces > 1)
    if run.train.batch_cost is not None:
        return f" ({' x '.join(over)})"
    return f" ({' x '.join(over)} of at most {-(-run.train.batch_size // (world * pieces))})"


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _silent(line: str) -> None:
    """Say nothing."""


def train_command(args: argparse.Namespace) -> int:
    """Train, print the model beside its baselines, and say what to type next."""
    notes: list[str] = []
    if args.task is None and args.data is None:
        given = {**flags_from(vars(args)), **{s.key: s.value for s in map(of_set, args.set)}}
        run, catalog = again(args.out, given), Catalog(args.include)
    else:
        run, catalog, notes = new_run(
            args.task,
            args.data,
            labels=args.labels,
            targets=args.target or [],
            kind=args.kind,
            input_column=args.input,
            includes=args.include,
            config=args.config,
            flags=flags_from(vars(args)),
            sets=args.set or [],
            model=getattr(args, "start", None),
            mirror=mirror_dir(args.mirror),
        )
    if args.print_config:
        sys.stdout.write(format_config(run))
        return 0
    done = execute(
        run,
        catalog,
        out=args.out,
        mirror=mirror_dir(args.mirror),
        progress=not args.quiet,
        notes=notes,
        resume=args.resume,
    )
    if not is_writer():
        return 0
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
