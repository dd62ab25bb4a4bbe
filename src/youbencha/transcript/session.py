"""A session in a transcript: its entries, and how its events become them.

Pure: no file, no clock. Text is kept as it came, and must be made harmless where it is shown.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
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
    RequestRetried,
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
from youbencha.log.session import CallMetered
from youbencha.transcript.lines import Progress, event_line, main_argument
from youbencha.usage import Tokens

Kind = Literal[
    "text", "thinking", "user", "tool", "call", "retry", "wait", "gate", "topic", "guidance", "note", "phase", "end"
]
"""`call` is a call to the model, `gate` an evaluator, `topic` an event that a loop's agent published."""
State = Literal["running", "ok", "error", "warning", "unknown"]
"""How a tool call, a gate or a session stands. `unknown`: it was running when its session ended, or has no state."""

MAX_TEXT = 40_000
"""Characters of a text, a result or the arguments of a call."""


class Bounds(NamedTuple):
    """How much is kept of a session."""

    entries: int
    characters: int


STATES: Mapping[str, State] = {
    "completed": "ok", "success": "ok", "passed": "ok", "solved": "ok",
    "failed": "error", "unsolved": "error", "agent_error": "error", "timeout": "error",
    "skipped": "warning",
}  # fmt: skip
"""The state for an outcome, a status or a verdict; any other is a warning."""


@dataclass(slots=True)
class ModelCall:
    """A call to the model, as the gateway or the agent counted it. Unknown is None."""

    source: Literal["gateway", "agent"]
    model: str | None
    tokens: Tokens
    cost_usd: float | None = None
    status: int | None = None
    duration_ms: float | None = None
    error: str | None = None
    partial: bool = False


@dataclass(slots=True)
class TranscriptEntry:
    """Something in a transcript."""

    kind: Kind
    at: float
    title: str = ""
    """The name of a tool, gate, topic or phase; the mark of a note."""
    text: str = ""
    """What was said; the main argument of a tool call."""
    arguments: Mapping[str, Any] | None = None
    """The arguments of a tool call, once they are complete."""
    result: str | None = None
    state: State = "unknown"
    ended_at: float | None = None
    cut: int = 0
    """Characters that were left out."""
    nested: bool = False
    """Whether it belongs to a subagent."""
    parent: int | None = None
    """The id of the tool call that started the subagent, if it is known."""
    until: float | None = None
    """When a wait or the pause before a retry ends."""
    call: ModelCall | None = None
    source: str | None = None
    """Who published a topic."""
    id: int = -1
    """The position in the transcript: the same whenever the same events are read."""
    version: int = 0
    """The transcript's version when this last changed."""
    offsets: tuple[int, ...] = ()
    """Where the lines of its events are in the file, if it was read from one."""

    @property
    def detail(self) -> str:
        """The arguments of a tool call as lines."""
        return describe_arguments(self.arguments) if self.arguments is not None else ""

    @property
    def duration_s(self) -> float | None:
        return None if self.ended_at is None else max(0.0, self.ended_at - self.at)

    def size(self) -> int:
        return len(self.text) + _size(self.arguments) + len(self.result or "")

    def parts(self) -> tuple[str, ...]:
        """All its texts, for the search."""
        return (self.title, self.text, self.detail, self.result or "")


def _size(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(key)) + _size(item) for key, item in value.items())
    return sum(map(_size, value)) if isinstance(value, list) else 8 if value else 0


@dataclass(slots=True)
class Session:
    """An iteration of a loop, or a trial."""

    key: str
    title: str
    started_at: float
    number: int | None = None
    """The number of the iteration."""
    ended_at: float | None = None
    state: State = "running"
    status: str = ""
    """How it ended, in a word."""
    backend: str | None = None
    entries: list[TranscriptEntry] = field(default_factory=list)
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
    running: dict[str | None, TranscriptEntry] = field(default_factory=dict)
    """Tool calls that have not returned, by their ids."""
    writing: dict[str | None, TranscriptEntry] = field(default_factory=dict)
    """Unfinished texts, by the tool call of their subagent."""
    version: int = 0
    max_text: int = MAX_TEXT
    offset: int | None = None
    """Where the present event is in the file."""
    ids: Iterator[int] = field(default_factory=count)
    """The next id; sessions of a transcript share it."""
    versions: Iterator[int] = field(default_factory=lambda: count(1))
    """The next version; sessions of a transcript share it."""
    _calls: dict[str, TranscriptEntry] = field(default_factory=dict)
    """Tool calls by their ids, and model calls of the agent by the ids of their messages."""
    _metered: bool = False
    """The gateway has reported a call."""

    def add(self, entry: TranscriptEntry, *, parent: str | None = None) -> TranscriptEntry:
        """Add an entry; `parent` is the tool call of its subagent."""
        entry.id, entry.nested = next(self.ids), parent is not None
        if parent is not None and (call := self._calls.get(parent)):
            entry.parent = call.id
        self.entries.append(entry)
        self.changed(entry, entry.size())
        return entry

    def changed(self, entry: TranscriptEntry, grown: int = 0) -> None:
        self.characters += grown
        entry.version = self.version = next(self.versions)
        if self.offset is not None and self.offset not in entry.offsets:
            entry.offsets += (self.offset,)

    def stop_running(self, at: float) -> None:
        """Nothing runs or is written any longer."""
        for entry in (*self.running.values(), *self.writing.values()):
            entry.state, entry.ended_at = "unknown", at
            self.changed(entry)
        self.running.clear()
        self.writing.clear()

    def touch(self) -> None:
        """Note that something besides the entries has changed."""
        self.version = next(self.versions)

    def children(self, entry: TranscriptEntry) -> list[TranscriptEntry]:
        """What the subagent of a tool call did."""
        return [child for child in self.entries if child.parent == entry.id]

    def entry(self, entry_id: int) -> TranscriptEntry | None:
        index = bisect_left(self.entries, entry_id, key=lambda entry: entry.id)
        return self.entries[index] if index < len(self.entries) and self.entries[index].id == entry_id else None

    def bounded(self, text: str) -> tuple[str, int]:
        """The part of a text that is kept, and the number of characters that are not."""
        return text[: self.max_text], max(0, len(text) - self.max_text)

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
        kept = {id(entry) for entry in self.entries}
        self._calls = {key: entry for key, entry in self._calls.items() if id(entry) in kept}
        self.touch()


def fold(session: Session, event: Event) -> None:
    """Add an event to its session."""
    folding = _FOLDS.get(type(event))
    if folding is not None:
        folding(session, event)
    elif (line := event_line(event, session.progress.inside)) is not None:
        session.add(TranscriptEntry("note", event.at, line.mark.strip(), line.text))


def _figures(session: Session, event: Event) -> None:
    """Phases, model, tokens and cost; only a phase is an entry."""
    line = session.progress.take(event)
    session.touch()
    if line is not None:
        session.add(
            TranscriptEntry("phase" if isinstance(event, PhaseStarted) else "note", event.at, line.head, line.text)
        )


def _model_called(session: Session, event: ModelCalled) -> None:
    """A call by the gateway's count. Those of the agent are the same calls."""
    if not session._metered:
        session._metered = True
        session.entries = [entry for entry in session.entries if entry.kind != "call"]
    line = session.progress.take(event)
    tokens = Tokens(event.input_tokens, event.output_tokens, event.cache_read_tokens, event.cache_creation_tokens)
    call = ModelCall(
        "gateway", event.model, tokens, event.cost_usd, event.status, event.duration_ms, event.error, event.partial
    )
    entry = TranscriptEntry(
        "call", event.at - event.duration_ms / 1000, event.model or "", call=call, ended_at=event.at
    )
    if line is not None:
        entry.title, entry.text = line.mark.strip(), line.text
    entry.state = "error" if event.error else "ok"
    session.add(entry)


def _call_metered(session: Session, event: CallMetered) -> None:
    """A call by the agent's count, which may be updated."""
    if session._metered or event.tokens == Tokens():
        return
    entry = session._calls.get(event.message_id) if event.message_id is not None else None
    if entry is None or entry.call is None:
        call = ModelCall("agent", event.model, event.tokens, event.cost_usd)
        entry = session.add(
            TranscriptEntry("call", event.at, event.model or "", call=call, state="ok"), parent=event.parent
        )
        if event.message_id is not None:
            session._calls[event.message_id] = entry
    else:
        entry.call.tokens, entry.call.model = event.tokens, event.model or entry.call.model
        entry.call.cost_usd = event.cost_usd if event.cost_usd is not None else entry.call.cost_usd
        session.changed(entry)
    entry.ended_at = event.at


def _delta(session: Session, event: AssistantTextDelta) -> None:
    entry = session.writing.get(event.parent)
    if entry is None:
        entry = session.add(TranscriptEntry("text", event.at, state="running"), parent=event.parent)
        session.writing[event.parent] = entry
    room = session.max_text - len(entry.text)
    kept = event.text if len(event.text) <= room else event.text[:room]
    entry.text += kept
    entry.cut += len(event.text) - len(kept) + event.cut
    session.changed(entry, len(kept))


def _text(session: Session, event: AssistantText) -> None:
    text, cut = session.bounded(event.text)
    entry = session.writing.pop(event.parent, None)
    if entry is None:
        entry = TranscriptEntry("text", event.at, text=text, cut=cut + event.cut, ended_at=event.at)
        session.add(entry, parent=event.parent)
        return
    grown = len(text) - len(entry.text)
    entry.text, entry.cut, entry.state, entry.ended_at = text, cut + event.cut, "unknown", event.at
    entry.offsets = ()  # the whole text is in this event
    session.changed(entry, grown)


def _thinking(session: Session, event: AssistantThinking) -> None:
    text, cut = session.bounded(event.text)
    session.add(TranscriptEntry("thinking", event.at, "thinking", text, cut=cut + event.cut), parent=event.parent)


def _user(session: Session, event: UserText) -> None:
    """A text of the user. Some agents repeat the prompt in their output."""
    text, cut = session.bounded(event.text)
    said = next((entry for entry in reversed(session.entries) if entry.kind in ("user", "text", "tool")), None)
    if said is None or (said.kind, said.text, said.nested) != ("user", text, event.parent is not None):
        session.add(TranscriptEntry("user", event.at, "prompt", text, cut=cut + event.cut), parent=event.parent)


def _tool_started(session: Session, event: ToolStarted | ToolCalled) -> TranscriptEntry:
    entry = session.add(TranscriptEntry("tool", event.at, event.name, state="running"), parent=event.parent)
    session.running[event.call_id] = entry
    if event.call_id is not None:
        session._calls[event.call_id] = entry
    return entry


def _tool_called(session: Session, event: ToolCalled) -> None:
    entry = session.running.get(event.call_id)
    if entry is None or entry.arguments is not None:
        entry = _tool_started(session, event)
    before = entry.size()
    entry.text = main_argument(event.arguments)[: session.max_text]
    entry.arguments, cut = _bounded_arguments(session, event.arguments)
    entry.cut += cut + event.cut
    session.changed(entry, entry.size() - before)


def _bounded_arguments(session: Session, arguments: Mapping[str, Any]) -> tuple[Mapping[str, Any], int]:
    too_long = _size(arguments) - session.max_text
    if too_long <= 0:
        return arguments, 0
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in arguments.items()}
    kept, room = dict[str, Any](), session.max_text
    for name, text in texts.items():
        kept[name] = text[: max(0, room)]
        room -= len(text)
    return kept, sum(map(len, texts.values())) - _size(list(kept.values()))


def describe_arguments(arguments: Mapping[str, Any]) -> str:
    """The arguments of a tool call as lines. What an edit removes and adds is marked as in a diff."""
    lines: list[str] = []
    for name, value in arguments.items():
        mark = _DIFF_MARKS.get(name)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if mark is not None:
            lines += [f"{mark}{line}" for line in text.splitlines()]
        elif "\n" in text:
            lines += [f"{name}:", *(f"  {line}" for line in text.splitlines())]
        else:
            lines.append(f"{name}: {text}")
    return "\n".join(lines)


_DIFF_MARKS = {"old_string": "- ", "new_string": "+ ", "content": "+ "}


def _tool_returned(session: Session, event: ToolReturned) -> None:
    """The result of a call. Some agents report that it was denied before this."""
    entry = session.running.pop(event.call_id, None) or session._calls.get(event.call_id or "")
    if entry is None:
        entry = session.add(TranscriptEntry("tool", event.at, "(tool)"), parent=event.parent)
    before = len(entry.result or "")
    entry.result, cut = session.bounded(event.content)
    entry.cut += cut + event.cut
    entry.state, entry.ended_at = "error" if event.is_error else "ok", event.at
    session.changed(entry, len(entry.result) - before)


def _tool_denied(session: Session, event: ToolDenied) -> None:
    if entry := session.running.pop(event.call_id, None):
        entry.state, entry.ended_at = "error", event.at
        entry.result = "denied"
        session.changed(entry, len(entry.result))
    else:
        session.add(TranscriptEntry("note", event.at, "!", f"{event.name} was denied"))


def _retried(session: Session, event: RequestRetried) -> None:
    line = event_line(event)
    until = None if event.delay_ms is None else event.at + event.delay_ms / 1000
    session.add(TranscriptEntry("retry", event.at, "!", line.text if line else "", state="warning", until=until))


def _gate(session: Session, event: EvaluatorFinished) -> None:
    message, cut = session.bounded(event.message)
    state = STATES.get(event.status, "warning")
    session.add(TranscriptEntry("gate", event.at, event.evaluator, message, state=state, cut=cut + event.cut))


def _topic(session: Session, event: TopicPublished) -> None:
    payload, cut = session.bounded(event.payload)
    session.add(TranscriptEntry("topic", event.at, event.topic, payload, source=event.source, cut=cut + event.cut))


def _context(session: Session, event: ContextUsed) -> None:
    session.context_tokens = event.tokens
    session.context_window = event.window or session.context_window
    session.touch()


def _rate_limit(session: Session, event: RateLimitSeen) -> None:
    """Some agents report their quota with each call: only a limit that was reached, or is near, is an entry."""
    session.quota = event.utilization if event.utilization is not None else session.quota
    session.touch()
    if event.status != "allowed":
        kind = f" ({event.kind.replace('_', ' ')})" if event.kind else ""
        share = "" if event.utilization is None else f": {event.utilization:.0%} used"
        text = f"usage limit{kind}{share}"
        session.add(TranscriptEntry("wait", event.at, "!", text, state="warning", until=event.resets_at))


def _result(session: Session, event: SessionResult) -> None:
    if event.is_error:
        text = event.text or "; ".join(event.errors) or event.subtype or "the session failed"
        session.add(TranscriptEntry("note", event.at, "✗", text[: session.max_text], state="error"))


def _warning(session: Session, event: WarningRaised) -> None:
    session.add(TranscriptEntry("note", event.at, "!", event.message[: session.max_text], state="warning"))


def _process_ended(session: Session, event: ProcessEnded) -> None:
    session.stop_running(event.at)


def _ignored(session: Session, event: Event) -> None:
    """It is not shown."""


_FOLDS: dict[type[Event], Callable[[Session, Any], object]] = {
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
    ModelCalled: _model_called,
    CallMetered: _call_metered,
    RequestRetried: _retried,
    ProcessStarted: _ignored,
    ProcessEnded: _process_ended,
}
"""Events of other types are notes, as in the plain display."""
