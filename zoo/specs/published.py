"""Models that others have published and that are known by name: what can be said of them before they are fetched."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

SOURCES = ("zoo.proteins.official:MODELS",)
"""Where the lists stand, as plain data."""


@dataclass(frozen=True)
class PublishedModel:
    """One of them; its file is fetched and becomes a bundle when it is first used."""

    name: str
    domain: str
    architecture: str
    parameters: int
    targets: str
    task: str
    dataset: str
    licence: str
    citation: str
    url: str


def published_models(domain: str | None = None) -> list[PublishedModel]:
    """Return all published models, or those of one domain."""
    found: list[PublishedModel] = []
    for source in SOURCES:
        module, _, name = source.partition(":")
        found += getattr(importlib.import_module(module), name)
    return [model for model in found if domain in (None, model.domain)]
