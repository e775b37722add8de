"""The optimiser: its groups follow the meaning of the modules, and every trainable parameter is in exactly one.

A group is a place and a kind. The kind says how a parameter is updated:

- ``no_decay``: biases, norms, embeddings, other parameters with fewer than two axes, and those of a module that says
  ``no_decay = True``;
- ``muon`` (with ``optimizer: muon``): of what remains, the weight matrices of the encoder's linear layers, but for
  layers that say ``no_muon = True``;
- ``decay``: the rest.

The place says at which rate: everything outside ``network.encoder`` is the ``head``, at ``lr``; the encoder has its
own rate as a whole, or one per layer if it numbers its layers, by two attributes: ``n_layers``, and ``layer_of(name)``,
which takes a parameter's name within the encoder and returns its layer, 0 being the first (embeddings) and
``n_layers - 1`` the one next to the heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from zoo.core.muon import MuonAdamW
from zoo.errors import InputError
from zoo.specs.task import TrainSpec

_NO_DECAY = (
    nn.Embedding,
    nn.EmbeddingBag,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
    nn.InstanceNorm1d,
    nn.InstanceNorm2d,
    nn.InstanceNorm3d,
)
_KINDS = ("muon", "decay", "no_decay")
_BETAS = (0.9, 0.999)
_ENCODER = "encoder."


@dataclass(frozen=True)
class Group:
    """Parameters that are updated alike, with their names."""

    name: str
    kind: str
    lr: float
    weight_decay: float
    members: list[tuple[str, nn.Parameter]]

    def to_torch(self) -> dict[str, Any]:
        """Return the group as torch's optimisers take it."""
        parameters = [p for _, p in self.members]
        return {"params": parameters, "lr": self.lr, "weight_decay": self.weight_decay, "name": self.name}


class _Place(NamedTuple):
    """How many layers below the heads, the prefix of the groups there, and their rate."""

    below: int
    prefix: str
    lr: float


def parameter_groups(module: nn.Module, train: TrainSpec) -> list[Group]:
    """Return every trainable parameter in exactly one group, from the heads down; no group is empty.

    With one rate for all, groups are named by their kind, ``decay``; otherwise by place and kind, ``layer3/decay``.
    A parameter that two modules share has the most careful kind (no decay before decay before Muon) and the place
    where it is met first.

    Raises
    ------
    InputError
        If the settings ask for layers, or for matrices open to Muon, of a network that has none.
    """
    place_of = _places(module, train)
    found: dict[tuple[_Place, str], list[tuple[str, nn.Parameter]]] = {}
    for name, parameter, kind in _by_kind(module, muon=train.optimizer == "muon"):
        found.setdefault((place_of(name), kind), []).append((name, parameter))
    if train.optimizer == "muon" and not any(kind == "muon" for _, kind in found):
        raise InputError(
            "train.optimizer is muon, but no trainable matrix of this model is open to it: it takes the weights of "
            "linear layers inside the encoder. Type --set train.optimizer=adamw."
        )
    return [
        Group(f"{place.prefix}{kind}", kind, place.lr, 0.0 if kind == "no_decay" else train.weight_decay, members)
        # From the heads down, for the rate of the first group is the one that is logged.
        for (place, kind), members in sorted(found.items(), key=lambda item: (item[0][0], _KINDS.index(item[0][1])))
    ]


def make_optimizer(module: nn.Module, train: TrainSpec) -> torch.optim.Optimizer:
    """Return the optimiser over the groups of :func:`parameter_groups`."""
    groups = parameter_groups(module, train)
    if train.optimizer == "muon":
        algorithms = ["muon" if g.kind == "muon" else "adamw" for g in groups]
        return MuonAdamW(
            [g.to_torch() | {"algorithm": a} for g, a in zip(groups, algorithms, strict=True)], betas=_BETAS
        )
    optimizer = torch.optim.AdamW([g.to_torch() for g in groups], lr=train.lr, betas=_BETAS, fused=True)
    # A fused AdamW tells a gradient scaler to leave the gradient scaled for its kernel, so clipping would see it so.
    optimizer._step_supports_amp_scaling = False  # noqa: SLF001
    return optimizer


def describe_groups(optimizer: torch.optim.Optimizer) -> list[str]:
    """Return one line per group: tensors, elements, peak rate and decay."""
    return [
        f"{g['name']}: {len(g['params'])} tensor{'' if len(g['params']) == 1 else 's'}, "
        f"{sum(p.numel() for p in g['params']):,} elements, "
        f"lr {g.get('initial_lr', g['lr']):g}, weight decay {g['weight_decay']:g}"
        for g in optimizer.param_groups
    ]


def _by_kind(module: nn.Module, *, muon: bool) -> list[tuple[str, nn.Parameter, str]]:
    """Return every trainable parameter once, with its name and kind, in the order in which modules are met."""
    found: dict[int, tuple[str, nn.Parameter, str]] = {}
    for prefix, owner in module.named_modules():
        for name, parameter in owner.named_parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            full = f"{prefix}.{name}" if prefix else name
            kind = _kind(owner, name, parameter, muon=muon and full.startswith(_ENCODER))
            first, _, before = found.get(id(parameter), (full, parameter, kind))
            found[id(parameter)] = (first, parameter, max(kind, before, key=_KINDS.index))
    return list(found.values())


def _kind(owner: nn.Module, name: str, parameter: nn.Parameter, *, muon: bool) -> str:
    exempt = isinstance(owner, _NO_DECAY) or getattr(owner, "no_decay", False) is True
    if exempt or parameter.ndim < 2 or name.endswith("bias"):
        return "no_decay"
    return "muon" if muon and name == "weight" and _joins_hidden_features(owner, parameter) else "decay"


def _joins_hidden_features(owner: nn.Module, weight: nn.Parameter) -> bool:
    """Say whether a module's weight is a matrix between hidden features.

    So is the weight of a linear layer (torch's and PyG's are two classes that share only the name) with more than one
    row and column. A layer on raw features or one-hot fields, whose columns mean different things, says
    ``no_muon = True``; tables of embeddings, stacked matrices (recurrent cells, attention's joint projection) and
    convolutions are of other classes.
    """
    linear = any(ancestor.__name__ == "Linear" for ancestor in type(owner).__mro__)
    return linear and not getattr(owner, "no_muon", False) and weight.ndim == 2 and min(weight.shape) > 1


def _places(module: nn.Module, train: TrainSpec) -> Callable[[str], _Place]:
    """Return the function from a parameter's name to its place."""
    head = _Place(0, "head/", train.lr)
    encoder_lr = train.lr * train.encoder_lr_scale
    if train.layer_decay is None:
        if train.encoder_lr_scale == 1:
            return lambda _: _Place(0, "", train.lr)
        return lambda name: _Place(1, "encoder/", encoder_lr) if name.startswith(_ENCODER) else head
    encoder, decay = getattr(module, "encoder", None), train.layer_decay
    architecture = type(encoder).__name__
    n_layers, layer_of = getattr(encoder, "n_layers", None), getattr(encoder, "layer_of", None)
    if n_layers is None or layer_of is None:
        raise InputError(
            f"train.layer_decay is {decay:g}, but the architecture {architecture} does not number its layers. "
            "Type --set train.layer_decay=null; train.encoder_lr_scale gives the whole encoder a rate of its own."
        )

    def place(name: str) -> _Place:
        if not name.startswith(_ENCODER):
            return head
        layer = layer_of(name.removeprefix(_ENCODER))
        if layer not in range(n_layers):
            raise ValueError(f"{architecture}.layer_of puts {name} into layer {layer} of {n_layers}")
        below = n_layers - layer
        return _Place(below, f"layer{layer}/", encoder_lr * decay**below)

    return place
