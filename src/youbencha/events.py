"""What happens while an agent runs, as typed values in one stream.

The live display, the journal and the log all read these. An event is a fact that was observed, never a guess:
what an agent did not say is `None`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, at a moment (seconds since the epoch, as seen by the harness)."""

    at: float = field(default_factory=time.time)


EventSink = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted(Event):
    pid: int
    executable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded(Event):
    exit_code: int | None
    signal: str | None
    timed_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted(Event):
    session_id: str | None
    model: str | None
    agent_version: str | None
    tools: tuple[str, ...] = ()
    key_source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantText(Event):
    """A finished piece of text. `parent` is the tool call of the subagent that wrote it, if one did."""

    text: str
    parent: str | None = None
    sent_at: str | None = None
    """When, by the agent's own clock (ISO 8601), if it says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantTextDelta(Event):
    """A few more characters of a text that is still being written (partial messages only)."""

    text: str
    parent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantThinking(Event):
    text: str
    parent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserText(Event):
    """Text put to the model in the user's place: by the agent itself, or the task of a subagent."""

    text: str
    parent: str | None = None
    sent_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(Event):
    call_id: str | None
    name: str
    arguments: Mapping[str, Any]
    parent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned(Event):
    call_id: str | None
    content: str
    is_error: bool
    parent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDenied(Event):
    call_id: str | None
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported(Event):
    """Tokens of the session so far, as the agent itself reports them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRetried(Event):
    """The agent's call to the model failed and will be tried again."""

    attempt: int | None
    status: int | None
    """HTTP status; None when there was no answer at all."""
    reason: str | None
    delay_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitSeen(Event):
    status: str | None
    resets_at: float | None
    """When the limit ends, in seconds since the epoch, if the agent said so."""
    kind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult(Event):
    """The agent's own closing word. Some versions say it more than once: the last one counts."""

    subtype: str | None
    is_error: bool
    text: str | None
    turns: int | None
    duration_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTruncated(Event):
    limit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Event):
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStarted(Event):
    """A part of the harness's own work: checkout, pre_execution, agent, freeze, evaluation, post_evaluation."""

    phase: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceReady(Event):
    """From here on there is a place where the run leaves what it has finished."""

    directory: str
    tree: str
    """Where the agent works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorFinished(Event):
    evaluator: str
    status: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(Event):
    """Progress in words, where nothing more can be said: git's, an installer's."""

    text: str
