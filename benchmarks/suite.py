"""What ``make bench`` measures: tasks, seeds, and variants with a name and settings of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Series:
    """Runs of one variant on one task: seed ``s`` goes with split seed ``s``."""

    task: str
    seeds: tuple[int, ...]
    label: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    baselines: bool = True
    chemprop: bool = False


FIVE = (0, 1, 2, 3, 4)
SUITE = [
    Series("freesolv", FIVE, chemprop=True),
    Series("bbb-logbb", FIVE, chemprop=True),
    Series("bbb-class", FIVE),
    Series("esol", FIVE),
    Series("tox21", (0, 1, 2)),
    Series("solubility", FIVE),
    Series("freesolv-crippen", FIVE),
    Series("bbb", FIVE),
    Series("clintox", FIVE),
    Series("sider", FIVE),
]
