"""What happens while an agent runs, as typed values in one stream.

The live display, the journal and the log all read these. An event is a fact that was observed, never a guess:
what an agent did not say is `None`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from inspect import get_annotations
from typing import Any, ClassVar, Self, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Event:
    """Something that happened, at a moment (seconds since the epoch, as seen by the harness).

    A kind of event only declares what it holds; to readers and type checkers it is a frozen dataclass with keywords.
    It is not made as one because `dataclass` compiles code for each class: 0.7 ms, times thirty, at every start.
    """

    at: float = 0.0  # now, unless it is given

    _names: ClassVar[tuple[str, ...]] = ("at",)

    def __init_subclass__(cls) -> None:
        own = (name for name, kind in get_annotations(cls).items() if not str(kind).startswith("ClassVar"))
        cls._names = tuple(dict.fromkeys((*cls._names, *own)))

    def __init__(self, **given: Any) -> None:
        values = self.__dict__
        values["at"] = time.time()
        values.update(given)
        if len(values) != len(self._names) or not values.keys() >= set(self._names):
            self._fill_in(values)

    def _fill_in(self, values: dict[str, Any]) -> None:
        if unknown := values.keys() - set(self._names):
            raise TypeError(f"{type(self).__name__} does not hold {', '.join(sorted(unknown))}")
        for name in self._names:
            if name not in values:
                if not hasattr(type(self), name):
                    raise TypeError(f"{type(self).__name__} needs {name}")
                values[name] = getattr(type(self), name)

    def but(self, **changes: Any) -> Self:
        """The same event with something else in it."""
        return type(self)(**{**self.__dict__, **changes})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *(self.__dict__[name] for name in self._names)))

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self._names)
        return f"{type(self).__name__}({told})"


EventSink = Callable[[Event], None]


class ProcessStarted(Event):
    pid: int
    executable: str


class ProcessEnded(Event):
    exit_code: int | None
    signal: str | None
    timed_out: bool


class SessionStarted(Event):
    session_id: str | None
    model: str | None
    agent_version: str | None
    tools: tuple[str, ...] = ()
    key_source: str | None = None


class AssistantText(Event):
    """A finished piece of text. `parent` is the tool call of the subagent that wrote it, if one did."""

    text: str
    parent: str | None = None
    sent_at: str | None = None
    """When, by the agent's own clock (ISO 8601), if it says so."""


class AssistantTextDelta(Event):
    """A few more characters of a text that is still being written (partial messages only)."""

    text: str
    parent: str | None = None


class AssistantThinking(Event):
    text: str
    parent: str | None = None


class UserText(Event):
    """Text put to the model in the user's place: by the agent itself, or the task of a subagent."""

    text: str
    parent: str | None = None
    sent_at: str | None = None


class ToolDecided(Event):
    """The harness was asked whether a tool may be used, and said so."""

    call_id: str | None
    name: str
    allowed: bool
    reason: str


class ToolCalled(Event):
    call_id: str | None
    name: str
    arguments: Mapping[str, Any]
    parent: str | None = None


class ToolReturned(Event):
    call_id: str | None
    content: str
    is_error: bool
    parent: str | None = None


class ToolDenied(Event):
    call_id: str | None
    name: str


class UsageReported(Event):
    """Tokens of the session so far, as the agent itself reports them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cost_usd: float | None = None


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


class RequestRetried(Event):
    """The agent's call to the model failed and will be tried again."""

    attempt: int | None
    status: int | None
    """HTTP status; None when there was no answer at all."""
    reason: str | None
    delay_ms: float | None


class RateLimitSeen(Event):
    status: str | None
    resets_at: float | None
    """When the limit ends, in seconds since the epoch, if the agent said so."""
    kind: str | None = None


class SessionResult(Event):
    """The agent's own closing word. Some versions say it more than once: the last one counts."""

    subtype: str | None
    is_error: bool
    text: str | None
    turns: int | None
    duration_ms: int | None


class OutputTruncated(Event):
    limit_bytes: int


class WarningRaised(Event):
    code: str
    message: str


class PhaseStarted(Event):
    """A part of the harness's own work: checkout, pre_execution, agent, freeze, evaluation, post_evaluation."""

    phase: str
    detail: str = ""


class WorkspaceReady(Event):
    """From here on there is a place where the run leaves what it has finished."""

    directory: str
    tree: str
    """Where the agent works."""


class EvaluatorFinished(Event):
    evaluator: str
    status: str
    message: str


class ProgressNote(Event):
    """Progress in words, where nothing more can be said: git's, an installer's."""

    text: str
