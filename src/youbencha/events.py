"""The events of a run, for the live display and the log.

An event has only what was reported; anything else is None.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened, and when (seconds since the epoch, by the harness's clock)."""

    at: float = field(default_factory=time.time)
    cut: int = 0
    """Characters that were left out of its texts when it was recorded."""


EventSink = Callable[[Event], None]


@dataclass(frozen=True, kw_only=True)
class ProcessStarted(Event):
    """The agent's program was started."""

    pid: int
    executable: str


@dataclass(frozen=True, kw_only=True)
class ProcessEnded(Event):
    """The agent's program has ended."""

    exit_code: int | None
    signal: str | None
    timed_out: bool


@dataclass(frozen=True, kw_only=True)
class SessionStarted(Event):
    """The agent is ready, and reports its model, version and tools."""

    session_id: str | None
    model: str | None
    agent_version: str | None
    tools: tuple[str, ...] | None = None
    """None if it does not report them."""
    key_source: str | None = None


@dataclass(frozen=True, kw_only=True)
class AssistantText(Event):
    """A finished piece of text. `parent` is the tool call of the subagent that wrote it, if any."""

    text: str
    parent: str | None = None
    sent_at: str | None = None
    """The time on the agent's clock (ISO 8601), if the agent reports it."""


@dataclass(frozen=True, kw_only=True)
class AssistantTextDelta(Event):
    """The next characters of an unfinished text (partial messages only)."""

    text: str
    parent: str | None = None


@dataclass(frozen=True, kw_only=True)
class AssistantThinking(Event):
    """The model's reasoning, if the agent reports it."""

    text: str
    parent: str | None = None


@dataclass(frozen=True, kw_only=True)
class UserText(Event):
    """Text in the role of the user: from the agent itself, or the task of a subagent."""

    text: str
    parent: str | None = None
    sent_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolDecided(Event):
    """The harness allowed or denied a tool call."""

    call_id: str | None
    name: str
    allowed: bool
    reason: str


@dataclass(frozen=True, kw_only=True)
class ToolCalled(Event):
    """The model called a tool."""

    call_id: str | None
    name: str
    arguments: Mapping[str, Any]
    parent: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolReturned(Event):
    """The result of a tool call."""

    call_id: str | None
    content: str
    is_error: bool
    parent: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolDenied(Event):
    """The agent reports that a tool call was denied."""

    call_id: str | None
    name: str


@dataclass(frozen=True, kw_only=True)
class UsageReported(Event):
    """Tokens of the session so far, as the agent reports them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, kw_only=True)
class ModelCalled(Event):
    """A request that went through the gateway has ended."""

    model: str | None
    status: int | None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cost_usd: float | None = None
    partial: bool = False
    error: str | None = None
    duration_ms: float = 0.0
    retry_after_s: float | None = None
    """How long the provider asks to wait, if it refused the request."""


@dataclass(frozen=True, kw_only=True)
class RequestRetried(Event):
    """The agent's call to the model failed and will be tried again."""

    attempt: int | None
    status: int | None
    """HTTP status; None without an answer."""
    reason: str | None
    delay_ms: float | None


@dataclass(frozen=True, kw_only=True)
class RateLimitSeen(Event):
    """The provider limits the rate of requests."""

    status: str | None
    resets_at: float | None
    """When the limit ends, in seconds since the epoch, if known."""
    kind: str | None = None
    utilization: float | None = None
    """The used share of the quota (1: all), in the window that is used most."""


@dataclass(frozen=True, kw_only=True)
class SessionResult(Event):
    """The agent's final result. Some versions report several: the last one counts."""

    subtype: str | None
    is_error: bool
    text: str | None
    turns: int | None
    duration_ms: int | None
    errors: tuple[str, ...] = ()
    status: int | None = None
    """HTTP status of the call that ended the session, if any."""
    terminal_reason: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class OutputTruncated(Event):
    """The agent's output exceeded the limit."""

    limit_bytes: int


@dataclass(frozen=True, kw_only=True)
class WarningRaised(Event):
    """A problem that did not stop the run."""

    code: str
    message: str


@dataclass(frozen=True, kw_only=True)
class PhaseStarted(Event):
    """A phase of the trial: checkout, pre_execution, agent, freeze, evaluation, post_evaluation."""

    phase: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class WorkspaceReady(Event):
    """The run directory exists; from now on, it has partial results."""

    directory: str
    tree: str
    """The agent's working directory."""


@dataclass(frozen=True, kw_only=True)
class TrialEnded(Event):
    """The trial has its verdict, or was interrupted. Only recorded: displays show the results."""

    outcome: str
    """One of `store.bundle.OutcomeName`."""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class EvaluatorFinished(Event):
    """An evaluator has finished."""

    evaluator: str
    status: str
    message: str


@dataclass(frozen=True, kw_only=True)
class ProgressNote(Event):
    """Progress as text, of git or an installer."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ToolStarted(Event):
    """The model has begun to write a tool call; its arguments follow with `ToolCalled` (partial messages only)."""

    call_id: str | None
    name: str
    parent: str | None = None


@dataclass(frozen=True, kw_only=True)
class ContextUsed(Event):
    """The tokens that the latest call of the main conversation had in its context."""

    tokens: int
    window: int | None = None
    """The largest number that the model can have, if it is known."""


@dataclass(frozen=True, kw_only=True)
class LoopStarted(Event):
    """A loop begins, or continues."""

    loop_id: str
    directory: str
    backend: str
    model: str | None
    max_iterations: int | None
    max_runtime_s: float | None
    max_cost_usd: float | None
    first_iteration: int = 1
    """More than 1 if the loop continues."""


@dataclass(frozen=True, kw_only=True)
class IterationStarted(Event):
    """An iteration of a loop begins."""

    iteration: int
    backend: str
    model: str | None
    hat: str | None = None
    attempt: int = 1
    """More than 1 if the iterations before it failed."""


@dataclass(frozen=True, kw_only=True)
class CompletionRefused(Event):
    """An agent said that the work is done, and this was not accepted."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class IterationEnded(Event):
    """An iteration of a loop has ended."""

    iteration: int
    outcome: str
    """One of `loop.model.IterationOutcome`."""
    reason: str | None
    duration_ms: int | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    files_changed: int | None
    """Since the iteration before; None if it was not determined."""
    usage_source: str | None = None
    """Where tokens and cost come from: one of `log.model.CostSource`."""


@dataclass(frozen=True, kw_only=True)
class TopicPublished(Event):
    """An event of the loop itself was published, by an agent (`ralph emit`), a hat's default, or the loop."""

    topic: str
    payload: str
    source: str
    """`agent`, `default` or `loop`."""


@dataclass(frozen=True, kw_only=True)
class LoopWaiting(Event):
    """The loop waits before the next iteration."""

    reason: str
    until: float
    """Seconds since the epoch."""
    kind: str
    """`cooldown`, `backoff`, `usage_limit` or `paused`."""


@dataclass(frozen=True, kw_only=True)
class GuidanceGiven(Event):
    """A person gave guidance for the next prompt."""

    text: str


@dataclass(frozen=True, kw_only=True)
class LoopEnded(Event):
    """The loop has ended."""

    outcome: str
    """One of `loop.model.LoopOutcome`."""
    reason: str
    exit_code: int
    iterations: int | None = None
    elapsed_ms: int | None = None
    """Without the time spent waiting for usage limits."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    partial: bool = False
    """More was used than could be counted."""
    own_figures: bool = False
    """Agents counted part of the usage themselves, not the gateway."""


class StepProgress(Protocol):
    """Reports the steps of a long operation."""

    def __call__(self, step: str, detail: str = "", /) -> object:
        """Called when a step begins, and again with its progress."""


def step_text(step: str, detail: str) -> str:
    return f"{step} ... {detail}" if detail else step


def notes_to(on_event: EventSink) -> StepProgress:
    """Return a `StepProgress` that makes each report a `ProgressNote`."""
    return lambda step, detail="", /: on_event(ProgressNote(text=step_text(step, detail)))
