"""What the processes of the runtime's tests do; each writes what it found to a file of its own."""

import json
import os
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from toy import toy

import zoo.core.compiled
from zoo.core.compiled import CompiledNetwork
from zoo.core.fit import fit, make_trainer
from zoo.core.ranks import rank
from zoo.core.resume import SaveEvery


def limit(module, most):
    """Make a network run out of memory above ``most`` items in training."""
    inner = module.network.encoder.forward

    def forward(inputs):
        if module.network.training and len(inputs.x) > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate more than there is.")
        return inner(inputs)

    module.network.encoder.forward = forward


def _fit(name, module, data, folder):
    folder = Path(folder) / name
    folder.mkdir(exist_ok=True)
    result = fit(module, data, make_trainer(module, folder=folder, device="cpu", save=SaveEvery(None, None)))
    found = {
        "sizes": module.sizes,
        "steps": result.steps,
        "compiled": isinstance(module.run, CompiledNetwork),
        "first": float(next(module.network.parameters()).flatten()[0]),
    }
    (folder / f"rank-{rank()}.json").write_text(json.dumps(found))


def rank_1_is_the_weaker(payload):
    """Fit twice: rank 1 alone is short of memory, and then rank 1 alone has no compiler."""
    os.environ["ZOO_PROBE"] = "1"
    module, data = toy(**payload["options"])
    if rank() == 1:
        limit(module, payload["most"])
    _fit("memory", module, data, payload["folder"])

    def stand_in(network, **_):
        def forward(batch):
            if rank() == 1:
                raise RuntimeError("no compiler here")
            return network(batch)  # as good as compiled

        return forward

    zoo.core.compiled.torch.compile = stand_in
    module, data = toy(**payload["options"], compile=True)
    _fit("compiler", module, data, payload["folder"])


def rank_1_has_a_broken_label(payload):
    """A label of rank 1's first window overflows."""
    module, data = toy(**payload["options"])
    if rank() == 1:
        batch = next(iter(data.train_loader))[0]
        row = int(batch.rows[batch.targets["a"].mask[:, 0]][0])
        data.source.labels["a"].values[row] = float("inf")
        (Path(payload["folder"]) / "rows").write_text(", ".join(str(r) for r in batch.rows.tolist()))
    _fit("broken", module, data, payload["folder"])
