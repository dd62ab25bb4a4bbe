"""Lay out an entry of a transcript as rows of styled text, for a width.

Everything that an agent could have written passes `clean`: no escape sequence reaches the terminal, and no character
has a width that terminals disagree about.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.cells import cell_len

from youbencha.text import first_line, format_clock, format_count, one_line, strip_ansi, visible
from youbencha.transcript.session import Session, TranscriptEntry

Span = tuple[str, str]
"""A text and the name of its style (`themes.STYLES`)."""


class ScreenRow(NamedTuple):
    spans: tuple[Span, ...]
    right: tuple[Span, ...] = ()
    """The text at the right edge."""


BLANK = ScreenRow(())
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_SECOND = 10

MAX_ROWS = 2_000
"""Rows of one part of an unfolded entry."""
_ERROR_ROWS = 3
"""Rows of a failed tool call's result, while it is folded."""
_MAX_PROMPT = 3
"""Rows of a prompt that is not folded at first."""

_ASCII = re.compile(r"[ -~\n]*\Z")
_OVERWRITTEN = re.compile(r"[^\n]*\r")
_BACKSPACE = re.compile(r"[^\n\x08]\x08")
_NO_WIDTH = re.compile("[\u00ad\u034f\u180e\u200b-\u200d\u2060-\u2064\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]")
"""Joiners, variation selectors and skin tones: terminals disagree about the width of what they are part of."""


def clean(text: str) -> str:
    """Return text as a terminal would leave it, without anything that controls the terminal."""
    if _ASCII.match(text):
        return text
    text = strip_ansi(text)
    if "\r" in text:
        text = _OVERWRITTEN.sub("", re.sub(r"\r+(?=\n|\Z)", "", text))
    text = _BACKSPACE.sub("", text) if "\x08" in text else text
    return visible(_NO_WIDTH.sub("", text.expandtabs(4)))


def fit(text: str, cells: int) -> str:
    """Shorten a text to this many cells; `…` shows that it was longer."""
    if cell_len(text) <= cells:
        return text
    kept = text[: max(0, cells - 1)]
    while kept and cell_len(kept) > cells - 1:
        kept = kept[:-1]
    return f"{kept}…" if cells > 0 else ""


_LIST_ITEM = re.compile(r" *(?:(?:[-*•>]|\d{1,3}[.)]) +)?")


def wrap(line: str, cells: int) -> list[str]:
    """Break a line at spaces. What follows the first row has the indentation of its text."""
    if len(line) <= cells and cell_len(line) <= cells:
        return [line]
    item = _LIST_ITEM.match(line)
    indent = " " * (item.end() if item and item.end() <= cells // 2 else 0)
    rows: list[str] = []
    room = cells
    while line:
        head = line[:room]
        while cell_len(head) > room:
            head = head[: -max(1, (cell_len(head) - room) // 2)]
        if not head:  # a wide character, in one cell
            head = line[0]
        if len(head) < len(line) and line[len(head)] != " ":
            space = head.rfind(" ")
            head = head[: space + 1] if space > room // 3 else head
        rows.append((indent if rows else "") + head.rstrip(" "))
        line = line[len(head) :].lstrip(" ")
        room = max(1, cells - len(indent))
    return rows


# -- entries -----------------------------------------------------------------------------------------------------------

STATE_MARKS = {"ok": "✓", "error": "✗", "warning": "!", "unknown": "·"}
_SAID = {"user": ("»", "user"), "guidance": ("✎", "user"), "topic": ("▸", "topic"), "thinking": ("∴", "thinking")}
_SPACED, _SPACED_AFTER = (
    frozenset({"text", "user", "phase", "end", "guidance"}),
    frozenset({"text", "user", "guidance"}),
)
"""Kinds with an empty row before them, and after them."""


def visible_entries(session: Session) -> list[TranscriptEntry]:
    """The entries that the screen shows: of the calls to the model, only those that failed."""
    return [entry for entry in session.entries if entry.kind != "call" or entry.text]


def gap_between(before: TranscriptEntry | None, entry: TranscriptEntry) -> bool:
    if before is None or before.kind == entry.kind == "phase":
        return False
    return entry.kind in _SPACED or before.kind in _SPACED_AFTER


def foldable(entry: TranscriptEntry) -> bool:
    match entry.kind:
        case "tool":
            return bool(entry.arguments or entry.result)
        case "text":
            return False
        case "thinking":
            return True
    return "\n" in entry.text.strip() or len(entry.text) > 200


def folded_at_first(entry: TranscriptEntry) -> bool:
    return entry.kind != "user" or entry.text.count("\n") >= _MAX_PROMPT or len(entry.text) > 400


_WIDTH_FOR_SIZES = 40
"""The width of a row from which a tool call is shown with the size of its result."""


def lay_out(entry: TranscriptEntry, cells: int, *, folded: bool, now: float) -> list[ScreenRow]:
    """Return the rows of an entry, without the empty one before it."""
    indent = 2 if entry.nested else 0
    cells = max(8, cells - indent)
    match entry.kind:
        case "tool":
            rows = _tool(entry, cells, folded=folded, now=now)
        case "text":
            rows = _text_rows(entry, cells)
        case "end" | "phase":
            rows = _heading(entry, cells)
        case _:
            rows = _other(entry, cells, folded=folded)
    if indent:
        rows = [ScreenRow((("│ ", "faint"), *row.spans), row.right) for row in rows]
    return rows


def _tool(entry: TranscriptEntry, cells: int, *, folded: bool, now: float) -> list[ScreenRow]:
    state, running = entry.state, entry.state == "running"
    mark = spinner(now) if running else STATE_MARKS[state]
    size = _line_count(entry.result) if entry.result and folded and cells >= _WIDTH_FOR_SIZES else ""
    took = seconds((entry.ended_at if entry.ended_at is not None else now) - entry.at)
    figures = "  ".join(figure for figure in (size, took) if figure)
    name = fit(one_line(clean(entry.title), 40), max(2, min(cells // 3, cells - 3 - len(figures))))
    room = cells - 4 - cell_len(name) - 2 - len(figures)
    argument = fit(one_line(clean(entry.text[:600]), 400), room) if room > 3 else ""
    style = "tool" if running else "error" if state == "error" else "name"
    spans = [(f"{mark} ", state), (name, style)]
    if argument:
        spans += [("  ", "dim"), (argument, "text" if running else "argument")]
    rows = [ScreenRow(tuple(spans), ((figures, "running" if running else "dim"),))]
    if not folded:
        shown = f": {entry.text}" if argument == entry.text else "\n"
        detail = "\n".join(line for line in entry.detail.split("\n") if not line.endswith(shown))
        rows += _block(detail, cells, "detail")
        rows += _block(entry.result or "", cells, "failure" if state == "error" else "result")
        rows += _left_out(entry)
    elif state == "error" and entry.result:
        last = [line for line in clean(entry.result[-2000:]).splitlines() if line.strip()][-_ERROR_ROWS:]
        rows += [ScreenRow((("  │ ", "faint"), (fit(line, cells - 4), "failure"))) for line in last]
    return rows


def spinner(now: float) -> str:
    return SPINNER[int(now * FRAMES_PER_SECOND) % len(SPINNER)]


def seconds(took: float) -> str:
    """`0.1s`, `59s`, `3:05`, `1:02:03`: narrow, as there are many of them."""
    took = max(0.0, took)
    if took < 9.95:
        return f"{took:.1f}s"
    if took < 59.5:
        return f"{took:.0f}s"
    return format_clock(took)


def _line_count(result: str) -> str:
    lines = result.count("\n", 0, -1) + 1
    return f"{lines} lines" if lines > 1 else ""


def _block(text: str, cells: int, style: str) -> list[ScreenRow]:
    """Lines below a heading; those of a diff in its colours."""
    rows: list[ScreenRow] = []
    for line in clean(text).rstrip().split("\n") if text.strip() else ():
        shown = _DIFF_STYLES.get(line[:2], style) if style == "detail" else style
        rows += [ScreenRow((("  │ ", "faint"), (row, shown))) for row in wrap(line, max(4, cells - 4))]
        if len(rows) > MAX_ROWS:
            return [*rows[:MAX_ROWS], ScreenRow((("  │ … more", "faint"),))]
    return rows


_DIFF_STYLES = {"+ ": "added", "- ": "removed"}


def _left_out(entry: TranscriptEntry) -> list[ScreenRow]:
    return [ScreenRow(((f"  … {format_count(entry.cut)} characters are not kept", "faint"),))] if entry.cut else []


_INLINE = re.compile(r"(`[^`]+`|\*\*[^*]+\*\*)")
_HEADING = re.compile(r"#{1,6} ")


def _text_rows(entry: TranscriptEntry, cells: int) -> list[ScreenRow]:
    """Text of the model, with the least of Markdown: headings, code and bold, their marks included."""
    rows: list[ScreenRow] = []
    fenced = False
    for line in clean(entry.text).strip("\n").split("\n"):
        fence = line.lstrip().startswith("```")
        style = "code" if fenced or fence else "heading" if _HEADING.match(line) else "text"
        fenced ^= fence
        for row in wrap(line, max(4, cells - 2)):
            mark = ("● ", "said") if not rows else ("  ", "text")
            spans = _inline(row) if style == "text" and ("`" in row or "**" in row) else ((row, style),)
            rows.append(ScreenRow((mark, *spans)))
    if entry.state == "running":
        rows[-1] = ScreenRow((*rows[-1].spans, ("▍", "said")))
    return rows + _left_out(entry)


def _inline(row: str) -> tuple[Span, ...]:
    parts = [part for part in _INLINE.split(row) if part]
    return tuple((part, _inline_style(part) if _INLINE.fullmatch(part) else "text") for part in parts)


def _inline_style(part: str) -> str:
    return "code" if part.startswith("`") else "strong"


def _heading(entry: TranscriptEntry, cells: int) -> list[ScreenRow]:
    """A phase, or the end of an iteration: a rule across the transcript."""
    mark, style = ("▸ ", "phase") if entry.kind == "phase" else (f"{STATE_MARKS[entry.state]} ", entry.state)
    head = fit(one_line(clean(entry.title)), cells - 2)
    text = one_line(clean(entry.text))
    start: tuple[Span, ...] = ((mark, style), (head, "strong"))
    room = cells - 2 - cell_len(head)
    if entry.kind == "end" and cell_len(text) + 2 > room:  # on a row of its own
        return [ScreenRow((*start, _rule(room))), ScreenRow((("  ", "dim"), (fit(text, cells - 2), "dim")))]
    text = f"  {fit(text, room - 2)}" if text and room > 8 else ""
    rule = (_rule(room - cell_len(text)),) if entry.kind == "end" else ()
    return [ScreenRow((*start, (text, "dim"), *rule))]


def _rule(cells: int) -> Span:
    return (f" {'─' * (cells - 1)}" if cells > 3 else "", "faint")


_TITLED = frozenset({"gate", "topic", "guidance"})


def _other(entry: TranscriptEntry, cells: int, *, folded: bool) -> list[ScreenRow]:
    """A prompt, thinking, a gate, a topic, guidance or a note."""
    mark, style = _mark(entry)
    body = "thinking" if entry.kind == "thinking" else "note" if style == "note" else "text"
    head = one_line(clean(entry.title), 60) if entry.kind in _TITLED else ""
    if not foldable(entry):
        return _paragraph(mark, style, head, one_line(clean(first_line(entry.text)), 1000), body, cells)
    if folded:
        return [_folded(entry, (f"{mark} ", style), head, body, cells)]
    head = fit(head, cells - 2)
    lines = clean(entry.text).strip("\n").split("\n")
    rows = [] if not head else [ScreenRow(((f"{mark} ", style), (head, "strong")))]
    for line in lines:
        for row in wrap(line, max(4, cells - 2)):
            rows.append(ScreenRow(((f"{mark} " if not rows else "  ", style), (row, body))))
            if len(rows) > MAX_ROWS:
                return [*rows, ScreenRow((("  … more", "faint"),))]
    return rows + _left_out(entry)


def _folded(entry: TranscriptEntry, mark: Span, head: str, body: str, cells: int) -> ScreenRow:
    """Return the first line of an entry, and the number of its lines if there is room for it."""
    lines = entry.text.count("\n") + 1 if "\n" in entry.text.strip() else 1
    more = f"{lines} lines" if lines > 1 and cells >= _WIDTH_FOR_SIZES else ""
    room = cells - 2 - (len(more) + 2 if more else 0)
    head = f"{fit(head, room - 2)}  " if head else ""
    text = fit(one_line(clean(first_line(entry.text[:2000])), 1000), room - cell_len(head))
    spans = (mark, *(((head, "strong"),) if head else ()), (text, body))
    return ScreenRow(spans, ((more, "dim"),) if more else ())


def _mark(entry: TranscriptEntry) -> Span:
    if entry.kind == "gate":
        return STATE_MARKS[entry.state], entry.state
    return _SAID.get(entry.kind) or (entry.title or "·", _NOTE_STYLES.get(entry.title, "note"))


_NOTE_STYLES = {"!": "warning", "✗": "error"}


def _paragraph(mark: str, style: str, head: str, text: str, body: str, cells: int) -> list[ScreenRow]:
    start = f"{head}  " if head and text else head
    rows = wrap(start + text, max(4, cells - 2))
    first = ScreenRow(((f"{mark} ", style), (rows[0][: len(start)], "strong"), (rows[0][len(start) :], body)))
    return [first, *(ScreenRow((("  ", style), (row, body))) for row in rows[1:])]
