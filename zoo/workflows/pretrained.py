"""The trained model that a run starts from: found, opened, and put into a network of another task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zoo.core.adapters import add_adapters, merge_adapters
from zoo.core.bundle import read_spec, read_weights
from zoo.core.domain import get_domain, load_object
from zoo.core.heads import Network
from zoo.errors import BundleError, InputError
from zoo.specs.model import AdapterSpec, ModelSpec
from zoo.specs.run import StartSpec
from zoo.workflows.load import find_bundle

_PREFIX = "encoder."
_LAYER_DECAY, _ENCODER_LR_SCALE = 0.9, 0.3
"""Rates of a trained encoder beside new heads: its top layer learns a third as fast, each layer below a tenth less."""


@dataclass(frozen=True)
class Start:
    """A trained model: what its bundle says, and its encoder's tensors without prefix, adapters merged."""

    spec: ModelSpec
    encoder: dict[str, Tensor]
    config_sha256: str


def find_start(model: str | Path, includes: Sequence[Path], mirror: Path | None) -> tuple[StartSpec, ModelSpec]:
    """Return a model as a run names it, and what its bundle says."""
    folder = find_bundle(model, list(includes), mirror)
    spec = read_spec(folder)
    # A name is found again anywhere; the folder of a user's own model is not a name.
    is_name = not Path(model).exists() and not includes
    return StartSpec(model=str(model) if is_name else str(folder.resolve()), config_sha256=spec.config_sha256), spec


def open_start(start: StartSpec, mirror: Path | None) -> Start:
    """Return the model that a run starts from.

    Raises
    ------
    BundleError
        If it is no longer there, or no longer the same.
    """
    folder = find_bundle(start.model, [], mirror)
    spec = read_spec(folder)
    if spec.config_sha256 != start.config_sha256:
        raise BundleError(
            f"{folder} is no longer the model that the run was started from (its checksum was "
            f"{start.config_sha256[:12]}, and is {spec.config_sha256[:12]}). Put that one back, or start a new run."
        )
    state = merged_state(spec, read_weights(folder))
    encoder = {name.removeprefix(_PREFIX): t for name, t in state.items() if name.startswith(_PREFIX)}
    return Start(spec, encoder, spec.config_sha256)


def merged_state(spec: ModelSpec, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a bundle's tensors, its adapters, if any, merged into the weights."""
    adapter = spec.architecture.adapter
    return state if adapter is None else merge_adapters(state, adapter)


def card_of(spec: ModelSpec) -> dict[str, Any]:
    """Return the settings that a model brings to the runs that start from it, by dotted key."""
    encoder = load_object(get_domain(spec.domain).architectures[spec.architecture.name])
    card: dict[str, Any] = {"model.architecture": spec.architecture.name}
    card |= {f"model.hparams.{name}": value for name, value in spec.architecture.hparams.items()}
    card |= {f"model.featuriser.{name}": value for name, value in spec.featuriser.options.items()}
    card["train.encoder_lr_scale"] = _ENCODER_LR_SCALE
    if hasattr(encoder, "layer_of"):
        card["train.layer_decay"] = _LAYER_DECAY
    return card


def hparams_at(encoder: type[nn.Module], hparams: dict[str, Any], start: StartSpec) -> dict[str, Any]:
    """Return the hyper-parameters of an encoder that ends after the layer asked for."""
    if start.layer in (None, "best"):  # the best one is yet to be chosen
        return hparams
    if not hasattr(encoder, "ending_at"):
        raise InputError(f"start.layer: the architecture {encoder.__name__} has features of its last layer only.")
    ended: dict[str, Any] = encoder.ending_at(hparams, start.layer)
    return ended


def take_over(network: Network, start: Start, how: StartSpec, seed: int) -> list[str]:
    """Give a fresh network the encoder of a trained one, and freeze what is not trained.

    Returns
    -------
    list of str
        The encoder's own tensors that the trained one has not got; they are trained in every mode.

    Raises
    ------
    BundleError
        If a tensor has another shape.
    InputError
        If the architecture takes no adapters, or nothing would be left to train.
    """
    encoder = network.encoder
    own = encoder.state_dict()
    new = [name for name in own if name not in start.encoder]
    wrong = [n for n, t in own.items() if n in start.encoder and start.encoder[n].shape != t.shape]
    if wrong or len(new) == len(own):
        name = (wrong or new)[0]
        theirs = tuple(start.encoder[name].shape) if wrong else "nothing"
        raise BundleError(
            f"{how.model} does not fit the encoder asked for: {name} is {tuple(own[name].shape)} there, and the model "
            f"has {theirs}. Leave out settings of model.hparams and model.featuriser that change the encoder."
        )
    encoder.load_state_dict({n: start.encoder[n].to(t) for n, t in own.items() if n in start.encoder}, strict=False)
    if how.mode != "full":
        for name, parameter in encoder.named_parameters():
            parameter.requires_grad_(name in new)
    if how.mode == "lora":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            add_adapters(encoder, adapter_of(encoder, how))
    if not any(p.requires_grad for p in network.parameters()):
        raise InputError("with mode head nothing is left to train, for the encoder answers itself. Use --mode full.")
    return new


def adapter_of(encoder: nn.Module, how: StartSpec) -> AdapterSpec:
    """Return the adapters that a run asks for."""
    known: Sequence[str] | None = getattr(encoder, "ADAPTED", None)
    if known is None:
        raise InputError(
            f"mode lora: the architecture {type(encoder).__name__} takes no adapters. Use --mode full or --mode head."
        )
    return AdapterSpec(
        rank=how.lora_rank,
        alpha=how.lora_alpha,
        dropout=how.lora_dropout,
        targets=list(how.lora_targets or known),
    )


def provenance_of(start: Start, how: StartSpec) -> dict[str, str]:
    """Return what a fine-tuned model says of the one it started from."""
    made_on = start.spec.provenance
    layer = {} if how.layer is None else {"layer": str(how.layer)}
    return {
        "model": start.spec.name,
        "config_sha256": start.config_sha256,
        "dataset": made_on.dataset,
        "licence": made_on.licence,
        "mode": how.mode,
        **layer,
    }
