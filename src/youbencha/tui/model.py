"""Fold events into what the screen shows: sessions, their entries, and the totals.

Pure: no terminal, no clock. Text is kept as it came, and made harmless where it is shown (`rows.clean`). Memory is
bounded: the oldest entries are left out, and counted.
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
    GuidanceGiven,
    IterationEnded,
    IterationStarted,
    LoopEnded,
    LoopStarted,
    LoopWaiting,
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
from youbencha.text import count, duration, plural, usd

Kind = Literal["text", "thinking", "user", "tool", "gate", "topic", "guidance", "note", "phase", "end"]
State = Literal["running", "ok", "error", "warning", "unknown"]
"""Of a tool call, a gate or a session. `unknown`: it was running when its session ended, or has no state."""

MOST_CHARACTERS = 40_000
"""Of a text, a result or the arguments of a call."""


class Bounds(NamedTuple):
    """How much is kept of a session."""

    entries: int
    characters: int


RUNNING, ENDED = Bounds(4_000, 2_000_000), Bounds(1_000, 300_000)
MOST_OF_ALL = 20_000_000
"""Characters of all sessions: the oldest that have ended are emptied first."""

_STATES: Mapping[str, State] = {
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
        self.characters = left
        self.version += 1

    def numbered(self) -> Iterator[tuple[int, ScreenEntry]]:
        """The entries with their numbers, which stay the same when older ones are left out."""
        return enumerate(self.entries, self.left_out)


class SearchHit(NamedTuple):
    session: int
    entry: int
    """Its number."""


class ScreenTotals(NamedTuple):
    """The figures of the header. None is unknown."""

    elapsed_s: float
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


class ScreenModel:
    """What the screen shows. `take` folds an event; everything else reads."""

    def __init__(self) -> None:
        self.sessions: list[ScreenSession] = []
        self.loop: LoopStarted | None = None
        self.waiting: LoopWaiting | None = None
        self.began_at: float | None = None
        self.ended_at: float | None = None
        self.events = 0
        self._by_key: dict[str, ScreenSession] = {}

    # -- sessions --------------------------------------------------------------------------------------------------

    def begin(self, key: str, title: str, at: float, *, number: int | None = None) -> ScreenSession:
        """Add a session; one with this key (an attempt before) stays, with another key."""
        last = self.sessions[-1] if self.sessions else None
        self.events += 1
        if number is not None and last is not None and not last.key:
            session = self._by_key.pop("")  # it had only what was reported before the first iteration
            session.key, session.title, session.number, session.started_at = key, title, number, at
            session.version += 1
        else:
            session = ScreenSession(key, title, at, number=number)
            self.sessions.append(session)
        self._by_key[key] = session
        self.began_at = at if self.began_at is None else self.began_at
        return session

    def end(self, key: str, status: str, at: float, state: State | None = None) -> None:
        """A session has ended. It may not have begun here: the result of an earlier run was taken over."""
        self.events += 1
        session = self._by_key.get(key) or self.begin(key, key, at)
        session.ended_at, session.status = at, status
        session.state = state or _STATES.get(status, "warning")
        for entry in session.running.values():
            entry.state, entry.ended_at = "unknown", at
            session.changed(entry)
        session.running.clear()
        session.writing.clear()
        session.version += 1
        session.keep(ENDED)
        excess = sum(each.characters for each in self.sessions) - MOST_OF_ALL
        for each in self.sessions:
            if excess <= 0:
                break
            if each.ended_at is not None and each.entries:
                excess -= each.characters
                each.keep(Bounds(1, 0))

    def close(self, at: float) -> None:
        """Nothing more will happen."""
        self.ended_at = at if self.ended_at is None else self.ended_at
        for session in self.sessions:
            if session.ended_at is None:
                self.end(session.key, "", at, "unknown")

    def current(self, at: float) -> ScreenSession:
        """The session of what is reported without a key: the newest iteration, or the run that has trials."""
        last = self.sessions[-1] if self.sessions else None
        if last is not None and last.number is not None:
            return last
        return self._by_key.get("") or self.begin("", "run", at)

    # -- events ----------------------------------------------------------------------------------------------------

    def take(self, event: Event, key: str | None = None) -> None:
        """Fold an event: of the session with this key, or of the newest."""
        self.events += 1
        of_loop = _LOOP_FOLDS.get(type(event))
        if of_loop is not None:
            of_loop(self, event)
            return
        session = self._by_key[key] if key is not None else self.current(event.at)
        fold = _FOLDS.get(type(event))
        if fold is not None:
            fold(session, event)
        elif (line := line_of(event, session.progress.inside)) is not None:
            session.add(ScreenEntry("note", event.at, line.mark.strip(), line.text))
        session.keep(RUNNING if session.ended_at is None else ENDED)

    # -- reading ---------------------------------------------------------------------------------------------------

    def totals(self, now: float) -> ScreenTotals:
        began = self.began_at if self.began_at is not None else now
        figures = [session.progress for session in self.sessions]
        return ScreenTotals(
            elapsed_s=max(0.0, (now if self.ended_at is None else self.ended_at) - began),
            input_tokens=_sum(each.input_tokens for each in figures),
            output_tokens=_sum(each.output_tokens for each in figures),
            cost_usd=_sum(each.cost_usd for each in figures),
        )

    def search(self, words: str) -> list[SearchHit]:
        """Find entries. The case counts if the words have a capital letter."""
        exact = words != words.lower()
        return [
            SearchHit(index, number)
            for index, session in enumerate(self.sessions)
            for number, entry in session.numbered()
            if any(words in (part if exact else part.lower()) for part in entry.parts())
        ]


def _sum(numbers: Iterator[Any]) -> Any:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _bounded(text: str) -> tuple[str, int]:
    return text[:MOST_CHARACTERS], max(0, len(text) - MOST_CHARACTERS)


# -- the events of a loop ----------------------------------------------------------------------------------------------


def _loop_started(model: ScreenModel, event: LoopStarted) -> None:
    model.loop, model.began_at = event, event.at
    model.current(event.at).backend = event.backend


def _iteration_started(model: ScreenModel, event: IterationStarted) -> None:
    model.waiting = None
    session = model.begin(f"iteration {event.iteration}", event.hat or "", event.at, number=event.iteration)
    session.backend, session.progress.model = event.backend, event.model
    if event.attempt > 1:
        session.add(ScreenEntry("note", event.at, "!", f"attempt {event.attempt}: the one before failed"))


def _iteration_ended(model: ScreenModel, event: IterationEnded) -> None:
    session = model.current(event.at)
    session.progress.input_tokens = event.input_tokens
    session.progress.output_tokens = event.output_tokens
    session.progress.cost_usd = event.cost_usd
    session.files_changed = event.files_changed
    figures = [
        duration(event.duration_ms),
        None if event.input_tokens is None else f"{count(event.input_tokens)} in",
        None if event.output_tokens is None else f"{count(event.output_tokens)} out",
        None if event.cost_usd is None else usd(event.cost_usd),
        None if event.files_changed is None else f"{plural(event.files_changed, 'file')} changed",
    ]
    text = " · ".join(figure for figure in figures if figure)
    state = _STATES.get(event.outcome, "warning")
    head = f"{event.outcome.replace('_', ' ')}{f': {event.reason}' if event.reason else ''}"
    session.add(ScreenEntry("end", event.at, head, text, state=state))
    model.end(session.key, event.outcome, event.at)


def _waiting(model: ScreenModel, event: LoopWaiting) -> None:
    model.waiting = event
    model.current(event.at).add(ScreenEntry("note", event.at, "…", f"waiting: {event.reason}"))


def _guidance(model: ScreenModel, event: GuidanceGiven) -> None:
    model.current(event.at).add(ScreenEntry("guidance", event.at, "guidance", *_bounded(event.text)[:1]))


def _loop_ended(model: ScreenModel, event: LoopEnded) -> None:
    model.ended_at, model.waiting = event.at, None
    state: State = "ok" if event.exit_code == 0 else "error" if event.exit_code == 1 else "warning"
    head = f"the loop has ended: {event.outcome.replace('_', ' ')}"
    model.current(event.at).add(ScreenEntry("end", event.at, head, event.reason, state=state))


_LOOP_FOLDS: dict[type[Event], Callable[[ScreenModel, Any], None]] = {
    LoopStarted: _loop_started,
    IterationStarted: _iteration_started,
    IterationEnded: _iteration_ended,
    LoopWaiting: _waiting,
    GuidanceGiven: _guidance,
    LoopEnded: _loop_ended,
}


# -- the events of a session -------------------------------------------------------------------------------------------


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
    text, cut = _bounded(event.text)
    entry = session.writing.pop(event.parent, None)
    if entry is None:
        session.add(ScreenEntry("text", event.at, text=text, cut=cut, nested=event.parent is not None))
        return
    grown = len(text) - len(entry.text)
    entry.text, entry.cut, entry.state = text, cut, "unknown"
    session.changed(entry, grown)


def _thinking(session: ScreenSession, event: AssistantThinking) -> None:
    text, cut = _bounded(event.text)
    session.add(ScreenEntry("thinking", event.at, "thinking", text, cut=cut, nested=event.parent is not None))


def _user(session: ScreenSession, event: UserText) -> None:
    text, cut = _bounded(event.text)
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
    entry.detail, entry.cut = _bounded(describe_arguments(event.arguments))
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
    entry.result, cut = _bounded(event.content)
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
    message, cut = _bounded(event.message)
    state = _STATES.get(event.status, "warning")
    session.add(ScreenEntry("gate", event.at, event.evaluator, message, state=state, cut=cut))


def _topic(session: ScreenSession, event: TopicPublished) -> None:
    payload, cut = _bounded(event.payload)
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
