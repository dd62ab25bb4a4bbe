"""A session on the screen: its entries, and how its events become them.

Pure: no terminal, no clock. Text is kept as it came, and made harmless where it is shown (`rows.clean`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    AssistantThinking,
    ContextUsed,
    EvaluatorFinished,
    Event,
    ModelCalled,
    PhaseStarted,
    ProcessEnded,
    ProcessStarted,
    RateLimitSeen,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    ToolStarted,
    TopicPublished,
    UsageReported,
    UserText,
    WarningRaised,
    WorkspaceReady,
)
from youbencha.progress import Progress, line_of, main_argument

Kind = Literal["text", "thinking", "user", "tool", "gate", "topic", "guidance", "note", "phase", "end"]
State = Literal["running", "ok", "error", "warning", "unknown"]
"""Of a tool call, a gate or a session. `unknown`: it was running when its session ended, or has no state."""

MOST_CHARACTERS = 40_000
"""Of a text, a result or the arguments of a call."""


class Bounds(NamedTuple):
    """How much is kept of a session."""

    entries: int
    characters: int


STATES: Mapping[str, State] = {
    "completed": "ok", "success": "ok", "passed": "ok", "solved": "ok",
    "failed": "error", "unsolved": "error", "agent_error": "error", "timeout": "error",
    "skipped": "warning",
}  # fmt: skip
"""Of outcomes, statuses and verdicts; any other is a warning."""


@dataclass(slots=True)
class ScreenEntry:
    """Something in a transcript."""

    kind: Kind
    at: float
    head: str = ""
    """A tool, gate, topic or phase; the mark of a note."""
    text: str = ""
    """What was said; of a tool call, its main argument."""
    detail: str = ""
    """The arguments of a tool call."""
    result: str | None = None
    state: State = "unknown"
    ended_at: float | None = None
    cut: int = 0
    """Characters that were left out."""
    nested: bool = False
    """Of a subagent."""
    version: int = 0
    """Grows with each change."""

    def size(self) -> int:
        return len(self.text) + len(self.detail) + len(self.result or "")

    def parts(self) -> tuple[str, ...]:
        """All its texts, for the search."""
        return (self.head, self.text, self.detail, self.result or "")


@dataclass(slots=True)
class ScreenSession:
    """An iteration of a loop, or a trial."""

    key: str
    title: str
    started_at: float
    number: int | None = None
    """Of the iteration."""
    ended_at: float | None = None
    state: State = "running"
    status: str = ""
    """How it ended, in a word."""
    backend: str | None = None
    entries: list[ScreenEntry] = field(default_factory=list)
    left_out: int = 0
    """Entries before the first one that is kept."""
    characters: int = 0
    progress: Progress = field(default_factory=Progress)
    context_tokens: int | None = None
    context_window: int | None = None
    quota: float | None = None
    """The share of the usage limit that is used."""
    files_changed: int | None = None
    own_figures: bool = False
    """Tokens and cost were counted by the agent itself, and not by the gateway."""
    running: dict[str | None, ScreenEntry] = field(default_factory=dict)
    """Tool calls, by their ids."""
    writing: dict[str | None, ScreenEntry] = field(default_factory=dict)
    """Unfinished texts, by the tool call of their subagent."""
    version: int = 0

    def add(self, entry: ScreenEntry) -> ScreenEntry:
        self.entries.append(entry)
        self.characters += entry.size()
        self.version += 1
        return entry

    def changed(self, entry: ScreenEntry, grown: int = 0) -> None:
        entry.version += 1
        self.characters += grown
        self.version += 1

    def keep(self, bounds: Bounds) -> None:
        """Leave out the oldest entries; somewhat more than needed, so that this is not done at each event."""
        if len(self.entries) <= bounds.entries and self.characters <= bounds.characters:
            return
        entries, characters = bounds.entries * 9 // 10, bounds.characters * 9 // 10
        first, left = 0, self.characters
        while first < len(self.entries) - 1 and (len(self.entries) - first > entries or left > characters):
            left -= self.entries[first].size()
            first += 1
        del self.entries[:first]
        self.left_out += first
        self.characters = sum(entry.size() for entry in self.entries)  # calls that were left out may have grown since
        self.version += 1

    def numbered(self) -> Iterator[tuple[int, ScreenEntry]]:
        """The entries with their numbers, which stay the same when older ones are left out."""
        return enumerate(self.entries, self.left_out)


def fold(session: ScreenSession, event: Event) -> None:
    """Add an event to its session."""
    folding = _FOLDS.get(type(event))
    if folding is not None:
        folding(session, event)
    elif (line := line_of(event, session.progress.inside)) is not None:
        session.add(ScreenEntry("note", event.at, line.mark.strip(), line.text))


def bounded(text: str) -> tuple[str, int]:
    return text[:MOST_CHARACTERS], max(0, len(text) - MOST_CHARACTERS)


def _figures(session: ScreenSession, event: Event) -> None:
    """Phases, model, tokens and cost; an entry only for a phase, or a request that failed."""
    line = session.progress.take(event)
    session.version += 1
    if line is None:
        return
    if isinstance(event, PhaseStarted):
        session.add(ScreenEntry("phase", event.at, line.head, line.text))
    else:
        session.add(ScreenEntry("note", event.at, line.mark.strip(), line.text))


def _delta(session: ScreenSession, event: AssistantTextDelta) -> None:
    entry = session.writing.get(event.parent)
    if entry is None:
        entry = session.add(ScreenEntry("text", event.at, state="running", nested=event.parent is not None))
        session.writing[event.parent] = entry
    room = MOST_CHARACTERS - len(entry.text)
    kept = event.text if len(event.text) <= room else event.text[:room]
    entry.text += kept
    entry.cut += len(event.text) - len(kept)
    session.changed(entry, len(kept))


def _text(session: ScreenSession, event: AssistantText) -> None:
    text, cut = bounded(event.text)
    entry = session.writing.pop(event.parent, None)
    if entry is None:
        session.add(ScreenEntry("text", event.at, text=text, cut=cut, nested=event.parent is not None))
        return
    grown = len(text) - len(entry.text)
    entry.text, entry.cut, entry.state = text, cut, "unknown"
    session.changed(entry, grown)


def _thinking(session: ScreenSession, event: AssistantThinking) -> None:
    text, cut = bounded(event.text)
    session.add(ScreenEntry("thinking", event.at, "thinking", text, cut=cut, nested=event.parent is not None))


def _user(session: ScreenSession, event: UserText) -> None:
    text, cut = bounded(event.text)
    session.add(ScreenEntry("user", event.at, "prompt", text, cut=cut, nested=event.parent is not None))


def _tool_started(session: ScreenSession, event: ToolStarted) -> None:
    entry = ScreenEntry("tool", event.at, event.name, state="running", nested=event.parent is not None)
    session.running[event.call_id] = session.add(entry)


def _tool_called(session: ScreenSession, event: ToolCalled) -> None:
    entry = session.running.get(event.call_id)
    if entry is None or entry.detail:
        _tool_started(session, ToolStarted(at=event.at, call_id=event.call_id, name=event.name, parent=event.parent))
        entry = session.running[event.call_id]
    before = entry.size()
    entry.text = main_argument(event.arguments)[:MOST_CHARACTERS]
    entry.detail, entry.cut = bounded(describe_arguments(event.arguments))
    session.changed(entry, entry.size() - before)


def describe_arguments(arguments: Mapping[str, Any]) -> str:
    """The arguments of a tool call as lines. What an edit removes and adds is marked as in a diff."""
    lines: list[str] = []
    for name, value in arguments.items():
        mark = _DIFF_MARKS.get(name)
        text = value[:MOST_CHARACTERS] if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if mark is not None:
            lines += [f"{mark}{line}" for line in text.splitlines()]
        elif "\n" in text:
            lines += [f"{name}:", *(f"  {line}" for line in text.splitlines())]
        else:
            lines.append(f"{name}: {text}")
    return "\n".join(lines)


_DIFF_MARKS = {"old_string": "- ", "new_string": "+ ", "content": "+ "}


def _tool_returned(session: ScreenSession, event: ToolReturned) -> None:
    entry = session.running.pop(event.call_id, None)
    if entry is None:
        entry = session.add(ScreenEntry("tool", event.at, "(tool)", nested=event.parent is not None))
    entry.result, cut = bounded(event.content)
    entry.cut += cut
    entry.state, entry.ended_at = "error" if event.is_error else "ok", event.at
    session.changed(entry, len(entry.result))


def _tool_denied(session: ScreenSession, event: ToolDenied) -> None:
    if entry := session.running.pop(event.call_id, None):
        entry.state, entry.ended_at = "error", event.at
        entry.result = "denied"
        session.changed(entry, len(entry.result))
    else:
        session.add(ScreenEntry("note", event.at, "!", f"{event.name} was denied"))


def _gate(session: ScreenSession, event: EvaluatorFinished) -> None:
    message, cut = bounded(event.message)
    state = STATES.get(event.status, "warning")
    session.add(ScreenEntry("gate", event.at, event.evaluator, message, state=state, cut=cut))


def _topic(session: ScreenSession, event: TopicPublished) -> None:
    payload, cut = bounded(event.payload)
    session.add(ScreenEntry("topic", event.at, event.topic, payload, detail=event.source, cut=cut))


def _context(session: ScreenSession, event: ContextUsed) -> None:
    session.context_tokens = event.tokens
    session.context_window = event.window or session.context_window
    session.version += 1


def _rate_limit(session: ScreenSession, event: RateLimitSeen) -> None:
    """Some agents report their quota with each call: only a limit that was reached, or is near, is an entry."""
    session.quota = event.utilization if event.utilization is not None else session.quota
    session.version += 1
    if event.status != "allowed":
        kind = f" ({event.kind.replace('_', ' ')})" if event.kind else ""
        share = "" if event.utilization is None else f": {event.utilization:.0%} used"
        session.add(ScreenEntry("note", event.at, "!", f"usage limit{kind}{share}", state="warning"))


def _result(session: ScreenSession, event: SessionResult) -> None:
    if event.is_error:
        text = event.text or "; ".join(event.errors) or event.subtype or "the session failed"
        session.add(ScreenEntry("note", event.at, "✗", text[:MOST_CHARACTERS], state="error"))


def _warning(session: ScreenSession, event: WarningRaised) -> None:
    session.add(ScreenEntry("note", event.at, "!", event.message[:MOST_CHARACTERS], state="warning"))


def _ignored(session: ScreenSession, event: Event) -> None:
    """It is not shown."""


_FOLDS: dict[type[Event], Callable[[ScreenSession, Any], None]] = {
    AssistantTextDelta: _delta,
    AssistantText: _text,
    AssistantThinking: _thinking,
    UserText: _user,
    ToolStarted: _tool_started,
    ToolCalled: _tool_called,
    ToolReturned: _tool_returned,
    ToolDenied: _tool_denied,
    EvaluatorFinished: _gate,
    TopicPublished: _topic,
    ContextUsed: _context,
    RateLimitSeen: _rate_limit,
    SessionResult: _result,
    WarningRaised: _warning,
    SessionStarted: _figures,
    PhaseStarted: _figures,
    WorkspaceReady: _figures,
    UsageReported: _figures,
    ModelCalled: _figures,
    ProcessStarted: _ignored,
    ProcessEnded: _ignored,
}
"""Events of other types are notes, as in the plain display."""
