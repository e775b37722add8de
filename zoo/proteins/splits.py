"""Groups of proteins that belong together: clusters of sequences with more than a given share of equal residues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zoo.core.options import with_defaults
from zoo.proteins.similarity import cluster

OPTIONS: dict[str, Any] = {"identity": 0.4, "coverage": 0.8, "tool": "auto"}
"""``identity``: share of equal residues from which on two proteins stay together; ``coverage``: share of both that
the alignment must cover; ``tool``: ``mmseqs``, ``builtin``, or ``auto``, MMseqs2 where it is installed."""


def identity(inputs: Sequence[str], *, seed: int, options: Mapping[str, Any]) -> list[str]:
    """Return the cluster of each sequence; see :func:`zoo.proteins.similarity.cluster`.

    Parameters
    ----------
    inputs
        ``n`` sequences of one-letter codes.
    seed
        Not used: clusters are what they are; the core shuffles whole groups.
    options
        Any of :data:`OPTIONS`; the rest keep their defaults.
    """
    del seed
    return cluster(inputs, **with_defaults("option of split identity", OPTIONS, options))
