"""Write what the screen shows to a file: all sessions, unfolded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from youbencha.text import format_clock, format_count, format_usd
from youbencha.transcript.session import Session, TranscriptEntry
from youbencha.tui.rows import STATE_MARKS, clean, visible_entries
from youbencha.tui.screen import Screen

_MARKS = {**STATE_MARKS, "running": "…"}


def write_transcript(screen: Screen) -> Path:
    """Write the transcripts to a new file, with secrets masked, and return its path."""
    directory = screen.export_to or Path.cwd()
    directory.mkdir(parents=True, exist_ok=True)
    name = time.strftime("transcript-%Y%m%d-%H%M%S", time.localtime(screen.clock()))
    text = screen.mask("\n".join(_lines(screen)) + "\n")
    for number in range(1, 1000):
        file = directory / (f"{name}.md" if number == 1 else f"{name}-{number}.md")
        try:
            with file.open("x", encoding="utf-8") as stream:  # follows no link that an agent made
                stream.write(text)
        except FileExistsError:
            continue
        return file
    raise FileExistsError(directory / name)


def _lines(screen: Screen) -> Iterator[str]:
    yield f"# {clean(screen.title)}"
    for session in screen.model.sessions:
        yield from ("", f"## {_heading(session)}", "")
        if session.left_out:
            yield f"({format_count(session.left_out)} earlier entries are not kept)"
        for entry in visible_entries(session):
            yield from _entry(entry)


def _heading(session: Session) -> str:
    took = None if session.ended_at is None else format_clock(session.ended_at - session.started_at)
    cost = None if session.progress.cost_usd is None else format_usd(session.progress.cost_usd)
    number = None if session.number is None else f"Iteration {session.number}"
    return " · ".join(part for part in (number, clean(session.title), session.status or "running", took, cost) if part)


def _entry(entry: TranscriptEntry) -> Iterator[str]:
    indent = "    " if entry.nested else ""
    if entry.kind in ("text", "user"):
        start = "> " if entry.kind == "user" else ""
        yield from ("", *(f"{indent}{start}{line}" for line in clean(entry.text).splitlines()), "")
    else:
        mark = _MARKS[entry.state] if entry.kind in ("tool", "gate", "end") else "-"
        first, *rest = clean(f"{entry.title}  {entry.text}".strip()).splitlines() or [""]
        yield f"{indent}{mark} {first}"
        for text in ("\n".join(rest), entry.detail, entry.result or ""):
            yield from (f"{indent}    {line}" for line in clean(text).splitlines())
    if entry.cut:
        yield f"{indent}    ({format_count(entry.cut)} characters are not kept)"
