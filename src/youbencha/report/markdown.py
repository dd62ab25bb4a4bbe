"""Render a document as GitHub's Markdown. Untrusted text is escaped, in tables as well."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from youbencha.report.document import (
    MAX_CELL,
    Block,
    Code,
    FactList,
    FileList,
    Folded,
    Heading,
    Line,
    NoteList,
    Paragraph,
    Preformatted,
    Span,
    Strong,
    Table,
    tidy,
)
from youbencha.text import one_line, shorten, visible

_GAP = "&#8203;"
"""An invisible character that keeps `@name` and `#1` from becoming mentions and references."""

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "\\": "&#92;", "@": "@" + _GAP, "#": "#" + _GAP}
_ESCAPES |= {sign: f"\\{sign}" for sign in "`*_[]~"}
"""Escapes for characters that have a meaning in GitHub's Markdown.

They are entities if a backslash is not enough: `\\|` ends a cell after another backslash.
"""

_MEANINGFUL = re.compile(r"[&<>|\\`*_\[\]~]|@(?=\w)|#(?=\d)")
_BLOCK_START = re.compile(r"^(\d*)([-+#=:]|(?<=\d)[.)])")
_BACKTICKS = re.compile("`+")
_MAX_BLOCK = 8000
_MAX_PROSE = 2000


def render_markdown(blocks: Iterable[Block]) -> str:
    return "\n\n".join(map(_render, blocks)) + "\n"


def _render(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_inline(text)}"
        case Paragraph(text):
            return _start(_inline(text))
        case NoteList(lines):
            return "\n".join(f"- {_inline(line)}" for line in lines)
        case FactList(rows):
            return _table(("", ""), [(f"**{label}**", _inline(value, MAX_CELL)) for label, value in rows])
        case Table():
            return _table_with_notes(block)
        case Preformatted(text):
            return fence(text)
        case FileList(rows):
            return "\n".join(f"- {escape(label)}: {_links(files)}" for label, files in rows)
        case Folded(title, blocks):
            return f"<details>\n<summary>{title}</summary>\n\n{render_markdown(blocks)}\n</details>"


def _inline(line: Line, limit: int = _MAX_PROSE) -> str:
    spans = line if isinstance(line, tuple) else (line,)
    texts = [_span(span, limit) for span in spans]
    # Two dollars in a line would be a formula.
    many = sum(text.count("$") for span, text in zip(spans, texts, strict=True) if not isinstance(span, Code)) > 1
    escaped = (
        text.replace("$", "&#36;") if many and not isinstance(span, Code) else text
        for span, text in zip(spans, texts, strict=True)
    )
    return "".join(escaped).strip(" ")


def _span(span: Span, limit: int) -> str:
    match span:
        case Code(text):
            return code(text, limit)
        case Strong(text):
            return f"**{escape(text, limit)}**"
        case text:
            return escape(text, limit)


def _table_with_notes(shown: Table) -> str:
    numbers = [at for at, column in enumerate(shown.columns) if column.number]
    header = [escape(column.title) for column in shown.columns]
    text = _table(header, [[_inline(cell, MAX_CELL) for cell in row] for row in shown.rows], numbers)
    notes = [f"{column.title}: {column.note}" for column in shown.columns if column.note]
    lines = "\n".join(f"- {escape(note, _MAX_PROSE)}" for note in (*notes, *shown.notes))
    return f"{text}\n\n{lines}" if lines else text


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Format a table of escaped cells. The columns in `numbers` are aligned to the right."""
    line = ["---:" if column in numbers else "---" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, line, *rows))


def _links(files: Sequence[tuple[str, str]]) -> str:
    return " · ".join(f"[{escape(name)}]({quote(path, errors='replace')})" for name, path in files)


def escape(text: str, limit: int = 300) -> str:
    """Escape a text for cells and sentences: one line, without markup."""
    return _MEANINGFUL.sub(lambda match: _ESCAPES[match.group()], tidy(text, limit))


def _start(text: str) -> str:
    """Keep an escaped paragraph from being a heading, a list or a table."""
    return _BLOCK_START.sub(lambda match: f"{match[1]}&#{ord(match[2])};", text)


def code(text: str, limit: int = 300) -> str:
    """Format a name, a path or a hash as code; as HTML if it contains backticks or a bar."""
    line = one_line(text, limit)
    if not line:
        return ""
    if _BACKTICKS.search(line) or "|" in line:
        return f"<code>{escape(line, limit * 2)}</code>"
    return f"`{line}`"


def fence(text: str) -> str:
    """Format several lines as a code block. The fence is longer than any in the text."""
    body = shorten(visible(text[: _MAX_BLOCK * 2]), _MAX_BLOCK).strip("\n")
    marks = "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(body)), default=0))
    return f"{marks}text\n{body}\n{marks}"
