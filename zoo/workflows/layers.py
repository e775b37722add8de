"""Which layer's features the heads are to stand on: the one that validates best."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from zoo.core.fit import fit, make_trainer
from zoo.errors import InputError
from zoo.specs.run import RunSpec
from zoo.workflows.build import prepare
from zoo.workflows.worker import device_of


def with_best_layer(
    run: RunSpec, *, data_folder: Path, mirror: Path | None, say: Callable[[str], None]
) -> tuple[RunSpec, list[tuple[int, float]]]:
    """Return the run with the layer whose heads score best on the validation part, and every layer's score.

    A run that does not ask for that is returned as it is, with no scores. Heads are trained on each layer's features as
    the run says; of equal layers the lower one wins, which costs less.

    Raises
    ------
    InputError
        If there is no validation part, or the encoder does not number its layers.
    """
    if run.start is None or run.start.layer != "best":
        return run, []
    whole = prepare(run, folder=data_folder, mirror=mirror)
    if not len(whole.parts.get("val", ())):
        raise InputError("--layer best needs a validation part to choose by. Give the split one, or name a layer.")
    count = getattr(whole.network.encoder, "n_layers", None)
    if count is None:
        raise InputError(f"--layer best: the architecture {whole.architecture} has features of its last layer only.")
    scores: list[tuple[int, float]] = []
    for layer in range(1, int(count)):
        candidate = run.with_layer(layer)
        prepared = prepare(candidate, folder=data_folder, mirror=mirror)
        fit(prepared.module, prepared.datamodule, make_trainer(prepared.module, folder=None, device=device_of(run)))
        value = prepared.module.best["value"]
        if value is not None:
            scores.append((layer, float(value)))
            say(f"layer {layer}: {prepared.module.monitor} {float(value):.4g} on validation")
    if not scores:
        raise InputError("--layer best: no layer could be scored on the validation part. Name a layer.")
    sign = 1 if whole.module.direction == "min" else -1
    best = min(scores, key=lambda found: (sign * found[1], found[0]))[0]
    return run.with_layer(best), scores
