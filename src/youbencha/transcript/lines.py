"""Fold events into the progress of a run, and into one line per event."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from youbencha.events import (
    AssistantText,
    CompletionRefused,
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
    ProgressNote,
    RateLimitSeen,
    RequestRetried,
    SessionStarted,
    ToolCalled,
    ToolDecided,
    ToolReturned,
    TopicPublished,
    UsageReported,
    WarningRaised,
    WorkspaceReady,
)
from youbencha.text import format_count, format_duration, format_usd, one_line, plural, time_of_day, visible

MAX_TEXT_CHARS = 100

_MAIN_ARGUMENTS = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")
"""The first of these that a tool call has is shown."""

_PHASES = {
    "checkout": "checking out",
    "pre_execution": "running pre-execution hooks",
    "task_check": "checking the untouched task",
    "agent": "running the agent",
    "freeze": "collecting changes",
    "evaluation": "evaluating",
    "post_evaluation": "running post-evaluation hooks",
}

_VERDICTS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "yellow")}

_OUTCOMES = {
    "completed": ("✓", "green"),
    "cancelled": ("–", "yellow"),
    "usage_limit": ("–", "yellow"),
    "limit": ("–", "yellow"),
    "stopped": ("–", "yellow"),
    "interrupted": ("–", "yellow"),
    "restart": ("–", "yellow"),
}
"""Mark and style of the outcomes of iterations and loops; all others are failures."""

_RATE_LIMITS = {"rejected": "the usage limit is reached", "allowed_warning": "the usage limit is near"}
_MAX_WHOLE_TEXT_CHARS = 20_000

_GATEWAY = {
    "budget_exceeded": "request refused: the budget is spent",
    "call_over_cap": "request refused: it may cost more than is left of the budget",
    "price_unknown": "request refused: no known price for this model, so the budget cannot be enforced",
    "circuit_open": "request refused: the provider failed too often, and is not called for a while",
    "rate_limited": "the provider asks to wait",
    "provider_failed": "the provider failed",
    "ended_early": "the provider ended its answer too early",
    "no_credit": "the account has no credit",
    "upstream_unreachable": "the provider does not answer",
    "not_recorded": "no recording matches this request",
}

_SILENT = frozenset({"client_gone", "key_ended", "not_found", "provider_refused"})
"""The agent reports these itself, or causes them."""

OWN_FIGURES = {"agent": "the agent's own figures", "prices": "the agent's own figures, at list prices"}
"""The label of usage that the gateway did not count, by its source."""
MAX_REASON_CHARS = 500

N = TypeVar("N", int, float)


class Line(NamedTuple):
    mark: str
    style: str
    """The style for the mark; without a mark, for the whole line: `bold`, `dim` or a colour."""
    head: str
    text: str

    def plain(self) -> str:
        return " ".join(part for part in (self.mark, self.head, self.text) if part)


def event_line(event: Event, inside: Path | None = None) -> Line | None:
    """Return the line for an event, without escape sequences; None if it is not shown."""
    prefix = f"{inside}{os.sep}" if inside else ""
    line = _line(event, lambda text: _short(text, prefix))
    if line is None:
        return None
    # Names are an agent's own words, too: of its tools and its model, and any of a recording.
    return line._replace(head=one_line(line.head), text=one_line(line.text, _MAX_WHOLE_TEXT_CHARS))


def _line(event: Event, short: Callable[[str], str]) -> Line | None:
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
        case RateLimitSeen(status=status, resets_at=resets_at) if status != "allowed":
            limit = _RATE_LIMITS.get(status or "", "the provider limits the rate")
            return Line("!", "yellow", "", limit + ("" if resets_at is None else f", until {time_of_day(resets_at)}"))
        case WarningRaised(message=message):
            return Line("!", "yellow", "", f"warning: {short(message)}")
    return _loop_line(event, short)


def _loop_line(event: Event, short: Callable[[str], str]) -> Line | None:
    match event:
        case LoopStarted(first_iteration=first):
            head = "loop" if first == 1 else f"loop, continued with iteration {first}"
            return Line(
                "▸", "bold", f"{head}:", _join(event.loop_id, _agent(event.backend, event.model), *_limits(event))
            )
        case IterationStarted(iteration=number, hat=hat, attempt=attempt):
            again = f"attempt {attempt}" if attempt > 1 else None
            details = _join(_agent(event.backend, event.model), hat and f"as {short(hat)}", again)
            return Line("━━", "bold", f"iteration {number}", f"· {details}")
        case IterationEnded(iteration=number, outcome=outcome):
            mark, style = _OUTCOMES.get(outcome, ("✗", "red"))
            reason = one_line(event.reason, MAX_REASON_CHARS) if event.reason else None
            return Line(mark, style, f"iteration {number} {_words(outcome)}:", _join(reason, *_figures(event)))
        case TopicPublished(topic=topic, payload=payload):
            return Line("◆", "magenta", short(topic), short(payload))
        case LoopWaiting(kind="paused", reason=reason):
            return Line("‖", "yellow", "", short(reason))
        case LoopWaiting(reason=reason, kind=kind, until=until, at=at):
            return Line(
                "◷", "yellow", f"waiting {format_duration((until - at) * 1000)}:", short(reason or _words(kind))
            )
        case GuidanceGiven(text=text):
            return Line("›", "cyan", "guidance:", short(text))
        case CompletionRefused(reason=reason):
            return Line("!", "yellow", "", f"says done, but {one_line(reason, MAX_REASON_CHARS)}")
        case LoopEnded(outcome=outcome, reason=reason):
            mark, style = _OUTCOMES.get(outcome, ("✗", "red"))
            return Line(mark, style, f"loop {_words(outcome)}:", _join(reason, *loop_totals(event)))
    return None


def _join(*parts: str | None) -> str:
    return " · ".join(part for part in parts if part)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _agent(backend: str, model: str | None) -> str:
    return one_line(f"{backend} {model or ''}", MAX_TEXT_CHARS)


def _limits(loop: LoopStarted) -> tuple[str | None, ...]:
    return (
        None if loop.max_iterations is None else f"at most {plural(loop.max_iterations, 'iteration')}",
        None if loop.max_runtime_s is None else f"at most {format_duration(loop.max_runtime_s * 1000)}",
        None if loop.max_cost_usd is None else f"at most {format_usd(loop.max_cost_usd)}",
    )


def _figures(ended: IterationEnded) -> tuple[str | None, ...]:
    changed = None if ended.files_changed is None else f"{plural(ended.files_changed, 'file')} changed"
    used = (*_used(ended), OWN_FIGURES.get(ended.usage_source or ""))
    return (format_duration(ended.duration_ms), *used, changed)


def _used(ended: IterationEnded | LoopEnded) -> tuple[str | None, str | None]:
    known = ended.input_tokens is not None or ended.output_tokens is not None
    tokens = f"{format_count(ended.input_tokens)} in, {format_count(ended.output_tokens)} out" if known else None
    return tokens, None if ended.cost_usd is None else format_usd(ended.cost_usd)


def loop_totals(ended: LoopEnded) -> tuple[str | None, ...]:
    """Describe the total usage of a loop, in parts of a line."""
    if ended.iterations is None:
        return ()  # recorded by an earlier version
    own = OWN_FIGURES["agent"] if ended.own_figures else None
    partial = "some of it is unknown" if ended.partial and ended.cost_usd is not None else None
    return (
        f"{plural(ended.iterations, 'iteration')} in {format_duration(ended.elapsed_ms)}",
        *_used(ended),
        own,
        partial,
    )


def whole_lines(text: str) -> list[str]:
    """Return all lines of a text, where there is room for them; the last state of a line that is overwritten."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text[:_MAX_WHOLE_TEXT_CHARS].split("\n")]
    return [visible(line).rstrip() for line in lines] + (["…"] if len(text) > _MAX_WHOLE_TEXT_CHARS else [])


def main_argument(arguments: Mapping[str, Any]) -> str:
    """Return the argument to show for a tool call."""
    for name in _MAIN_ARGUMENTS:
        if isinstance(arguments.get(name), str):
            return str(arguments[name])
    if not arguments:
        return ""
    return json.dumps(dict(arguments), ensure_ascii=False)


def _short(text: str, prefix: str) -> str:
    """One line without escape sequences, with paths below `prefix` shortened."""
    text = text[: 20 * MAX_TEXT_CHARS]
    return one_line(text.replace(prefix, "") if prefix else text, MAX_TEXT_CHARS)


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
    """The run directory, once there is one."""
    phases: list[Phase] = field(default_factory=list)
    model: str | None = None
    tool_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cost_usd: float | None = None
    calls: int = 0
    """Calls to the model, as counted by the gateway."""
    max_iterations: int | None = None
    _called_at: dict[str, float] = field(default_factory=dict)
    """The tool calls that have not returned."""

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
            case ToolCalled(call_id=call_id, at=at):
                self.tool_calls += 1
                if call_id is not None:
                    self._called_at[call_id] = at
            case LoopStarted(directory=tree, max_iterations=most):
                self.inside = Path(tree)
                self.max_iterations = most
            case IterationStarted():
                self._called_at.clear()
            case ModelCalled():
                self._count(event)
            case UsageReported() if not self.calls:  # the gateway's own count is exact, and more recent
                self.input_tokens = _newer(event.input_tokens, self.input_tokens)
                self.output_tokens = _newer(event.output_tokens, self.output_tokens)
                self.cache_read_tokens = _newer(event.cache_read_tokens, self.cache_read_tokens)
                self.cache_creation_tokens = _newer(event.cache_creation_tokens, self.cache_creation_tokens)
                self.cost_usd = event.cost_usd if event.cost_usd is not None else self.cost_usd
        line = event_line(event, self.inside)
        return None if line is None else self._completed(event, line)

    def _completed(self, event: Event, line: Line) -> Line:
        """Add what only the events before it tell."""
        match event:
            case ToolReturned(call_id=str(call_id), at=at) if call_id in self._called_at:
                took = format_duration((at - self._called_at.pop(call_id)) * 1000)
                return line._replace(text=f"{line.text} ({took})".lstrip())
            case IterationStarted() if self.max_iterations is not None:
                return line._replace(head=f"{line.head} of {format_count(self.max_iterations)}")
        return line

    def _count(self, call: ModelCalled) -> None:
        self.calls += 1
        self.input_tokens = _sum(self.input_tokens, call.input_tokens)
        self.output_tokens = _sum(self.output_tokens, call.output_tokens)
        self.cache_read_tokens = _sum(self.cache_read_tokens, call.cache_read_tokens)
        self.cache_creation_tokens = _sum(self.cache_creation_tokens, call.cache_creation_tokens)
        self.cost_usd = _sum(self.cost_usd, call.cost_usd)

    def _close(self, at: float) -> None:
        if self.phases and self.phases[-1].ended_at is None:
            self.phases[-1].ended_at = at


def _sum(one: N | None, other: N | None) -> N | None:
    return other if one is None else one if other is None else one + other


def _newer(new: int | None, old: int | None) -> int | None:
    return old if new is None else new
