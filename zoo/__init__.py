"""A model zoo for scientific machine learning.

The public names are imported when they are first used, so that ``import zoo`` and ``zoo --help`` stay instant.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "train": "zoo.workflows.train",
    "finetune": "zoo.workflows.finetune",
    "merge": "zoo.workflows.merge",
    "evaluate": "zoo.workflows.evaluate",
    "predict": "zoo.workflows.predict",
    "embed": "zoo.workflows.embed",
    "load": "zoo.workflows.predict",
    "verify": "zoo.workflows.verify",
    "list_tasks": "zoo.workflows.catalog",
    "list_datasets": "zoo.workflows.catalog",
    "list_models": "zoo.workflows.catalog",
    "ZooError": "zoo.errors",
}

__all__ = ["__version__", *_PUBLIC]  # noqa: PLE0604 - names from the table


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'zoo' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
