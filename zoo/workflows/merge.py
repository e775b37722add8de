"""A model whose adapters have become part of its weights."""

from __future__ import annotations

from pathlib import Path

import torch

from zoo.core.bundle import read_example, read_spec, read_weights, save_bundle
from zoo.errors import BundleError, InputError
from zoo.workflows.cards import bundle_readme
from zoo.workflows.load import check_example, find_bundle
from zoo.workflows.pretrained import merged_state
from zoo.workflows.rebuild import rebuild


def merge(model: str | Path, out: str | Path) -> Path:
    """Write a bundle with its adapters merged into the weights; it needs no peft, and predicts a little faster.

    Parameters
    ----------
    model
        A bundle or a run folder of a model that was fine-tuned with mode ``lora``.
    out
        Folder to write.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        If the model has no adapters.
    BundleError
        If the merged model's predictions of the bundle's examples differ by more than 1e-5 (relative above 1).
    ZooError
        If the folder exists or cannot be written.
    """
    folder, target = find_bundle(model), Path(out)
    spec = read_spec(folder)
    if spec.architecture.adapter is None:
        raise InputError(f"{folder} has no adapters to merge: it is whole as it is.")
    state = merged_state(spec, read_weights(folder))
    architecture = spec.architecture.model_copy(update={"adapter": None})
    provenance = spec.provenance.model_copy(update={"parameters": sum(t.numel() for t in state.values())})
    merged = spec.model_copy(update={"architecture": architecture, "provenance": provenance})
    try:
        check_example(folder, rebuild(merged, state, str(target), torch.device("cpu")), tolerance=1e-5)
    except BundleError as error:
        raise BundleError(f"merging changed what the model predicts: {error}") from error
    example = read_example(folder)
    save_bundle(target, merged, state, example, bundle_readme(merged, example))
    return target
