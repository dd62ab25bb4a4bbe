"""Fold events into the progress of a run, and into one line per event."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from youbencha.events import (
    AssistantText,
    EvaluatorFinished,
    Event,
    EventSink,
    ModelCalled,
    PhaseStarted,
    ProgressNote,
    RateLimitSeen,
    RequestRetried,
    SessionStarted,
    ToolCalled,
    ToolDecided,
    ToolReturned,
    UsageReported,
    WarningRaised,
    WorkspaceReady,
)
from youbencha.text import one_line

MOST_CHARACTERS = 100

_MAIN_ARGUMENTS = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")
"""The first of these that a tool call has is shown."""

_PHASES = {
    "checkout": "checking out",
    "pre_execution": "running pre-execution hooks",
    "agent": "running the agent",
    "freeze": "collecting changes",
    "evaluation": "evaluating",
    "post_evaluation": "running post-evaluation hooks",
}

_VERDICTS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "yellow")}

_GATEWAY = {
    "budget_exceeded": "request refused: the budget is spent",
    "call_over_cap": "request refused: it may cost more than is left of the budget",
    "price_unknown": "request refused: no known price for this model, so the budget cannot be enforced",
    "circuit_open": "request refused: the provider failed too often, and is not called for a while",
    "rate_limited": "the provider asks to wait",
    "provider_failed": "the provider failed",
    "upstream_unreachable": "the provider does not answer",
    "not_recorded": "no recording matches this request",
}

_SILENT = frozenset({"client_gone", "key_ended", "not_found", "provider_refused"})
"""The agent reports these itself, or causes them."""

N = TypeVar("N", int, float)


class StepProgress(Protocol):
    """Reports the steps of a long operation."""

    def __call__(self, step: str, detail: str = "", /) -> object:
        """Called when a step begins, and again with its progress."""


def step_text(step: str, detail: str) -> str:
    return f"{step} ... {detail}" if detail else step


def notes_to(on_event: EventSink) -> StepProgress:
    """Return a `StepProgress` that makes each report a `ProgressNote`."""
    return lambda step, detail="", /: on_event(ProgressNote(text=step_text(step, detail)))


class Line(NamedTuple):
    mark: str
    style: str
    """A style of rich, for the mark; without a mark, for the whole line."""
    head: str
    text: str

    def plain(self) -> str:
        return " ".join(part for part in (self.mark, self.head, self.text) if part)


def line_of(event: Event, inside: Path | None = None) -> Line | None:
    """Return the line for an event; None if it is not shown."""
    prefix = f"{inside}{os.sep}" if inside else ""

    def short(text: str) -> str:
        return _short(text, prefix)

    match event:
        case PhaseStarted(phase=phase, detail=detail):
            return Line("▸", "bold", _PHASES.get(phase, phase), short(detail))
        case ProgressNote(text=text):
            return Line(" ", "dim", "", short(text))
        case SessionStarted(model=model, agent_version=version):
            known = {"version": version, "model": model}  # some agents report neither
            listed = ", ".join(f"{name} {value}" for name, value in known.items() if value)
            return Line(" ", "dim", "", f"session started: {listed}" if listed else "session started")
        case AssistantText(text=text):
            return Line("●", "bold", "", short(text))
        case ToolCalled(name=name, arguments=arguments):
            return Line("⚙", "cyan", name, short(main_argument(arguments)))
        case ToolDecided(name=name, allowed=False, reason=reason):
            return Line("!", "yellow", "", f"{name} was denied: {short(reason)}")
        case ToolReturned(content=content, is_error=is_error):
            return Line("  ↳ ✗" if is_error else "  ↳ ✓", "red" if is_error else "green", "", short(content))
        case EvaluatorFinished(evaluator=evaluator, status=status, message=message):
            mark, style = _VERDICTS.get(status, ("?", "yellow"))
            return Line(mark, style, evaluator, short(message))
        case ModelCalled(error=str(error), status=status) if error not in _SILENT:
            return Line("!", "yellow", "", f"gateway: {_GATEWAY.get(error, error)} ({status or 'no answer'})")
        case RequestRetried(status=status, attempt=attempt):
            which = "" if attempt is None else f", attempt {attempt}"
            return Line("!", "yellow", "", f"model request failed ({status or 'no answer'}){which}")
        case RateLimitSeen():
            return Line("!", "yellow", "", "the provider limits the rate")
        case WarningRaised(message=message):
            return Line("!", "yellow", "", f"warning: {short(message)}")
    return None


def main_argument(arguments: Mapping[str, Any]) -> str:
    """Return the argument to show for a tool call."""
    for name in _MAIN_ARGUMENTS:
        if isinstance(arguments.get(name), str):
            return str(arguments[name])
    if not arguments:
        return ""
    import json

    return json.dumps(dict(arguments), ensure_ascii=False)


def _short(text: str, prefix: str) -> str:
    """One line without escape sequences, with paths below `prefix` shortened."""
    text = text[: 20 * MOST_CHARACTERS]
    return one_line(text.replace(prefix, "") if prefix else text, MOST_CHARACTERS)


@dataclass
class Phase:
    name: str
    started_at: float
    ended_at: float | None = None


@dataclass
class Progress:
    inside: Path | None = None
    """Paths in this directory are shown relative to it."""
    directory: Path | None = None
    """Of the run, once there is one."""
    phases: list[Phase] = field(default_factory=list)
    model: str | None = None
    tool_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    calls: int = 0
    """Calls to the model, as counted by the gateway."""

    def take(self, event: Event) -> Line | None:
        """Update the progress, and return the event's line, if it has one."""
        match event:
            case PhaseStarted(phase=name, at=at):
                self._close(at)
                self.phases.append(Phase(name, at))
            case WorkspaceReady(directory=directory, tree=tree):
                self.directory, self.inside = Path(directory), Path(tree)
            case SessionStarted(model=str(model)):
                self.model = model
            case ToolCalled():
                self.tool_calls += 1
            case ModelCalled():
                self._count(event)
            case UsageReported() if not self.calls:  # the gateway's own count is exact, and more recent
                self.input_tokens = _newer(event.input_tokens, self.input_tokens)
                self.output_tokens = _newer(event.output_tokens, self.output_tokens)
                self.cost_usd = event.cost_usd if event.cost_usd is not None else self.cost_usd
        return line_of(event, self.inside)

    def _count(self, call: ModelCalled) -> None:
        self.calls += 1
        self.input_tokens = _sum(self.input_tokens, call.input_tokens)
        self.output_tokens = _sum(self.output_tokens, call.output_tokens)
        self.cost_usd = _sum(self.cost_usd, call.cost_usd)

    def _close(self, at: float) -> None:
        if self.phases and self.phases[-1].ended_at is None:
            self.phases[-1].ended_at = at


def _sum(one: N | None, other: N | None) -> N | None:
    return other if one is None else one if other is None else one + other


def _newer(new: int | None, old: int | None) -> int | None:
    return old if new is None else new
