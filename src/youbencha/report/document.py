"""A report as a neutral document: headings, facts, tables and notes.

The same document is rendered for a terminal (here) and as GitHub's Markdown (`markdown.py`). Its text may come from an
agent and is untrusted: each renderer makes it harmless.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import fill

from youbencha.text import one_line, plural, table, visible

MAX_CELL = 600
MAX_LINE = 4096
MAX_LISTED = 20


@dataclass(frozen=True)
class Code:
    """A name, a path or a hash."""

    text: str


@dataclass(frozen=True)
class Strong:
    text: str


Span = str | Code | Strong
Line = Span | tuple[Span, ...]


@dataclass(frozen=True)
class Heading:
    """The title of a document (level 1), a section or a part of one."""

    text: Line
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    text: Line


@dataclass(frozen=True)
class NoteList:
    """Sentences, each on a line of its own."""

    lines: Sequence[Line]


@dataclass(frozen=True)
class FactList:
    """Labels with their values."""

    rows: Sequence[tuple[str, Span]]


@dataclass(frozen=True)
class Column:
    title: str
    number: bool = False
    note: str = ""
    """Explains the column below the table."""
    is_name: bool = False
    """Whether the title is somebody's name, to be shown as it is."""
    drop: int | None = None
    """When a narrow terminal leaves the column out: the lowest number goes first. None: never."""
    listed_below: bool = False
    """Whether its cells are listed below the table if the column is left out."""


@dataclass(frozen=True)
class Table:
    columns: Sequence[Column]
    rows: Sequence[Sequence[Span]]
    notes: Sequence[str] = ()
    """Further explanations below the table."""


@dataclass(frozen=True)
class Preformatted:
    """Lines that are not wrapped: a program's output, or a command to copy."""

    text: str


@dataclass(frozen=True)
class FileList:
    """Files to look at, as label and (name, path) pairs. Paths are relative to the report."""

    rows: Sequence[tuple[str, Sequence[tuple[str, str]]]]


@dataclass(frozen=True)
class Folded:
    """Details that are folded where the format can do that."""

    title: str
    blocks: Sequence[Block] = field(default=())


Block = Heading | Paragraph | NoteList | FactList | Table | Preformatted | FileList | Folded


def limit_rows(rows: Sequence[Sequence[Span]], noun: str) -> tuple[Sequence[Sequence[Span]], tuple[str, ...]]:
    """Return the first rows, and a note about the others."""
    more = len(rows) - MAX_LISTED
    return (rows[:MAX_LISTED], (f"… and {plural(more, f'more {noun}')}",)) if more > 0 else (rows, ())


def render_terminal(blocks: Iterable[Block], width: int = sys.maxsize) -> str:
    """Render a document as plain text. In a pipe or a file there is no width, and lines are not wrapped."""
    text = ""
    after_heading = False
    for block in blocks:
        if isinstance(block, Heading) and block.level == 1:
            continue  # the command that was typed is title enough
        lines = "\n".join(_lines(block, width))
        text += ("" if after_heading or not text else "\n") + lines + "\n"
        after_heading = isinstance(block, Heading)
    return text


def _lines(block: Block, width: int) -> Iterator[str]:
    match block:
        case Heading(text) | Paragraph(text):
            yield _prose(text, width)
        case NoteList(lines):
            yield from (_prose(line, width) for line in lines)
        case FactList(rows):
            label_width = max((len(label) for label, _ in rows), default=0)
            yield from (f"{label:<{label_width}}  {_plain(value)}".rstrip() for label, value in rows)
        case Table():
            yield from _table_lines(block, width)
        case Preformatted(text):
            yield visible(text)
        case FileList(rows):
            for label, files in rows:
                yield f"{one_line(label)}:"
                yield from (f"  {one_line(path, MAX_LINE)}" for _, path in files)
        case Folded(title, blocks):
            yield f"{title}\n{render_terminal(blocks, width)}".rstrip("\n")


def _prose(line: Line, width: int) -> str:
    """Wrap a sentence, unless it contains code, which users copy."""
    text = _plain(line)
    has_code = isinstance(line, Code) or (isinstance(line, tuple) and any(isinstance(span, Code) for span in line))
    return text if has_code else _wrap(text, width)


def _plain(line: Line) -> str:
    spans = line if isinstance(line, tuple) else (line,)
    return "".join(tidy(span if isinstance(span, str) else span.text, MAX_LINE) for span in spans).strip()


def tidy(text: str, limit: int) -> str:
    """Put a text on one line, with the blanks at its ends that separate it from the next span."""
    line = one_line(text, limit)
    return " " * text.startswith(" ") + line + " " * (bool(line) and text.endswith(" "))


def _wrap(line: str, width: int) -> str:
    """Wrap prose between words, so that paths can still be copied."""
    return fill(line, width, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")


def _table_lines(shown: Table, width: int) -> Iterator[str]:
    titles = [column.title if column.is_name else column.title.upper() for column in shown.columns]
    numbers = [title for title, column in zip(titles, shown.columns, strict=True) if column.number]
    droppable = [(column.drop, title) for title, column in zip(titles, shown.columns, strict=True) if column.drop]
    rows = [[_plain(cell)[:MAX_CELL] for cell in row] for row in shown.rows]
    text = table(titles, rows, width=width, right=numbers, drop=[title for _, title in sorted(droppable)])
    yield text
    header = text.partition("\n")[0]
    kept = [title in header for title in titles]
    notes = [
        f"{title}: {column.note}"
        for title, column, is_kept in zip(titles, shown.columns, kept, strict=True)
        if is_kept and column.note
    ]
    if notes or shown.notes:
        yield ""
    yield from (_wrap(note, width) for note in (*notes, *shown.notes))
    for index, column in enumerate(shown.columns):
        if column.listed_below and not kept[index]:
            yield from _list_cells(shown, rows, index)


def _list_cells(shown: Table, rows: Sequence[Sequence[str]], index: int) -> Iterator[str]:
    """List the cells of a column for which the terminal is too narrow, after the names of their rows."""
    naming = [at for at, column in enumerate(shown.columns) if column.drop is None and not column.number]
    lines = [f"{' · '.join(row[at] for at in naming)}: {row[index]}" for row in rows]
    yield from lines[:MAX_LISTED]
    if len(lines) > MAX_LISTED:
        yield f"and {plural(len(lines) - MAX_LISTED, 'more row')}"
