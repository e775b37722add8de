"""The account of every row that was dropped, merged or changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo.core.merge import Merged
from zoo.core.types import RowProblem

_TOLD = 5


@dataclass
class Report:
    """What happened to the rows on their way to items.

    Parameters
    ----------
    dropped
        Rows without an item, with the reason.
    masked
        Rows with an item of which a censored label was masked.
    merged
        Unequal labels of duplicates, and what was done.
    counts
        ``rows``, ``items``, ``duplicate rows``, and what else was counted.
    notes
        What the featuriser changed on the way in, with the number of rows.
    """

    dropped: list[RowProblem] = field(default_factory=list)
    masked: list[RowProblem] = field(default_factory=list)
    merged: list[Merged] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one mapping per event for a CSV: ``row, event, target, value, reason``, in order of the rows."""
        lost = [(p, "dropped") for p in self.dropped] + [(p, "masked") for p in self.masked]
        found = [
            {"row": p.row, "event": event, "target": "", "value": p.value, "reason": p.reason} for p, event in lost
        ]
        for m in self.merged:
            reason = f"{m.action} of rows {', '.join(map(str, m.rows))}"
            value = " | ".join(m.values)
            found += [
                {"row": row, "event": "merged", "target": m.target, "value": value, "reason": reason} for row in m.rows
            ]
        return sorted(found, key=lambda event: int(event["row"]))

    def summary(self, names: Sequence[str] | None = None) -> list[str]:
        """Return the report as a few lines of text; ``names`` are the rows' own, if they have any."""
        lines = [", ".join(f"{n} {what}" for what, n in self.counts.items() if n)]
        reasons: dict[str, list[int]] = {}
        for problem in self.dropped:
            reasons.setdefault(problem.reason, []).append(problem.row)
        lines += [f"dropped, {reason}: {_rows_text(rows, names)}" for reason, rows in reasons.items()]
        if self.masked:
            lines.append(f"censored labels masked: {_rows_text([p.row for p in self.masked], names)}")
        lines += self._merged_lines()
        lines += [f"{what}: {n}" for what, n in self.notes.items() if n]
        return lines

    def _merged_lines(self) -> list[str]:
        lines = []
        for target in dict.fromkeys(m.target for m in self.merged):
            own = [m for m in self.merged if m.target == target]
            worst = max(own, key=lambda m: m.spread)
            text = f"unequal labels of duplicates, target {target!r}: {len(own)} items ({own[0].action})"
            if worst.spread:
                text += f"; largest difference {worst.spread:.4g} (rows {', '.join(map(str, worst.rows))})"
            lines.append(text)
        return lines


def _rows_text(rows: list[int], names: Sequence[str] | None) -> str:
    shown = ", ".join(str(row) if names is None else f"{row} {names[row]!r}" for row in rows[:_TOLD])
    more = f" and {len(rows) - _TOLD} more" if len(rows) > _TOLD else ""
    return f"{len(rows)} ({'row' if len(rows) == 1 else 'rows'} {shown}{more})"
