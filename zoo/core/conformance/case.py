"""What is verified: a case, and what one rung of the ladder measured."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from zoo.core.datamodule import ZooDataModule
from zoo.core.module import ZooModule
from zoo.errors import ZooError

Make = Callable[..., tuple[ZooModule, ZooDataModule]]
Pairs = Iterable[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Case:
    """A network with its data: what the ladder climbs.

    Parameters
    ----------
    name
        How reports call it.
    make
        ``make(**options, **train) -> (ZooModule, ZooDataModule)``, fresh at every call and with the same initial
        weights. ``train`` are fields of :class:`zoo.specs.task.TrainSpec`, such as ``precision="64"`` or
        ``batch_size=8``, that replace the case's own. A function at the top of a module or script: the rung of two
        ranks imports it in other processes.
    options
        Further keywords of ``make`` that JSON can hold.
    symmetry
        ``symmetry(module, data)`` returns pairs of tensors that are equal if the network respects its symmetry: an
        output, and that of an equivalent input (transformed back where it is to transform).
    reload
        ``reload(module, folder)`` saves the module's network in an empty folder by the case's own format, loads it
        from there and returns it. By default a safetensors file of the state.
    examples
        Pairs of recorded predictions and those made now.

    Examples
    --------
    >>> def make(**train): ...
    >>> def test_my_network():
    ...     conformance.check(Case("my network", make))
    """

    name: str
    make: Make
    options: Mapping[str, Any] = field(default_factory=dict)
    symmetry: Callable[[ZooModule, ZooDataModule], Pairs] | None = None
    reload: Callable[[ZooModule, Path], nn.Module] | None = None
    examples: Callable[[], Pairs] | None = None

    def build(self, **train: Any) -> tuple[ZooModule, ZooDataModule]:
        """Return a fresh module and its data; the module raises where an output is not finite."""
        return built(self.make(**self.options, **train))

    @functools.cached_property
    def train_size(self) -> int:
        """Number of training items."""
        return len(self.build()[1].parts["train"])


def built(made: Any) -> tuple[ZooModule, ZooDataModule]:
    """Return what a case's ``make`` made, watched for outputs that are not finite.

    Raises
    ------
    RungError
        If it is not a module and its data.
    """
    parts = made if isinstance(made, tuple) else (made,)
    if [isinstance(p, k) for p, k in zip(parts, (ZooModule, ZooDataModule), strict=False)] != [True, True]:
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise RungError(f"`make` returns {kinds}; it must return a ZooModule and a ZooDataModule")
    module, data = parts
    module.register_forward_hook(_ask_for_finite)
    return module, data


def _ask_for_finite(module: nn.Module, args: object, outputs: Mapping[str, Tensor]) -> None:  # noqa: ARG001
    for name, output in outputs.items():
        found = output.detach()
        wild = found[~found.isfinite()]
        if len(wild):
            raise NotFiniteError(
                f"the output {name!r} holds {float(wild[0])}: {len(wild)} of its {found.numel()} numbers"
            )


@dataclass(frozen=True)
class Rung:
    """How one rung went.

    ``error`` is what was measured and ``tolerance`` what is allowed, of the measurement that came closest to failing;
    both are None where nothing could be measured. ``reason`` says why a rung failed or was skipped, and what of it
    could not be looked at.
    """

    rung: int
    name: str
    status: Literal["pass", "fail", "skip"]
    error: float | None
    tolerance: float | None
    seconds: float
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return plain values; JSON knows no infinity, so an error that is not finite is None."""
        values = asdict(self)
        values["error"] = self.error if self.error is not None and math.isfinite(self.error) else None
        return values


class SkipRung(Exception):  # noqa: N818 - no error
    """The rung does not apply; the message says why."""


class RungError(ZooError):
    """The rung failed in a way that has no number."""


class NotFiniteError(RungError):
    """An output is NaN or infinite."""


class Meter:
    """Collects what a rung measures and keeps what came closest to its tolerance, or exceeded it most."""

    def __init__(self) -> None:
        self.worst: tuple[float, float, str] | None = None
        self.notes: list[str] = []

    def add(self, error: float, tolerance: float, what: str) -> None:
        """Add a measured error; a tolerance of 0 asks for equal bits."""
        error = math.inf if math.isnan(error) else error
        if self.worst is None or _excess(error, tolerance) > _excess(*self.worst[:2]):
            self.worst = error, tolerance, what

    def close(self, got: Tensor | float, want: Tensor | float, tolerance: float, what: str) -> None:
        """Compare with ``tolerance`` as rtol and atol."""
        self.add(relative_error(got, want), tolerance, what)

    def bits(self, got: Tensor | float, want: Tensor | float, what: str) -> None:
        """Ask for the same type and the same bits (two NaN are equal)."""
        if isinstance(got, Tensor) and isinstance(want, Tensor) and got.dtype != want.dtype:
            raise RungError(f"{what}: {got.dtype} instead of {want.dtype}")
        self.close(got, want, 0.0, what)

    @property
    def passed(self) -> bool:
        """Whether every error is within its tolerance."""
        return self.worst is None or self.worst[0] <= self.worst[1]


def relative_error(got: Tensor | float, want: Tensor | float) -> float:
    """Return the largest ``|got - want| / (1 + |want|)``, infinite where only one of them is finite."""
    got, want = (torch.as_tensor(value, dtype=torch.float64).detach().cpu() for value in (got, want))
    if got.shape != want.shape:
        raise RungError(f"outputs of shape {tuple(got.shape)} instead of {tuple(want.shape)}")
    same = (got == want) | (got.isnan() & want.isnan())
    error = torch.where(same, 0.0, (got - want).abs() / (1 + want.abs())).nan_to_num(math.inf)
    return float(error.max()) if error.numel() else 0.0


def _excess(error: float, tolerance: float) -> float:
    if tolerance > 0:
        return error / tolerance
    return 0.0 if error == 0 else math.inf


def reference(make: Make) -> str:
    """Return ``module:name`` or ``file.py:name`` of a function, by which another process can import it.

    Raises
    ------
    SkipRung
        If it has no such name.
    """
    name = getattr(make, "__qualname__", "<nameless>")
    module = sys.modules.get(getattr(make, "__module__", ""))
    file = getattr(module, "__file__", None)
    if "<" in name or module is None or file is None:
        raise SkipRung(
            f"`make` ({name}) cannot be imported by other processes; write it as a function at the top of a .py file"
        )
    path = Path(file).resolve()
    inside = Path(*module.__name__.split("."))
    for entry in sys.path:
        root = Path(entry or ".").resolve()
        if path in (root / inside.with_suffix(".py"), root / inside / "__init__.py"):
            return f"{module.__name__}:{name}"
    return f"{path}:{name}"
