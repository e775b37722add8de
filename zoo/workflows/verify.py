"""``zoo verify``: climb the ladder of the conformance kit with a task or a bundle."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.core.conformance import RUNGS, Rung
from zoo.core.conformance import verify as climb
from zoo.resources import mirror_dir
from zoo.workflows.cases import case_of
from zoo.workflows.console import print_json, print_line, print_table

_SHOWS = {
    1: "every weight gets a finite gradient and a finite step",
    2: "the loss is the one defined, and hidden labels change no bit",
    3: "eight items can be learnt by heart",
    4: "an item predicts the same alone and in any batch",
    5: "an input written otherwise predicts the same",
    6: "the gradient is that of the loss",
    7: "a saved model comes back to the bit",
    8: "a fit that was stopped goes on to the same bits",
    9: "two processes end with the weights of one",
    10: "a GPU gives the loss of the CPU",
}


def verify(
    name: str | Path,
    *,
    model: str | None = None,
    settings: Mapping[str, Any] | None = None,
    rungs: Iterable[int] | None = None,
    includes: Sequence[Path] = (),
    mirror: Path | None = None,
    report: Callable[[Rung], None] | None = None,
) -> list[Rung]:
    """Verify that a task's model, or a trained one, keeps the contract of the zoo.

    A task is verified with its own data (a sample of the rows) and freshly initialised weights, a bundle with its own
    weights on the data it was trained on, where they are at hand.

    Parameters
    ----------
    name
        A task, a zoo model, a bundle or a run folder.
    model, settings
        Architecture of a task, by default the task's own, and settings by dotted key.
    rungs
        Numbers of the rungs (``zoo.core.conformance.RUNGS``), by default all ten.
    includes, mirror
        Folders with more tasks and data sets, and one with copies of files that have a url.
    report
        Called with each rung when it is done.

    Returns
    -------
    list
        Each rung with its status (``pass``, ``fail``, ``skip``), measured error, tolerance and seconds.

    Examples
    --------
    >>> all(rung.status != "fail" for rung in zoo.verify("freesolv"))  # doctest: +SKIP
    True
    """
    with case_of(str(name), model=model, settings=settings, includes=includes, mirror=mirror) as case:
        return climb(case, rungs, report)


def verify_command(args: argparse.Namespace) -> int:
    """Print how each rung went; return 1 if one failed."""
    with case_of(
        args.name, model=args.model, sets=args.set, includes=args.include, mirror=mirror_dir(args.mirror)
    ) as case:
        numbers = args.rung or list(RUNGS)
        found = climb(case, numbers, None if args.quiet else _progress(len(set(numbers))))
    if args.json:
        print_json([rung.to_json() for rung in found])
    else:
        _print(case.name, found)
    return int(any(rung.status == "fail" for rung in found))


def _progress(total: int) -> Callable[[Rung], None]:
    """Return a reporter that writes a line on stderr for each rung that is done."""
    done = 0

    def report(rung: Rung) -> None:
        nonlocal done
        done += 1
        sys.stderr.write(f"{done}/{total}  {rung.name}: {rung.status} ({rung.seconds:.1f} s)\n")
        sys.stderr.flush()

    return report


def _print(name: str, found: list[Rung]) -> None:
    rows = [
        [r.rung, r.name, r.status, r.error, _allowed(r.tolerance), round(r.seconds, 1), _SHOWS[r.rung]] for r in found
    ]
    print_table(["rung", "name", "status", "error", "tolerance", "seconds", "what it shows"], rows, name)
    for rung in found:
        if rung.reason:
            print_line(f"rung {rung.rung}: {rung.reason}")
    count = {status: sum(r.status == status for r in found) for status in ("pass", "fail", "skip")}
    seconds = sum(r.seconds for r in found)
    print_line(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped in {seconds:.0f} s")


def _allowed(tolerance: float | None) -> float | str | None:
    return "exact" if tolerance == 0 else tolerance
