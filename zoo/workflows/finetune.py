"""``zoo finetune``: a trained model goes on with another task, or a user's own file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.workflows.train import Run, start_run


def finetune(
    model: str | Path,
    task: str | None = None,
    *,
    mode: str | None = None,
    layer: int | str | None = None,
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
    """Start from a trained model's encoder, with new heads, on a task by name or a file of one's own.

    Parameters
    ----------
    model
        A zoo model's name, published weights (``esm2-8m``), a bundle or a run folder.
    mode
        ``full`` (the default): everything is trained, the encoder more slowly than the heads and its lower layers more
        slowly than the upper ones (``train.encoder_lr_scale``, ``train.layer_decay``). ``lora``: low-rank adapters
        beside the encoder's frozen weights (``start.lora_rank`` and the like; needs peft). ``head``: the heads alone,
        on features that the frozen encoder gives once and that are kept.
    layer
        After which of the encoder's layers the heads stand; by default the last. ``best``, with mode ``head``: the one
        whose heads score best on the validation part.
    task, data, labels, target, kind, input_column, out, config, settings, includes, mirror, progress, resume
        As in :func:`zoo.train`.

    Returns
    -------
    Run
        The folder, the bundle (self-contained: it needs the model it started from no more), and the scores.

    Raises
    ------
    InputError
        If the model and the data are of different domains, or the architecture does not allow the mode.
    BundleError
        If the model is damaged, or its encoder does not fit settings that were given.

    Examples
    --------
    >>> run = zoo.finetune("esm2-mini", data="my.csv", target="soluble")  # doctest: +SKIP
    """
    return start_run(
        model,
        task,
        data=data,
        labels=labels,
        target=target,
        kind=kind,
        input_column=input_column,
        out=out,
        config=config,
        settings={"start.mode": mode, "start.layer": layer, **(settings or {})},
        includes=includes,
        mirror=mirror,
        progress=progress,
        resume=resume,
    )
