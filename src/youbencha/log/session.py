"""Collect the facts of a session from its events.

An agent's `StreamReader` turns the records of its output into events, and a `SessionRecorder` turns events into
`SessionFacts`, from which the verdict, the warnings, the log and the metrics file are made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from youbencha.events import (
    AssistantText,
    Event,
    RateLimitSeen,
    RequestRetried,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDecided,
    ToolDenied,
    UsageReported,
    WarningRaised,
)
from youbencha.json_lines import Record
from youbencha.log.model import Message, ToolCall
from youbencha.usage import SessionTotal, SessionUsage, Tokens, UsageCounter


@dataclass(frozen=True, kw_only=True)
class CallFailed(Event):
    """A call to the model failed for good."""

    kind: str | None
    status: int | None
    text: str


@dataclass(frozen=True, kw_only=True)
class CallMetered(Event):
    """The tokens of one call to the model, or an update of them. Calls add up."""

    tokens: Tokens
    cost_usd: float | None = None
    model: str | None = None
    message_id: str | None = None
    """The same in all updates of one call; None if there are no updates."""
    final: bool = True
    """False if `tokens.output` is only a preliminary number."""
    parent: str | None = None
    """The tool call of the subagent that made it, if any."""


@dataclass(frozen=True, kw_only=True)
class TotalsByModel(Event):
    """What the agent used of each model so far, which the next `UsageReported` adds up."""

    tokens: Mapping[str, Tokens]
    incomplete: bool = False
    """Calls are known to be missing."""


@dataclass(frozen=True, kw_only=True)
class TurnTaken(Event):
    """The main conversation made another call to the model."""


@dataclass(frozen=True, kw_only=True)
class ModelRefused(Event):
    """The model declined, and there was no fallback model."""


@dataclass(frozen=True, kw_only=True)
class ModelSwitched(Event):
    """The agent switched to another model: from here on, the run does not measure the configured one."""

    original: str | None
    fallback: str | None
    trigger: str | None


@dataclass(frozen=True, kw_only=True)
class McpServerFailed(Event):
    """An MCP server did not start: the agent worked without its tools."""

    name: str


class RetriedCalls(NamedTuple):
    """Calls to the model that failed for the same reason and were retried."""

    status: int | None
    """HTTP status; None without an answer."""
    reason: str | None
    times: int


_EMPTY: Mapping[str, int] = {}
_MAX_NOTICES = 20


class SessionFacts(NamedTuple):
    """What is known of a session. Unknown is None."""

    stream_seen: bool = False
    """Events were read from the agent's output or from its own session file."""
    session_id: str | None = None
    model: str | None = None
    """The model in the answers of the main conversation; else `init_model`."""
    provider: str | None = None
    """The model's provider, if the agent reports it."""
    init_model: str | None = None
    """The model that the agent started with."""
    agent_version: str | None = None
    key_source: str | None = None
    usage: SessionUsage | None = None
    turns: int | None = None
    results: int = 0
    """How many results the agent reported; the last one counts."""
    result: SessionResult | None = None
    failure: CallFailed | None = None
    """The last call that failed for good, if the model did not answer after it."""
    refused: bool = False
    retries: tuple[RetriedCalls, ...] = ()
    unanswered: RequestRetried | None = None
    """The last call that failed and was to be retried, if the model has not answered since."""
    rate_limit: RateLimitSeen | None = None
    switches: tuple[ModelSwitched, ...] = ()
    denied_tools: Mapping[str, int] = _EMPTY
    """How often each was denied."""
    tools: tuple[str, ...] | None = None
    """The tools that were available to the agent at its start. None if it does not report them."""
    tools_used: Mapping[str, int] = _EMPTY
    """How often each was called and not denied."""
    failed_mcp_servers: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    """What the agent warned of, each once."""
    unread_metrics: tuple[str, ...] = ()
    """Problems with the metrics file that the agent wrote."""
    malformed_lines: int = 0
    malformed_example: str | None = None


class LeftOut(NamedTuple):
    """How much of a conversation was too long to be kept."""

    messages: int = 0
    tool_calls: int = 0
    characters: int = 0
    bytes: int = 0
    """The size of what is missing in an output that was not read as text."""


class SessionRecord(NamedTuple):
    """A session: its facts and its conversation."""

    facts: SessionFacts = SessionFacts()
    messages: tuple[Message, ...] = ()
    tool_calls: tuple[ToolCall, ...] | None = None
    """None: the agent does not report them."""
    left_out: LeftOut = LeftOut()

    def with_facts(self, **changes: Any) -> SessionRecord:
        return self._replace(facts=self.facts._replace(**changes))


_NO_TOTALS = TotalsByModel(tokens={})

Handler = Callable[[Record], Iterable[Event]]


class StreamReader(ABC):
    """Turns one agent's records into events. Stateful: one instance for each stream."""

    partial_prefix: str | None = None
    """The start of lines whose content the finished message repeats: needed only for the live display."""
    has_conversation: bool = True
    """False if there was only a result: then it is unknown which tools were called."""

    @abstractmethod
    def handlers(self) -> Mapping[str, Handler]:
        """Handlers by a record's `type`. Other types are ignored, and do not count as the start of the stream."""

    def finish(self) -> Iterable[Event]:
        """Events for messages and calls that are not finished. Called once, after the last line."""
        return ()


class SessionRecorder:
    """Collects the facts of a session from its events. It stores no content, so a stream may have any length."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        self._usage = UsageCounter()
        self._totals = _NO_TOTALS
        self._shown = Tokens()
        self._init_model: str | None = None
        self._answer_model: str | None = None
        self._agent_version: str | None = None
        self._key_source: str | None = None
        self._initial_tools: tuple[str, ...] | None = None
        self._turns = 0
        self._reported_turns: int | None = None
        self._results = 0
        self._result: SessionResult | None = None
        self._failure: CallFailed | None = None
        self._refused = False
        self._retries: Counter[tuple[int | None, str | None]] = Counter()
        self._unanswered: RequestRetried | None = None
        self._rate_limit: RateLimitSeen | None = None
        self._switches: dict[tuple[str | None, ...], ModelSwitched] = {}
        self._tools: dict[str, str] = {}
        self._tools_without_id: Counter[str] = Counter()
        self._denied: Counter[str] = Counter()
        self._denied_calls: set[str] = set()
        self._failed_mcp: dict[str, None] = {}
        self._notices: dict[str, None] = {}
        self._readers: dict[type[Event], Callable[[Any], None]] = {
            SessionStarted: self._on_start,
            AssistantText: self._on_text,
            CallMetered: self._on_call,
            CallFailed: self._on_failure,
            TurnTaken: self._on_turn,
            TotalsByModel: self._on_totals_by_model,
            UsageReported: self._on_total,
            RequestRetried: self._on_retry,
            RateLimitSeen: self._on_rate_limit,
            ModelRefused: self._on_refusal,
            ModelSwitched: self._on_switch,
            McpServerFailed: self._on_failed_mcp,
            WarningRaised: self._on_warning,
            ToolCalled: self._on_tool,
            ToolDecided: self._on_decision,
            ToolDenied: self._on_denied,
            SessionResult: self._on_result,
        }

    def record(self, event: Event) -> None:
        if reader := self._readers.get(type(event)):
            reader(event)

    def answered(self) -> None:
        """Note an answer of the model that no event reports."""
        self._unanswered = None

    def is_repeated(self, event: Event) -> bool:
        """Whether an event was reported before: every result of Claude Code 2.1.325 lists denied calls again."""
        return isinstance(event, ToolDenied) and event.call_id is not None and event.call_id in self._denied_calls

    def live_usage(self) -> UsageReported | None:
        """The sum of the calls, if it has changed since the last time and the agent has not reported a total."""
        seen = self._usage.calls
        if seen == self._shown or self._usage.has_total:
            return None
        self._shown = seen
        return UsageReported(
            input_tokens=seen.input,
            output_tokens=seen.output,
            cache_read_tokens=seen.cache_read,
            cache_creation_tokens=seen.cache_creation,
        )

    def facts(self) -> SessionFacts:
        used = Counter(name for call_id, name in self._tools.items() if call_id not in self._denied_calls)
        return SessionFacts(
            session_id=self.session_id,
            model=self._answer_model or self._init_model,
            init_model=self._init_model,
            agent_version=self._agent_version,
            key_source=self._key_source,
            usage=self._usage.usage(ended=self._result is not None),
            turns=self._turns or None if self._reported_turns is None else self._reported_turns,
            results=self._results,
            result=self._result,
            failure=self._failure,
            refused=self._refused,
            retries=tuple(RetriedCalls(*cause, times) for cause, times in self._retries.items()),
            unanswered=self._unanswered,
            rate_limit=self._rate_limit,
            switches=tuple(self._switches.values()),
            denied_tools=dict(self._denied),
            tools=self._initial_tools,
            tools_used=dict(used + self._tools_without_id),
            failed_mcp_servers=tuple(self._failed_mcp),
            notices=tuple(self._notices),
        )

    def _on_start(self, event: SessionStarted) -> None:
        self.session_id = event.session_id or self.session_id
        self._init_model = event.model or self._init_model
        self._agent_version = event.agent_version or self._agent_version
        self._key_source = event.key_source or self._key_source
        self._initial_tools = self._initial_tools if event.tools is None else event.tools

    def _on_text(self, event: AssistantText) -> None:
        self._failure = self._unanswered = None  # the model answered after all

    def _on_call(self, event: CallMetered) -> None:
        self._unanswered = None
        # A subagent may run on another model; the run is named after the main conversation's.
        if event.model and event.parent is None:
            self._answer_model = event.model
        self._usage.add_call(
            event.tokens, event.cost_usd, message_id=event.message_id, final=event.final, model=event.model
        )

    def _on_failure(self, event: CallFailed) -> None:
        self._failure = event

    def _on_turn(self, event: TurnTaken) -> None:
        self._turns += 1

    def _on_totals_by_model(self, event: TotalsByModel) -> None:
        self._totals = event

    def _on_total(self, event: UsageReported) -> None:
        tokens = Tokens(event.input_tokens, event.output_tokens, event.cache_read_tokens, event.cache_creation_tokens)
        self._usage.set_total(SessionTotal(tokens, event.cost_usd, self._totals.tokens, self._totals.incomplete))
        self._totals = _NO_TOTALS

    def _on_retry(self, event: RequestRetried) -> None:
        self._retries[event.status, event.reason] += 1
        self._unanswered = event

    def _on_rate_limit(self, event: RateLimitSeen) -> None:
        self._rate_limit = event

    def _on_refusal(self, event: ModelRefused) -> None:
        self._refused = True

    def _on_switch(self, event: ModelSwitched) -> None:
        self._switches.setdefault((event.original, event.fallback, event.trigger), event)

    def _on_failed_mcp(self, event: McpServerFailed) -> None:
        self._failed_mcp[event.name] = None

    def _on_warning(self, event: WarningRaised) -> None:
        if event.message and len(self._notices) < _MAX_NOTICES:
            self._notices[event.message] = None

    def _on_tool(self, event: ToolCalled) -> None:
        self._failure = self._unanswered = None
        if event.call_id is None:
            self._tools_without_id[event.name] += 1
        else:
            self._tools[event.call_id] = event.name

    def _on_decision(self, event: ToolDecided) -> None:
        """Count the call here, because not every client prints the calls that it asks about."""
        if not event.allowed:
            self._on_denied(ToolDenied(call_id=event.call_id, name=event.name))
        else:
            self._tools.setdefault(event.call_id or f"(a call to {event.name})", event.name)

    def _on_denied(self, event: ToolDenied) -> None:
        if self.is_repeated(event):
            return
        self._denied[event.name] += 1
        if event.call_id is not None:
            self._denied_calls.add(event.call_id)

    def _on_result(self, event: SessionResult) -> None:
        self._results += 1
        self._result = event
        self.session_id = self.session_id or event.session_id
        if event.turns is not None:  # each result counts only its own turns
            self._reported_turns = (self._reported_turns or 0) + event.turns
