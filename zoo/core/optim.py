"""The optimiser: AdamW over groups that follow the meaning of the modules."""

from __future__ import annotations

import torch
from torch import nn

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


def parameter_groups(module: nn.Module) -> dict[str, list[tuple[str, nn.Parameter]]]:
    """Return every trainable parameter in exactly one group, ``decay`` or ``no_decay``.

    Biases, norms, embeddings and other parameters with fewer than two axes are not decayed. A module may say
    ``no_decay = True`` for its own parameters (embedding tables that are not an ``nn.Embedding``). A parameter shared
    by two modules goes to ``no_decay`` if either says so.
    """
    groups: dict[str, list[tuple[str, nn.Parameter]]] = {"decay": [], "no_decay": []}
    found: dict[int, tuple[str, nn.Parameter, bool]] = {}
    for prefix, owner in module.named_modules():
        exempt = isinstance(owner, _NO_DECAY) or getattr(owner, "no_decay", False) is True
        for name, parameter in owner.named_parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            full = f"{prefix}.{name}" if prefix else name
            known = found.get(id(parameter))
            skip = exempt or parameter.ndim < 2 or name.endswith("bias")
            found[id(parameter)] = (known[0] if known else full, parameter, skip or bool(known and known[2]))
    for full, parameter, skip in found.values():
        groups["no_decay" if skip else "decay"].append((full, parameter))
    return groups


def make_optimizer(module: nn.Module, train: TrainSpec) -> torch.optim.AdamW:
    """Return AdamW over the groups of :func:`parameter_groups`; empty groups are left out."""
    groups = parameter_groups(module)
    decay = {"decay": train.weight_decay, "no_decay": 0.0}
    return torch.optim.AdamW(
        [
            {"params": [p for _, p in members], "weight_decay": decay[name], "name": name}
            for name, members in groups.items()
            if members
        ],
        lr=train.lr,
        betas=(0.9, 0.999),
        fused=True,
    )


def describe_groups(optimizer: torch.optim.Optimizer) -> list[str]:
    """Return one line per group: tensors, elements, rate and decay."""
    return [
        f"{g['name']}: {len(g['params'])} tensors, {sum(p.numel() for p in g['params']):,} elements, "
        f"lr {g.get('initial_lr', g['lr']):g}, weight decay {g['weight_decay']:g}"
        for g in optimizer.param_groups
    ]
