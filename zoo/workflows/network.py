"""Networks from names and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from zoo.core.adapters import add_adapters
from zoo.core.domain import Domain, load_object
from zoo.core.heads import HEAD_DEFAULTS, Network
from zoo.core.options import with_defaults
from zoo.errors import InputError
from zoo.specs.model import AdapterSpec
from zoo.specs.target import TargetSpec

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def split_hparams(domain: Domain, architecture: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return every hyper-parameter of an architecture and of the head, defaults filled in; types are checked."""
    known: dict[str, Any] = {**load_object(domain.architectures[architecture]).HPARAMS, **HEAD_DEFAULTS}
    full = with_defaults(f"hyper-parameter of {architecture}", known, given)
    return {k: v for k, v in full.items() if k not in HEAD_DEFAULTS}, {k: full[k] for k in HEAD_DEFAULTS}


def build_network(
    domain: Domain,
    architecture: str,
    hparams: Mapping[str, Any],
    head: Mapping[str, Any],
    *,
    targets: list[TargetSpec],
    n_features: int,
    seed: int,
    adapter: AdapterSpec | None = None,
) -> Network:
    """Return a freshly initialised network; the initial weights depend on the seed alone."""
    levels = list(dict.fromkeys(t.level for t in targets))
    if n_features and domain.item_level not in levels:
        raise InputError(
            f"item-level features (descriptors, feature columns) need a target at level {domain.item_level!r}; "
            f"these targets are at {', '.join(levels)}. Leave the features out."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = load_object(domain.architectures[architecture])(levels=levels, **hparams)
        if adapter is not None:
            add_adapters(encoder, adapter)
        return Network(encoder, targets, domain.item_level, n_features, head)
