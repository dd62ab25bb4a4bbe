"""Untrusted text inside markdown, as GitHub reads it: it stays text, in a table as anywhere.

Where a character would mean something, a backslash or an entity takes its meaning away. Entities where a backslash is
not enough: `\\|` ends a cell after another backslash, and `$` begins a formula whatever stands before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from youbencha.report.text import one_line, shortened, visible

_GAP = "&#8203;"
"""Unseen, and enough to keep `@name` and `#1` from calling people and issues."""
_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "\\": "&#92;", "@": "@" + _GAP, "#": "#" + _GAP}
_ESCAPED |= {sign: f"\\{sign}" for sign in "`*_[]~"}
_MEANINGFUL = re.compile(r"[&<>|\\`*_\[\]~]|@(?=\w)|#(?=\d)")
_BLOCK_START = re.compile(r"^(\d*)([-+#=:]|(?<=\d)[.)])")
_BACKTICKS = re.compile("`+")
_LONGEST_BLOCK = 8000


def escaped(text: str, limit: int = 300) -> str:
    """On one line, meaning nothing but itself. For cells and inside of sentences."""
    text = _MEANINGFUL.sub(lambda found: _ESCAPED[found.group()], one_line(text, limit))
    return text.replace("$", "&#36;") if text.count("$") > 1 else text  # one alone begins no formula


def paragraph(text: str, limit: int = 2000) -> str:
    """A line of its own: neither a heading, a list, nor a table."""
    return _BLOCK_START.sub(lambda found: f"{found[1]}&#{ord(found[2])};", escaped(text, limit))


def code(text: str, limit: int = 300) -> str:
    """A name, a path, a hash. As HTML where backticks would not hold."""
    line = one_line(text, limit)
    if not line:
        return ""
    if _BACKTICKS.search(line) or "|" in line:
        return f"<code>{escaped(line, limit * 2)}</code>"
    return f"`{line}`"


def block(text: str, language: str = "text") -> str:
    """Several lines as they are. The fence is longer than any in the text."""
    body = shortened(visible(text[: _LONGEST_BLOCK * 2]), _LONGEST_BLOCK).strip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(body)), default=0))
    return f"{fence}{language}\n{body}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Cells come escaped. Columns of `numbers` stand on the right."""
    line = ["---:" if column in numbers else "---" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, line, *rows))
