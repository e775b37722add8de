"""Who takes part in a run: this process alone, processes it starts, or processes that a cluster has started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch
from lightning.fabric.plugins.environments import SLURMEnvironment

from zoo.core.launch import process_group
from zoo.core.ranks import is_main, ranks
from zoo.errors import InputError
from zoo.specs.run import RunSpec


def started_by() -> str | None:
    """Return ``torchrun`` or ``srun`` if it started several processes of this very command, else None."""
    if "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return "torchrun"
    # Of a batch script itself SLURM says the tasks as well; only inside a step is there one process per task.
    if int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1 and "SLURM_PROCID" in os.environ:
        return "srun"
    return None


@contextlib.contextmanager
def membership(*, gpu: bool) -> Iterator[None]:
    """Join the other processes where a cluster has started several; a single process needs nothing."""
    starter = started_by()
    if starter is None:
        yield
        return
    if starter == "srun":
        _translate_slurm()
    with process_group(gpu=gpu):
        yield


def _translate_slurm() -> None:
    """Set torchrun's variables from those of a SLURM step; a port follows from the job's number."""
    given = os.environ
    nodes = given.get("SLURM_STEP_NODELIST") or given.get("SLURM_NODELIST", "localhost")
    given.setdefault("MASTER_ADDR", SLURMEnvironment.resolve_root_node_address(nodes))
    given.setdefault("MASTER_PORT", str(15000 + int(given.get("SLURM_JOB_ID", "0")) % 10000))
    given["RANK"], given["WORLD_SIZE"] = given["SLURM_PROCID"], given["SLURM_STEP_NUM_TASKS"]
    given["LOCAL_RANK"] = given.get("SLURM_LOCALID", "0")


def is_writer() -> bool:
    """Whether this process speaks and writes for the job; known before the processes have joined."""
    if started_by() is None:
        return is_main()
    return os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) == "0"


def check_devices(run: RunSpec) -> None:
    """Raise if a run asks for more processes than there are GPUs, or than a cluster's starter has started."""
    starter = started_by()
    if starter is not None and run.devices not in (1, ranks()):
        raise InputError(f"{starter} started {ranks()} processes, and --devices asks for {run.devices}: leave it out.")
    if run.device != "cpu" and torch.cuda.is_available() and starter is None:
        present = torch.cuda.device_count()
        if run.devices > present:
            raise InputError(f"--devices {run.devices}: torch sees {present} GPUs here. Use --devices {present}.")
    if run.devices > run.train.batch_size and run.train.batch_cost is None:
        raise InputError(
            f"--devices {run.devices} is more than the {run.train.batch_size} items of a step (train.batch_size): "
            "some processes would have nothing to do."
        )
