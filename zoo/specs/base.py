"""The base of every spec: strict, frozen, closed to unknown keys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """A frozen pydantic model that refuses unknown keys and never converts a type silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())
