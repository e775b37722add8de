"""Fit a module with Lightning's trainer, set up so that nothing it does is inexact."""

from __future__ import annotations

import logging
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.plugins.environments import LightningEnvironment
from lightning.pytorch.callbacks import Callback, EarlyStopping, RichProgressBar
from lightning.pytorch.strategies import SingleDeviceStrategy

from zoo.core.averaging import Averaging
from zoo.core.callbacks import Interrupt, PlainProgress, RunLog, ValidationScores
from zoo.core.datamodule import ZooDataModule
from zoo.core.memory import is_out_of_memory, ran_out
from zoo.core.module import ZooModule
from zoo.core.precision import make_plugin
from zoo.core.ranks import copy_from_main, is_main, sum_over_ranks
from zoo.core.resume import Checkpoints, SaveEvery, StopFitError, restore
from zoo.core.runtime import adopt_sizes, prepare


@dataclass(frozen=True)
class FitResult:
    """How a fit ended: optimiser steps and epochs done, the weights chosen, and why it stopped."""

    steps: int
    epochs: int
    selected: str
    stopped: str
    """``finished``, ``early``, ``budget``, or what interrupted it (the name of a signal)."""

    @property
    def interrupted(self) -> bool:
        """Whether the fit is to be resumed rather than finished."""
        return self.stopped not in ("finished", "early", "budget")


def make_trainer(
    module: ZooModule,
    *,
    folder: Path | None,
    device: str = "auto",
    progress: bool = False,
    has_val: bool = True,
    save: SaveEvery | None = None,
    tag: dict[str, str] | None = None,
) -> L.Trainer:
    """Return the trainer of this process for a module.

    Lightning is told of one device only: what several ranks share goes through :mod:`zoo.core.ranks`. One of its epochs
    is one lap, the stretch between two validations.

    Parameters
    ----------
    module
        What is trained; its ``TrainSpec`` names precision, averaging and patience.
    folder
        Run folder for the log and ``last.ckpt``; None writes nothing.
    device
        ``cpu``, ``gpu``, ``gpu:N`` or ``auto``.
    progress
        Whether to report on stderr (rank 0 alone does).
    has_val
        Whether there is a validation part.
    save, tag
        See :class:`zoo.core.resume.Checkpoints`.
    """
    train = module.train_spec
    quiet()
    place = torch_device(device)
    on_cpu = place.type == "cpu"
    callbacks = _callbacks(module, folder, progress=progress and is_main(), has_val=has_val)
    return L.Trainer(
        accelerator="cpu" if on_cpu else "gpu",
        strategy=SingleDeviceStrategy(device=place),
        devices=1,
        # Never a cluster's environment: the ranks are ours to count.
        plugins=[LightningEnvironment(), make_plugin(train.precision, place)],
        max_epochs=train.epochs,
        callbacks=[*callbacks, Checkpoints(folder, save, tag)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=progress and is_main() and sys.stderr.isatty(),
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        reload_dataloaders_every_n_epochs=1,  # laps differ in length
        deterministic=True if on_cpu else None,
        default_root_dir=folder,
        log_every_n_steps=10_000_000,
        limit_val_batches=None if has_val else 0,
    )


def torch_device(device: str) -> torch.device:
    """Return the device of a name: ``cpu``, ``gpu`` (the first), ``gpu:N``, or ``auto``."""
    name, _, number = device.partition(":")
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    return torch.device("cuda", int(number or 0))


def _callbacks(module: ZooModule, folder: Path | None, *, progress: bool, has_val: bool) -> list[Callback]:
    """Return the callbacks in the order in which they must run: scores before averaging puts the raw weights back."""
    train = module.train_spec
    callbacks: list[Callback] = [ValidationScores()]
    if train.ema is not None:
        callbacks.append(Averaging(train.ema))
    if train.patience is not None and has_val:
        # It looks when a validation ends, so its patience counts validations.
        callbacks.append(
            EarlyStopping(
                "val_monitor",
                mode=module.direction,
                patience=train.patience,
                check_finite=False,
                check_on_train_epoch_end=False,
            )
        )
    callbacks.append(RunLog(folder))
    if progress:
        callbacks.append(RichProgressBar(leave=False) if sys.stderr.isatty() else PlainProgress())
    return callbacks


def fit(module: ZooModule, data: ZooDataModule, trainer: L.Trainer, resume: dict[str, Any] | None = None) -> FitResult:
    """Fit, and leave the selected weights in the module's network.

    On several ranks every process calls it with the same module, data and trainer, and its own device.

    Parameters
    ----------
    module, data, trainer
        What is trained, on what, and :func:`make_trainer` of it.
    resume
        A state from :func:`zoo.core.resume.read_checkpoint`: the fit goes on from there to the same bits.

    Raises
    ------
    DivergenceError
        If a loss or gradient is not finite, or a loss explodes; the rows of the batch are named.
    InputError
        If a single item does not fit into memory, or memory runs out in a later step.
    """
    module.loader = data.train_loader
    checkpoints = next(c for c in trainer.callbacks if isinstance(c, Checkpoints))
    if resume is not None:
        restore(module, resume)
        checkpoints.resume = checkpoints.state = resume
        if _is_over(module, resume):
            adopt_sizes(module, data)
            next(c for c in trainer.callbacks if isinstance(c, RunLog)).restore(resume["rows"])
            return finish(module, resume)
    copy_from_main(module.network.state_dict().values())
    trainer.fit_loop.max_epochs = _laps_left(module)
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        with Interrupt(module) as interrupt, warnings.catch_warnings():
            trainer.callbacks.append(interrupt)
            _ignore_known_warnings()
            prepare(module, data, trainer)
            trainer.fit(module, datamodule=data)
    except StopFitError as stop:
        epochs = module.loader.epoch + (module.loader.start_window > 0)
        return FitResult(module.step, epochs, "none", str(stop))
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise ran_out(data, module.step) from error
        raise
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
        torch.use_deterministic_algorithms(mode=False)
    result = finish(module, checkpoints.state)
    # Asked in the last validation, when no step was left to hear of it: the fit is saved whole, and goes no further.
    asked = sum_over_ranks(torch.tensor(float(bool(module.asked["stop"])), dtype=torch.float64))
    return replace(result, stopped=module.asked["stop"] or "another process was asked to") if asked else result


def _is_over(module: ZooModule, state: dict[str, Any]) -> bool:
    """Whether a state is that of a finished fit, whose epochs or budget have not been raised since."""
    if state["stopped"] == "budget":
        return module.budget_seconds is not None and bool(state["elapsed"] >= module.budget_seconds)
    return state["stopped"] == "early" or bool(state["place"][0] >= module.train_spec.epochs)


def _laps_left(module: ZooModule) -> int:
    loader = module.loader
    if loader is None:
        raise ValueError("the module has no loader")
    return module.train_spec.epochs * loader.laps - (loader.epoch * loader.laps + loader.lap)


def finish(module: ZooModule, state: dict[str, Any]) -> FitResult:
    """Load the weights that the run selects from its last state into the network; return how the fit ended."""
    best: dict[str, Any] = state["best"]
    epoch, window = state["place"]
    if module.train_spec.select == "best" and best["weights"] is not None:
        module.network.load_state_dict(best["weights"])
        selected = f"best (epoch {best['epoch'] + 1}, val_{module.monitor} {best['value']:.4g})"
    else:
        module.network.load_state_dict(state["averaged_weights"] or state["network"])
        selected = "last"
    return FitResult(state["step"], epoch + (window > 0), selected, state["stopped"])


def quiet() -> None:
    """Keep Lightning's own notices (devices, tips) out of the output; its warnings stay."""
    for name in ("lightning.pytorch.utilities.rank_zero", "lightning.pytorch.accelerators.cuda", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _ignore_known_warnings() -> None:
    # Each names a choice made on purpose: our loaders need no worker processes and log by epoch.
    for message in (
        ".*does not have many workers.*",
        ".*number of training batches.*smaller than the logging interval.*",
        ".*You defined a `validation_step` but have no `val_dataloader`.*",
        ".*It is recommended to use `self.log.*sync_dist=True.*",  # the scores are the same on all ranks
        ".*You have overridden `transfer_batch_to_device`.*",
        ".*GPU available but not used.*",
        ".*`isinstance\\(treespec, LeafSpec\\)` is deprecated.*",
        ".*Detected call of `lr_scheduler.step\\(\\)` before `optimizer.step\\(\\)`.*",
    ):
        warnings.filterwarnings("ignore", message=message)
