"""The ladder: ten rungs, each of which a network with its data passes, fails, or does not have."""

from __future__ import annotations

import contextlib
import math
import sysconfig
import textwrap
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch

from zoo.core.conformance.accelerator import device_batch
from zoo.core.conformance.case import Case, Meter, Rung, SkipRung
from zoo.core.conformance.composition import batch_composition, symmetry
from zoo.core.conformance.continuation import resume
from zoo.core.conformance.derivatives import finite_differences
from zoo.core.conformance.learning import loss_and_masks, one_batch, overfit
from zoo.core.conformance.processes import two_ranks
from zoo.core.conformance.storage import save_and_load
from zoo.errors import InputError, ZooError

RUNGS: dict[int, tuple[str, Callable[[Case, Meter], None]]] = {
    1: ("one batch", one_batch),
    2: ("loss and masks", loss_and_masks),
    3: ("overfit one batch", overfit),
    4: ("batch composition", batch_composition),
    5: ("symmetry", symmetry),
    6: ("finite differences", finite_differences),
    7: ("save and load", save_and_load),
    8: ("resume", resume),
    9: ("two ranks", two_ranks),
    10: ("device batch", device_batch),
}

_LONGEST = 300
_NOT_OWN = ("<", str(Path(__file__).parents[2]), *(sysconfig.get_path(p) for p in ("stdlib", "purelib", "platlib")))


def verify(case: Case, rungs: Iterable[int] | None = None, report: Callable[[Rung], None] | None = None) -> list[Rung]:
    """Climb the ladder and say how each rung went.

    Parameters
    ----------
    case
        What is verified.
    rungs
        Numbers of the rungs, by default all ten.
    report
        Called with each rung when it is done.

    Raises
    ------
    InputError
        For a rung that there is not.
    """
    numbers = list(RUNGS if rungs is None else dict.fromkeys(rungs))
    for number in numbers:
        if number not in RUNGS:
            known = ", ".join(f"{n} ({name})" for n, (name, _) in RUNGS.items())
            raise InputError(f"there is no rung {number}. Known: {known}.")
    found = []
    for number in sorted(numbers):
        found.append(_climb(case, number))
        if report is not None:
            report(found[-1])
    return found


def check(case: Case, rungs: Iterable[int] | None = None) -> list[Rung]:
    """Climb the ladder in a test.

    Returns
    -------
    list
        The rungs, none of them failed.

    Raises
    ------
    AssertionError
        Naming each rung that failed, with its error and tolerance.
    """
    found = verify(case, rungs)
    failed = [describe(rung) for rung in found if rung.status == "fail"]
    if failed:
        raise AssertionError("\n".join([f"{case.name} fails", *failed]))
    return found


def describe(rung: Rung) -> str:
    """Return one line about a rung."""
    measured = "" if rung.error is None else f", error {rung.error:.2g}, tolerance {rung.tolerance:.2g}"
    return f"rung {rung.rung} ({rung.name}): {rung.status}{measured}{f'; {rung.reason}' if rung.reason else ''}"


def _climb(case: Case, number: int) -> Rung:
    name, function = RUNGS[number]
    meter = Meter()
    started = time.monotonic()
    status, reason, error, tolerance = "pass", "", None, None
    try:
        with _surroundings():
            function(case, meter)
    except SkipRung as skip:
        status, reason = "skip", str(skip)
    except Exception as broken:  # noqa: BLE001 - whatever the network does wrong is a rung that failed
        status, reason = "fail", _line(broken)
    else:
        if meter.worst is not None:
            error, tolerance, what = meter.worst
            if not meter.passed:
                status, reason = "fail", f"{what}: {_size(error, tolerance)}"
        reason = "; ".join([*([reason] if reason else []), *meter.notes])
    return Rung(number, name, status, error, tolerance, time.monotonic() - started, reason)  # type: ignore[arg-type]


def _line(broken: Exception) -> str:
    """Return what went wrong as one line, and where in the user's own code, if it was there."""
    text = " ".join(str(broken).split())
    if isinstance(broken, ZooError):
        return text
    said = textwrap.shorten(f"{type(broken).__name__}: {text}" if text else type(broken).__name__, _LONGEST)
    own = [f for f in traceback.extract_tb(broken.__traceback__) if not f.filename.startswith(_NOT_OWN)]
    return f"{said} ({own[-1].filename}, line {own[-1].lineno}, in {own[-1].name})" if own else said


def _size(error: float, tolerance: float) -> str:
    if math.isinf(error):
        return "not finite where it should be"
    return f"error {error:.2g}, " + (f"allowed {tolerance:.2g}" if tolerance else "not the same bits")


@contextlib.contextmanager
def _surroundings() -> Iterator[None]:
    """Make a rung repeatable, and leave the caller's random numbers and settings as they were."""
    before = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        torch.use_deterministic_algorithms(mode=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(mode=before)
