"""How lists are shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import date

Cell = str | int | date | None
NOTHING_FOUND = 3


def show(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, as_json: bool) -> int:
    """Print a list as a table or as JSON, and return the exit code."""
    if as_json:
        keys = [column.lower().replace(" ", "_") for column in columns]
        objects = [dict(zip(keys, row, strict=True)) for row in rows]
        print(json.dumps(objects, default=date.isoformat, ensure_ascii=False))
    elif rows:
        _print_table(columns, rows)
    if not rows:
        print("nothing found", file=sys.stderr)
        return NOTHING_FOUND
    return 0


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    for line in (columns, *texts):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
