"""Tables: by rich on a terminal, plain aligned text in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

Cell = str | int | float | None


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], title: str = "") -> None:
    """Print rows below their column names; numbers stand right, None is left blank.

    Parameters
    ----------
    columns
        Column names.
    rows
        One sequence of cells per row, as long as ``columns``.
    title
        A line above the table, or none.
    """
    numeric = [bool(rows) and all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(columns))]
    cells = [[_text(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich(columns, cells, numeric, title)
    else:
        sys.stdout.write(plain_table(columns, cells, numeric, title))


def plain_table(
    columns: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool], title: str = ""
) -> str:
    """Return the table as aligned text, two spaces between columns."""
    grid = [list(columns), *(list(row) for row in cells)]
    widths = [max(len(row[i]) for row in grid) for i in range(len(columns))]
    grid.insert(1, ["-" * width for width in widths])
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in grid
    ]
    return "\n".join([*([title] if title else []), *lines]) + "\n"


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print named texts below each other; those that are empty are left out, long ones wrap on a terminal."""
    facts = [fact for fact in facts if fact[1]]
    width = max(len(name) for name, _ in facts)
    if not sys.stdout.isatty():
        sys.stdout.writelines(f"{name.ljust(width)}  {text}\n" for name, text in facts)
        return
    from rich.console import Console  # noqa: PLC0415 - only on a terminal
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2))
    for name, text in facts:
        grid.add_row(Text(name, style="bold"), Text(text))
    Console().print(grid)


def print_line(text: str = "") -> None:
    """Print one line."""
    sys.stdout.write(f"{text}\n")


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _print_rich(columns: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool], title: str) -> None:
    from rich import box  # noqa: PLC0415 - only on a terminal
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold")
    for column, right in zip(columns, numeric, strict=True):
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))  # Text: a name in [brackets] is no markup
    Console().print(table)
