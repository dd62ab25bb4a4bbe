"""Render a leaderboard in one of its formats. Only that format's code is loaded."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.report.arena_tables import Grouping, render_csv, render_json, render_markdown, render_table

if TYPE_CHECKING:
    from youbencha.report.leaderboard import Leaderboard


class ArenaFormat(StrEnum):
    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"
    CSV = "csv"


def render_leaderboard(
    board: Leaderboard, form: ArenaFormat, by: Grouping = Grouping.AGENT, *, width: int, base: Path
) -> str:
    """`width` is the terminal's; links in HTML are relative to `base`."""
    match form:
        case ArenaFormat.TABLE:
            return render_table(board, by, width)
        case ArenaFormat.MARKDOWN:
            return render_markdown(board, by)
        case ArenaFormat.JSON:
            return render_json(board)
        case ArenaFormat.CSV:
            return render_csv(board, by)
