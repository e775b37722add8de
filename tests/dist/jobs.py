"""What the processes of the tests do; each function writes what it found to files named in the payload."""

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
from oracle_case import CASES, check, run
from toy import toy

from zoo.core.evaluation import make_outcome, raw_outputs, to_predictions
from zoo.core.fit import finish, fit, make_trainer
from zoo.core.metrics import score
from zoo.core.ranks import long_barrier, rank, ranks
from zoo.core.resume import SaveEvery, read_checkpoint
from zoo.workflows.build import asked_labels, prepare
from zoo.workflows.runfolder import stored_run

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def train_toy(payload):
    """Fit the toy problem; the log and last.ckpt go to the folder."""
    module, data = toy(**payload["options"])
    folder = Path(payload["folder"])
    fail_at = payload.get("fail_at")
    if fail_at is not None and rank() == fail_at["rank"]:
        step = module.training_step

        def failing(window, batch_idx):
            if module.step == fail_at["step"]:
                raise ValueError("this rank was made to fail")
            step(window, batch_idx)

        module.training_step = failing
    trainer = make_trainer(module, folder=folder, device="cpu", save=SaveEvery(None, None))
    resume = read_checkpoint(folder / "last.ckpt") if payload.get("resume") else None
    result = fit(module, data, trainer, resume=resume)
    (folder / f"rank-{rank()}-of-{ranks()}.json").write_text(
        json.dumps({"stopped": result.stopped, "seen": module.best["value"]})
    )


def evaluate_toy(payload):
    """Evaluate one network on parts of several sizes; every rank writes all outputs that it got."""
    module, data = toy(**payload["options"])
    for n in payload["sizes"]:
        index = np.arange(n)
        data.eval_limit = payload["batch"]
        raw = raw_outputs(module.network, data.loader(index), torch.device("cpu"))
        module.validation.reset()
        for batch in data.loader(index):
            module.validation.update(batch, module.network(batch))
        loss = module.validation.loss(module.weights, "per_target")
        path = Path(payload["folder"]) / f"n{n}-rank{rank()}of{ranks()}.npz"
        np.savez(path, loss=loss, **raw)


def oracle(payload):
    """Work off every case of the oracle that has as many ranks as the job; every rank checks every step."""
    done = []
    for case in CASES:
        if len(case["ranks"]) == ranks():
            check(case, *run(case, rank=rank()))
            done.append(case["name"])
    (Path(payload["folder"]) / f"oracle-{rank()}-of-{ranks()}.json").write_text(json.dumps(done))


def evaluate_saved(payload):
    """Score the model that a run saved on its training part (uneven), spread over the ranks."""
    folder = Path(payload["folder"])
    run = stored_run(folder)
    prepared = prepare(run, folder=Path(payload["data"]))
    finish(prepared.module, read_checkpoint(folder / "last.ckpt"))
    for rows in payload["rows"]:
        index = prepared.parts[payload["part"]][:rows]
        raw = raw_outputs(prepared.module.network, prepared.datamodule.loader(index), torch.device("cpu"))
        labels = asked_labels(prepared.data.records, prepared.datamodule.source.hiding, index)
        outcomes = [
            make_outcome(t, to_predictions(t, prepared.scalers[t.name], raw[t.name]), labels[t.name])
            for t in run.task.targets
        ]
        scores = {m.name: score(m.name, outcomes).model_dump() for m in run.task.metrics}
        out = Path(payload["out"]) / f"scores-{rows}-{rank()}-of-{ranks()}.json"
        out.write_text(json.dumps(scores))


def slow_main(payload):
    """Let rank 0 take longer alone than a collective waits, inside a long barrier and beside a plain one."""
    distributed.destroy_process_group()
    store = f"file://{payload['folder']}/store"
    patience = timedelta(seconds=2)
    distributed.init_process_group("gloo", init_method=store, rank=RANK, world_size=WORLD, timeout=patience)
    with long_barrier():
        if rank() == 0:
            time.sleep(5)
            (Path(payload["folder"]) / "through").touch()
    assert (Path(payload["folder"]) / "through").exists()
    if rank() == 0:
        time.sleep(5)
        return
    with pytest.raises(RuntimeError, match="[Tt]imed out"):
        distributed.barrier()
    (Path(payload["folder"]) / "a-plain-barrier-gave-up").touch()
