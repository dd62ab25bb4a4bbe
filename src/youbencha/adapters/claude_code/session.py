"""One run's facts, gathered line by line. Keeps no content, so it may watch a stream of any length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from youbencha.adapters.claude_code.stream import (
    ClaudeResult,
    Ledger,
    McpServerFailed,
    ModelCalled,
    ModelRefused,
    ModelSwitched,
    events_of,
    is_known,
    malformed_line,
)
from youbencha.adapters.cli_agent.session import CallFailed
from youbencha.events import Event, RateLimitSeen, RequestRetried, SessionStarted, ToolDenied, UsageReported
from youbencha.json_lines import decode_event
from youbencha.log import Usage


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ResultFacts(_Facts):
    """The last `result`: the one that counts."""

    subtype: str | None = None
    is_error: bool = False
    text: str | None = None
    errors: tuple[str, ...] = ()
    status: int | None = None
    terminal_reason: str | None = None
    duration_ms: int | None = None


class FailureFacts(_Facts):
    """The last call that the client gave up, in its own words."""

    kind: str | None = None
    status: int | None = None
    text: str = ""


class RetryFacts(_Facts):
    status: int | None
    reason: str | None
    times: int


class RateLimitFacts(_Facts):
    status: str | None = None
    resets_at: float | None = None
    kind: str | None = None


class SwitchFacts(_Facts):
    original: str | None = None
    fallback: str | None = None
    trigger: str | None = None


class SessionFacts(_Facts):
    """`model_dump(mode="json")` goes into a result's details, `model_validate` takes it out again."""

    stream_seen: bool = False
    session_id: str | None = None
    model: str | None = None
    """As the messages of the main conversation say; else as `init` says."""
    init_model: str | None = None
    cli_version: str | None = None
    key_source: str | None = None
    usage: Usage | None = None
    turns: int | None = None
    """Over all results: each counts only its own."""
    results: int = 0
    result: ResultFacts | None = None
    failure: FailureFacts | None = None
    refused: bool = False
    retries: tuple[RetryFacts, ...] = ()
    rate_limit: RateLimitFacts | None = None
    switches: tuple[SwitchFacts, ...] = ()
    denied_tools: dict[str, int] = Field(default_factory=dict)
    """How often each was denied."""
    denied_by_policy: dict[str, int] = Field(default_factory=dict)
    """How often `tool_policy` denied each. Some versions count these among the others, too."""
    failed_mcp_servers: tuple[str, ...] = ()
    malformed_lines: int = 0
    malformed_example: str | None = None


def base_model(name: str) -> str:
    """For comparing only: `init` says "claude-opus-4-8[1m]" where the messages say "claude-opus-4-8"."""
    return name.split("[", 1)[0]


MALFORMED_WARNINGS = 20
"""So many lines are reported one by one, the rest only counted: a broken stream can have millions."""


class Session:
    """Feed it every line; ask it for `facts()` at any time."""

    def __init__(self) -> None:
        self.stream_seen = False
        """True from the first event on that only Claude Code writes."""
        self._session_id: str | None = None
        self._init_model: str | None = None
        self._message_model: str | None = None
        self._cli_version: str | None = None
        self._key_source: str | None = None
        self._ledger = Ledger()
        self._turns: list[int] = []
        self._results = 0
        self._result: ResultFacts | None = None
        self._failure: FailureFacts | None = None
        self._refused = False
        self._retries: Counter[tuple[int | None, str | None]] = Counter()
        self._rate_limit: RateLimitFacts | None = None
        self._switches: dict[SwitchFacts, None] = {}
        self._denied: Counter[str] = Counter()
        self._denied_calls: set[str] = set()
        self._failed_mcp: dict[str, None] = {}
        self._malformed = 0
        self._malformed_example: str | None = None
        self._readers: dict[type[Event], Callable[[Any], None]] = {
            SessionStarted: self._on_start,
            ModelCalled: self._on_call,
            CallFailed: self._on_failure,
            ModelRefused: self._on_refusal,
            ModelSwitched: self._on_switch,
            McpServerFailed: self._on_failed_mcp,
            RequestRetried: self._on_retry,
            RateLimitSeen: self._on_rate_limit,
            UsageReported: self._ledger.note_total,
            ClaudeResult: self._on_result,
        }

    @property
    def session_id(self) -> str | None:
        return self._session_id

    def usage_so_far(self) -> UsageReported | None:
        """The sum of the calls, if it has grown since this was last asked."""
        return self._ledger.news()

    @property
    def has_result(self) -> bool:
        return self._results > 0

    def feed(self, line: bytes | str) -> list[Event]:
        """What the line says that was not said before, in order, for the live display and the journal."""
        record = decode_event(line)
        if isinstance(record, str):
            return self._on_malformed(record)
        self.stream_seen = self.stream_seen or is_known(record)
        events = [event for event in events_of(record) if not self._is_repeated(event)]
        for event in events:
            if reader := self._readers.get(type(event)):
                reader(event)
        return events

    def facts(self) -> SessionFacts:
        retries = ((status, reason, times) for (status, reason), times in self._retries.items())
        return SessionFacts(
            stream_seen=self.stream_seen,
            session_id=self._session_id,
            model=self._message_model or self._init_model,
            init_model=self._init_model,
            cli_version=self._cli_version,
            key_source=self._key_source,
            usage=self._ledger.total(),
            turns=sum(self._turns) if self._turns else None,
            results=self._results,
            result=self._result,
            failure=self._failure,
            refused=self._refused,
            retries=tuple(RetryFacts(status=s, reason=r, times=n) for s, r, n in retries),
            rate_limit=self._rate_limit,
            switches=tuple(self._switches),
            denied_tools=dict(self._denied),
            failed_mcp_servers=tuple(self._failed_mcp),
            malformed_lines=self._malformed,
            malformed_example=self._malformed_example,
        )

    def _is_repeated(self, event: Event) -> bool:
        """2.1.325 tells of a denied call when it happens, and every result lists it again."""
        if not isinstance(event, ToolDenied):
            return False
        if event.call_id is not None and event.call_id in self._denied_calls:
            return True
        if event.call_id is not None:
            self._denied_calls.add(event.call_id)
        self._denied[event.name] += 1
        return False

    def _on_malformed(self, text: str) -> list[Event]:
        self._malformed += 1
        if self._malformed > MALFORMED_WARNINGS:
            return []
        warning = malformed_line(text)
        self._malformed_example = self._malformed_example or warning.message
        return [warning]

    def _on_start(self, event: SessionStarted) -> None:
        self._session_id = event.session_id or self._session_id
        self._init_model = event.model or self._init_model
        self._cli_version = event.agent_version or self._cli_version
        self._key_source = event.key_source or self._key_source

    def _on_call(self, event: ModelCalled) -> None:
        # A subagent may run on another model; the run is named after the main conversation's.
        if event.model and event.parent is None:
            self._message_model = event.model
        self._ledger.note_call(event)

    def _on_failure(self, event: CallFailed) -> None:
        self._failure = FailureFacts(kind=event.kind, status=event.status, text=event.text)

    def _on_refusal(self, event: ModelRefused) -> None:
        self._refused = True

    def _on_switch(self, event: ModelSwitched) -> None:
        switch = SwitchFacts(original=event.original, fallback=event.fallback, trigger=event.trigger)
        self._switches[switch] = None

    def _on_failed_mcp(self, event: McpServerFailed) -> None:
        self._failed_mcp[event.name] = None

    def _on_retry(self, event: RequestRetried) -> None:
        self._retries[event.status, event.reason] += 1

    def _on_rate_limit(self, event: RateLimitSeen) -> None:
        self._rate_limit = RateLimitFacts(status=event.status, resets_at=event.resets_at, kind=event.kind)

    def _on_result(self, event: ClaudeResult) -> None:
        self._results += 1
        self._session_id = self._session_id or event.session_id
        if event.turns is not None:
            self._turns.append(event.turns)
        self._result = ResultFacts(
            subtype=event.subtype,
            is_error=event.is_error,
            text=event.text,
            errors=event.errors,
            status=event.status,
            terminal_reason=event.terminal_reason,
            duration_ms=event.duration_ms,
        )
