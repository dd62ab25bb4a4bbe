"""Collect the facts of a session from its events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.kind import AgentKind
from youbencha.events import (
    AssistantText,
    Event,
    RequestRetried,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    UsageReported,
    WarningRaised,
    event_type,
)
from youbencha.json_lines import Record, decode_event, quoted
from youbencha.log import Usage
from youbencha.log.model import usage_of
from youbencha.usage import Tokens, add_all


@event_type
class CallFailed(Event):
    """A call to the model failed for good."""

    kind: str | None
    status: int | None
    text: str


@event_type
class CallMetered(Event):
    """What one call to the model took; calls add up."""

    tokens: Tokens
    cost_usd: float | None = None
    model: str | None = None


@event_type
class SessionNamed(Event):
    """Which session it was, told after its beginning."""

    session_id: str | None


@event_type
class TurnTaken(Event):
    """The model was asked once more, in the main conversation."""


# What is known of a session, as plain data: the evidence that the verdict and the log are made from.


class SessionFacts(BaseModel):
    """`model_dump(mode="json")` goes into a result's details, `model_validate` takes it out again."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    stream_seen: bool = False
    session_id: str | None = None
    model: str | None = None
    agent_version: str | None = None
    usage: Usage | None = None
    turns: int | None = None
    results: int = 0
    """How often the agent said a closing word; the last one counts."""
    result_subtype: str | None = None
    result_is_error: bool = False
    result_text: str | None = None
    failed: bool = False
    """A call to the model failed for good, and nothing came after it."""
    failure_kind: str | None = None
    failure_status: int | None = None
    failure_text: str = ""
    retries: dict[str, int] = Field(default_factory=dict)
    """How often calls were tried again, by their HTTP status (`no answer` where there was none)."""
    denied_tools: dict[str, int] = Field(default_factory=dict)
    """How often each was denied."""
    tools_used: dict[str, int] = Field(default_factory=dict)
    """How often each was called."""
    unread_metrics: tuple[str, ...] = ()
    """What was wrong with the file in which it told its figures."""
    malformed_lines: int = 0
    malformed_example: str | None = None


# One run's facts, gathered line by line. Keeps no content, so it may watch a stream of any length.
#
# An agent brings a `StreamReader`, which turns its records into events; all that is counted is counted here.

MALFORMED_WARNINGS = 20
"""So many lines are reported one by one, the rest only counted: a broken stream can have millions."""

Handler = Callable[[Record], Iterable[Event]]


class StreamReader(ABC):
    """One agent's records -> events. Made anew for each reading; it may remember what came before."""

    @abstractmethod
    def handlers(self) -> Mapping[str, Handler]:
        """By a record's `type`. Only these types tell that the agent's stream has begun; others are passed over."""

    def finish(self) -> Iterable[Event]:
        """What was begun and never ended: called once, when no more lines will come."""
        return ()


class Session:
    """Feed it every line, then `finish()`; ask it for `facts()` at any time."""

    def __init__(self, kind: AgentKind, reader: StreamReader) -> None:
        self._kind = kind
        self._reader = reader
        self._handlers = reader.handlers()
        self.stream_seen = False
        self._session_id: str | None = None
        self._model: str | None = None
        self._called_model: str | None = None
        self._agent_version: str | None = None
        self._calls: list[Tokens] = []
        self._costs: list[float] = []
        self._reported: UsageReported | None = None
        self._turns = 0
        self._result: SessionResult | None = None
        self._results = 0
        self._failure: CallFailed | None = None
        self._retries: Counter[str] = Counter()
        self._denied: Counter[str] = Counter()
        self._tools: Counter[str] = Counter()
        self._malformed = 0
        self._malformed_example: str | None = None
        self._readers: dict[type[Event], Callable[[Any], None]] = {
            SessionStarted: self._on_start,
            SessionNamed: self._on_named,
            AssistantText: self._on_text,
            CallMetered: self._on_metered,
            CallFailed: self._on_failure,
            TurnTaken: self._on_turn,
            UsageReported: self._on_usage,
            RequestRetried: self._on_retry,
            ToolCalled: self._on_tool,
            ToolDenied: self._on_denied,
            SessionResult: self._on_result,
        }

    def feed(self, line: bytes | str) -> list[Event]:
        """What the line says, in order, for the live display and the journal."""
        record = decode_event(line)
        if isinstance(record, str):
            return self._on_malformed(record)
        handler = self._handlers.get(record.get("type", ""))
        if handler is None:
            return []
        self.stream_seen = True
        return self._noted(handler(record))

    def finish(self) -> list[Event]:
        return self._noted(self._reader.finish())

    def facts(self) -> SessionFacts:
        result, failure = self._result, self._failure
        return SessionFacts(
            stream_seen=self.stream_seen,
            session_id=self._session_id,
            model=self._called_model or self._model,
            agent_version=self._agent_version,
            usage=self._usage(),
            turns=result.turns if result and result.turns is not None else self._turns or None,
            results=self._results,
            result_subtype=result.subtype if result else None,
            result_is_error=result.is_error if result else False,
            result_text=result.text if result else None,
            failed=failure is not None,
            failure_kind=failure.kind if failure else None,
            failure_status=failure.status if failure else None,
            failure_text=failure.text if failure else "",
            retries=dict(self._retries),
            denied_tools=dict(self._denied),
            tools_used=dict(self._tools),
            malformed_lines=self._malformed,
            malformed_example=self._malformed_example,
        )

    def _usage(self) -> Usage | None:
        """A total is the agent's own sum; else the calls add up, as far as they were seen."""
        if (said := self._reported) is not None:
            tokens = Tokens(said.input_tokens, said.output_tokens, said.cache_read_tokens, said.cache_creation_tokens)
            return usage_of(tokens, said.cost_usd, partial=False)
        cost = sum(self._costs) if self._costs else None
        if not self._calls and cost is None:
            return None
        return usage_of(add_all(self._calls), cost, partial=self._result is None)

    def _noted(self, events: Iterable[Event]) -> list[Event]:
        seen = list(events)
        for event in seen:
            if note := self._readers.get(type(event)):
                note(event)
        return seen

    def _on_malformed(self, text: str) -> list[Event]:
        self._malformed += 1
        if self._malformed > MALFORMED_WARNINGS:
            return []
        message = f"Skipped a line that is no event of {self._kind.title}: {quoted(text)}"
        self._malformed_example = self._malformed_example or message
        return [WarningRaised(code=self._kind.code(codes.MALFORMED_LINE), message=message)]

    def _on_start(self, event: SessionStarted) -> None:
        self._session_id = event.session_id or self._session_id
        self._model = event.model or self._model
        self._agent_version = event.agent_version or self._agent_version

    def _on_named(self, event: SessionNamed) -> None:
        self._session_id = event.session_id or self._session_id

    def _on_text(self, event: AssistantText) -> None:
        self._failure = None  # the model answered after all

    def _on_metered(self, event: CallMetered) -> None:
        self._called_model = event.model or self._called_model
        if event.tokens != Tokens():
            self._calls.append(event.tokens)
        if event.cost_usd is not None:
            self._costs.append(event.cost_usd)

    def _on_failure(self, event: CallFailed) -> None:
        self._failure = event

    def _on_turn(self, event: TurnTaken) -> None:
        self._turns += 1

    def _on_usage(self, event: UsageReported) -> None:
        self._reported = event

    def _on_retry(self, event: RequestRetried) -> None:
        self._retries[str(event.status or "no answer")] += 1

    def _on_tool(self, event: ToolCalled) -> None:
        self._failure = None
        self._tools[event.name] += 1

    def _on_denied(self, event: ToolDenied) -> None:
        self._denied[event.name] += 1

    def _on_result(self, event: SessionResult) -> None:
        self._results += 1
        self._result = event
