"""What a domain must offer, and the one table that maps names to domains (imported only when asked for)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from zoo.core.types import Featurised
from zoo.errors import unknown_name
from zoo.specs.model import ModelSpec
from zoo.specs.task import Recipe

DOMAINS: dict[str, str] = {"molecules": "zoo.molecules.domain:DOMAIN", "proteins": "zoo.proteins.domain:DOMAIN"}


class Splitter(Protocol):
    """A domain's own way to divide items: one group label per item, whole groups go to one part."""

    def __call__(self, inputs: list[str], *, seed: int, options: Mapping[str, Any]) -> list[str]:
        """Return one group label per input."""
        ...


class Baseline(Protocol):
    """A cheap model fitted on the same rows: returns predictions for all ``inputs`` in original units.

    ``values`` and ``mask`` are ``(n, t)`` (float64; classes as indices), ``train`` the positions to fit on.
    Regression: ``(n, t)`` values. Binary: ``(n, t)`` probabilities of class 1.
    """

    def __call__(
        self,
        inputs: list[str],
        values: np.ndarray,
        mask: np.ndarray,
        train: np.ndarray,
        *,
        kind: str,
        seed: int,
        threads: int,
    ) -> np.ndarray:
        """Fit on the rows ``train`` and return predictions for all rows."""
        ...


class NodeBaseline(Protocol):
    """A cheap model of labels at a node level: like :class:`Baseline`, but a row of ``values`` is a node.

    ``ptr`` ``(n + 1,)`` are the offsets of the nodes of each of the ``n`` inputs, ``train`` the inputs to fit on.
    """

    def __call__(
        self,
        inputs: list[str],
        ptr: np.ndarray,
        values: np.ndarray,
        mask: np.ndarray,
        train: np.ndarray,
        *,
        kind: str,
        seed: int,
        threads: int,
    ) -> np.ndarray:
        """Fit on the nodes of the inputs ``train`` and return predictions for all nodes."""
        ...


@dataclass(frozen=True)
class Converted:
    """Published weights in the zoo's form: what the bundle says, the network's state, inputs to show, other files."""

    spec: ModelSpec
    state: dict[str, Tensor]
    examples: list[str]
    extra: dict[str, bytes]


class Published(Protocol):
    """Weights that others have published, by name or as a file of their own format."""

    def names(self) -> list[str]:
        """Return the names there are."""
        ...

    def locate(self, model: str, mirror: Path | None, *, extra: bool) -> tuple[str, Callable[[], Converted]] | None:
        """Return a key of a model's files, made of their checksums, and how to convert them; None for no such model.

        ``model`` is one of the names or the path of a file. With ``extra``, files that only some uses need must be
        there too.
        """
        ...


@dataclass(frozen=True)
class Domain:
    """One kind of data.

    Parameters
    ----------
    name, item_level, input_kind
        ``molecules``, ``molecule``, ``smiles``.
    node_levels
        Levels with one label per node: ``("atom", "bond")``.
    featuriser, featuriser_version
        Name and version that a bundle records; a mismatch is an error naming both.
    featuriser_options
        Every option with its default. Unknown options are errors.
    featurise
        ``featurise(inputs: list[str], options) -> Featurised``: parse, standardise and featurise. The same function
        in training and prediction. Never raises for a bad row: it goes to ``problems``.
    architectures
        ``name -> "module:Class"``. ``Class(levels=[...], **hparams)`` is an ``nn.Module`` whose ``forward(inputs)``
        returns ``{level: (n_nodes_or_items, dims[level])}``; ``Class.VERSION``, ``Class.HPARAMS`` (name -> default)
        and the instance attribute ``dims`` are required. Levels in ``Class.answers``, if it has that, need no head. Of
        hyper-parameters that only repeat a part, ``Class.ENOUGH`` (name -> number) says how many are enough to verify
        it. A method ``embed(inputs, level, layer)`` gives the features of any level after any of
        ``len(encoder.layers)``.
    baselines, splitters
        ``name -> "module:function"``; see :class:`Baseline` and :class:`Splitter`.
    """

    name: str
    item_level: str
    node_levels: tuple[str, ...]
    input_kind: str
    featuriser: str
    featuriser_version: int
    featuriser_options: Mapping[str, Any]
    featurise: Callable[[list[str], Mapping[str, Any]], Featurised]
    architectures: Mapping[str, str]
    baselines: Mapping[str, str]
    splitters: Mapping[str, str]
    node_baselines: Mapping[str, str] = field(default_factory=dict)
    """``name -> "module:function"`` for the node levels; see :class:`NodeBaseline`. Constants need no entry."""
    packages: tuple[str, ...] = ()
    """Distributions whose versions the featuriser depends on; recorded in every bundle and in the cache's key."""
    default_split: str = "random"
    default_recipe: Recipe = field(default_factory=Recipe)
    default_baselines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By target kind: the baselines that a run on a user's own file is compared with."""
    equivalents: Mapping[str, str] = field(default_factory=dict)
    """What no prediction may depend on (at a node level: but for the order of the nodes). ``input``:
    ``"module:function"`` from a raw input and a seed to another way to write it; ``items``: from the items and a seed
    to the same items with their nodes in another order."""
    paired: str = ""
    """Where ``pair`` is one of ``node_levels``: the level whose nodes it makes pairs of. The items then give its
    ``node_ptr``: every item has as many pairs as the square of its nodes, their matrix row by row."""
    pair_baselines: Mapping[str, str] = field(default_factory=dict)
    """``name -> "module:function"`` for level ``pair``; see :class:`NodeBaseline`, whose nodes are pairs here."""
    pairs: str = ""
    """``"module:function"`` from an encoder and its bundle: give it what it needs to speak of pairs of nodes."""
    published: str = ""
    """``"module:object"`` of weights that others have published, see :class:`Published`."""


def load_object(path: str) -> Any:
    """Import ``module:attribute``."""
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def get_domain(name: str) -> Domain:
    """Return a domain by name."""
    if name not in DOMAINS:
        raise unknown_name("domain", name, DOMAINS)
    domain: Domain = load_object(DOMAINS[name])
    return domain
