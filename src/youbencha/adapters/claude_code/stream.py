"""Read Claude Code's messages (stream-json) as events.

Observed: the order of keys is not fixed (2.1.325 writes a result's "type" near the end), each release has new types,
`init` repeats, and an assistant line has one content block of a message, whose id and usage repeat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ConfigDict, TypeAdapter

from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    AssistantThinking,
    ContextUsed,
    Event,
    RateLimitSeen,
    RequestRetried,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    ToolStarted,
    UsageReported,
    UserText,
)
from youbencha.json_lines import Record, as_amount, as_count, as_mapping, as_records, as_str, as_strs
from youbencha.log.model import ToolCall
from youbencha.log.session import (
    CallFailed,
    CallMetered,
    Handler,
    McpServerFailed,
    ModelRefused,
    ModelSwitched,
    SessionFacts,
    SessionRecord,
    StreamReader,
    TotalsByModel,
    TurnTaken,
)
from youbencha.usage import SessionUsage, Tokens, add_all, is_less, larger

SYNTHETIC = "<synthetic>"
"""The "model" of messages that the CLI writes itself, such as an API error."""

_OVERLOADED = 529
_DENIED = re.compile(r"Claude requested permissions to [^\n]+, but you haven't granted it yet\.")
"""The result of a denied tool call, in all versions; before 1.0.76, no result lists them."""

_TOOL_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_USAGE_KEYS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_MODEL_USAGE_KEYS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")

_COST_KEYS = ("total_cost_usd", "total_cost", "cost_usd")
"""1.0.0 has cost_usd (this turn) and total_cost (the session); later versions total_cost_usd."""


class ResultTotals(NamedTuple):
    """Which totals of a result are right. Some versions of the CLI are known to get them wrong."""

    usage: bool = True
    """`usage` has the whole session. It is needed only without a `modelUsage`."""
    cost: bool = True
    repeated_calls: bool = True
    """They include calls that broke and were repeated without streaming."""
    side_calls: bool = True
    """They include all calls on the side, such as those for a title."""


ALL_RIGHT = ResultTotals()


class ClaudeStreamReader(StreamReader):
    """Reads messages as events. It tracks the API call of each parent, because not every partial message has its id."""

    partial_prefix = '{"type":"stream_event"'
    """The start of a partial message in every version; these are by far the most lines."""

    def __init__(self, totals: ResultTotals = ALL_RIGHT) -> None:
        self._totals = totals
        self._current: dict[str | None, str] = {}
        self._has_answer = False
        """The main conversation has an answer."""
        self._calls: dict[str | None, Tokens] = {}
        self._counted = Tokens()
        """The sum of `_calls`, the calls of the main conversation."""
        self._reported = Tokens()
        self._context: int | None = None
        self._model: str | None = None
        self._last_answer: str | None = None
        self._has_text = False
        """The main conversation has a text."""
        self._tools: dict[str, str] = {}

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "system": _system,
            "assistant": self._assistant,
            "user": self._user,
            "result": self._result,
            "stream_event": self._partial,
            "rate_limit_event": _rate_limit,
        }

    def _assistant(self, record: Record) -> list[Event]:
        message = as_mapping(record.get("message"))
        parent = as_str(record.get("parent_tool_use_id"))
        sent_at = as_str(record.get("timestamp"))
        blocks = _blocks(message.get("content"))
        failed = _call_failed(record, message, blocks)
        events = [] if failed else self._answer(message, record.get("usage"), parent)
        for block in blocks:
            kind = block.get("type")
            if kind == "text":
                if text := as_str(block.get("text")):
                    self._has_text |= parent is None
                    events.append(AssistantText(text=text, parent=parent, sent_at=sent_at))
            elif kind == "thinking":
                if text := as_str(block.get("thinking")):
                    events.append(AssistantThinking(text=text, parent=parent))
            else:
                events += _tool_events(block, parent)
        self._tools |= {
            event.call_id: event.name for event in events if isinstance(event, ToolCalled) and event.call_id
        }
        return [*events, failed] if failed else events  # last, because text after a failure means recovery

    def _user(self, record: Record) -> list[Event]:
        events = _user(record)
        refused = (event for event in events if isinstance(event, ToolReturned) and event.is_error)
        ids = [event.call_id for event in refused if event.call_id and _DENIED.fullmatch(event.content)]
        return [*events, *(ToolDenied(call_id=id, name=self._tools[id]) for id in ids if id in self._tools)]

    def _answer(self, message: Record, usage_beside: object, parent: str | None) -> list[Event]:
        """Count the call. `usage_beside`: the first description of the format has the usage beside the message."""
        message_id = as_str(message.get("id")) or self._current.get(parent)
        metered = self._metered(
            message_id,
            parent,
            read_usage(message.get("usage") or usage_beside),
            model=as_str(message.get("model")),
            # 1.0.x repeats the final usage with a stop reason; 2.1.x repeats the first usage with null.
            final=message.get("stop_reason", "") is not None,
        )
        if parent is not None or (message_id is not None and message_id == self._last_answer):
            return metered
        self._last_answer = message_id
        return [*metered, TurnTaken()]

    def _result(self, record: Record) -> list[Event]:
        by_model = read_totals(record)
        tokens = (
            read_usage(record.get("usage")) if self._totals.usage and not by_model else add_all(list(by_model.values()))
        )
        costs = (as_amount(record.get(key)) for key in _COST_KEYS)
        cost_usd = next((cost for cost in costs if cost is not None), None) if self._totals.cost else None
        if cost_usd == 0 and any(tokens):
            cost_usd = None  # 2.1.326 counts the tokens of calls that all broke, and no cost
        incomplete = self._lacks_calls(record)
        totals = [TotalsByModel(tokens=by_model, incomplete=incomplete)] if by_model or incomplete else []
        read = _read_result(record, tokens, cost_usd)
        return [*self._context_window(record), *totals, *self._only_answer(record), *read]

    def _only_answer(self, result: Record) -> list[Event]:
        """Return the result's text, if no message has one, such as the answer to a JSON schema."""
        text = as_str(result.get("result"))
        if self._has_text or not text or result.get("is_error", False) is not False:
            return []
        self._has_text = True
        self.has_conversation = self._has_answer
        return [AssistantText(text=text)]

    def _lacks_calls(self, result: Record) -> bool:
        """Return whether a session's totals lack some of its calls, even if the sum of those that were seen is less."""
        if not self._totals.side_calls:
            return True
        if self._totals.repeated_calls:
            return False
        self._reported = add_all([self._reported, read_usage(result.get("usage"))])
        if result.get("subtype") != "success" or result.get("is_error"):
            return False  # `usage` also lacks a call that ended the session
        return is_less(self._reported, self._counted)

    def _context_window(self, result: Record) -> list[Event]:
        """Return the size of the main conversation again, now that its limit is known (from 2.0.x on)."""
        names = (self._model or "", f"{self._model}[1m]")
        usage = as_mapping(result.get("modelUsage"))
        windows = [as_count(as_mapping(usage.get(name)).get("contextWindow")) for name in names]
        window = next(filter(None, windows), None)
        return [ContextUsed(tokens=self._context, window=window)] if self._context and window else []

    def _partial(self, record: Record) -> list[Event]:
        event = as_mapping(record.get("event"))
        parent = as_str(record.get("parent_tool_use_id"))
        match event.get("type"):
            case "message_start":
                message = as_mapping(event.get("message"))
                message_id, model = as_str(message.get("id")), as_str(message.get("model"))
                if message_id is not None:
                    self._current[parent] = message_id
                return self._metered(message_id, parent, read_usage(message.get("usage")), model=model, final=False)
            case "message_delta":  # with the real number of output tokens
                message_id = as_str(record.get("api_message_id")) or self._current.get(parent)
                usage = read_usage(event.get("usage")) if message_id else Tokens()
                return self._metered(message_id, parent, usage, final=True)
            case "content_block_start":
                return _tool_started(as_mapping(event.get("content_block")), parent)
            case "content_block_delta":
                delta = as_mapping(event.get("delta"))
                text = as_str(delta.get("text"))
                if delta.get("type") == "text_delta" and text:
                    return [AssistantTextDelta(text=text, parent=parent)]
        return []

    def _metered(
        self, message_id: str | None, parent: str | None, tokens: Tokens, *, model: str | None = None, final: bool
    ) -> list[Event]:
        call = CallMetered(message_id=message_id, tokens=tokens, model=model, final=final, parent=parent)
        if parent is not None:
            return [call]
        self._has_answer = True
        self._model = model or self._model
        if not self._totals.repeated_calls:
            self._count_call(message_id, tokens if final else tokens._replace(output=None))
        return [call, *self._context_used(tokens)]

    def _count_call(self, message_id: str | None, tokens: Tokens) -> None:
        before = self._calls.get(message_id, Tokens())
        now = self._calls[message_id] = larger(tokens, before)
        columns = zip(self._counted, now, before, strict=True)
        self._counted = Tokens(*((total or 0) + (new or 0) - (old or 0) for total, new, old in columns))

    def _context_used(self, tokens: Tokens) -> list[Event]:
        """Return the size of the main conversation, if it has changed."""
        parts = [part for part in (tokens.input, tokens.cache_read, tokens.cache_creation) if part is not None]
        if not sum(parts) or sum(parts) == self._context:  # a message made by the CLI has zeros
            return []
        self._context = sum(parts)
        return [ContextUsed(tokens=self._context)]


def read_usage(value: object) -> Tokens:
    """Read token counts in the API's format."""
    return _read(as_mapping(value), _USAGE_KEYS)


def read_totals(result: Record) -> dict[str, Tokens]:
    """Read the usage of each model from a `result`, with subagents and side models, for the whole session."""
    return {
        model: _read(usage, _MODEL_USAGE_KEYS)
        for model, usage in as_mapping(result.get("modelUsage")).items()
        if isinstance(usage, dict)
    }


def _read(record: Record, keys: tuple[str, str, str, str]) -> Tokens:
    return Tokens(*[as_count(record.get(key)) for key in keys])


def _user(record: Record) -> list[Event]:
    message = as_mapping(record.get("message"))
    parent = as_str(record.get("parent_tool_use_id"))
    sent_at = as_str(record.get("timestamp"))
    events: list[Event] = []
    for block in _blocks(message.get("content")):
        if block.get("type") == "text":
            if text := as_str(block.get("text")):
                events.append(UserText(text=text, parent=parent, sent_at=sent_at))
        else:
            events += _tool_events(block, parent)
    return events


def _call_failed(record: Record, message: Record, blocks: list[Record]) -> CallFailed | None:
    kind = as_str(record.get("error"))
    if message.get("model") != SYNTHETIC and not kind:
        return None
    text = "\n".join(filter(None, (as_str(block.get("text")) for block in blocks)))
    return CallFailed(kind=kind, status=as_count(record.get("api_error_status")), text=text)


def _tool_started(block: Record, parent: str | None) -> list[Event]:
    if block.get("type") not in _TOOL_CALLS:
        return []
    name = as_str(block.get("name")) or "(unnamed)"
    return [ToolStarted(call_id=as_str(block.get("id")), name=name, parent=parent)]


def _tool_events(block: Record, parent: str | None) -> list[Event]:
    kind = block.get("type")
    if not isinstance(kind, str):
        return []
    if kind in _TOOL_CALLS:
        name = as_str(block.get("name")) or "(unnamed)"
        arguments = _arguments(block.get("input"))
        call_id = as_str(block.get("id"))
        return [ToolCalled(call_id=call_id, name=name, arguments=arguments, parent=parent)]
    if kind.endswith("tool_result"):
        call_id = as_str(block.get("tool_use_id"))
        content = _flat(block.get("content"))
        failed = block.get("is_error") is True
        return [ToolReturned(call_id=call_id, content=content, is_error=failed, parent=parent)]
    return []


def _arguments(value: object) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    return {} if value is None else {"input": value}


def _blocks(content: object) -> list[Record]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else as_records(content)


def _flat(content: object) -> str:
    """Return a tool's result as text; other content is replaced by its kind, such as `[image]`."""
    if isinstance(content, str):
        return content
    return "\n".join(_block_text(block) for block in as_records(content))


def _block_text(block: Record) -> str:
    text = as_str(block.get("text"))
    return text if text is not None else f"[{as_str(block.get('type')) or 'unknown'}]"


def _rate_limit(record: Record) -> list[Event]:
    info = as_mapping(record.get("rate_limit_info"))
    windows = (as_mapping(window) for window in as_mapping(info.get("unifiedWindows")).values())
    used = [as_amount(window.get("utilization")) for window in (info, *windows)]
    seen = RateLimitSeen(
        status=as_str(info.get("status")),
        resets_at=as_amount(info.get("resetsAt")),
        kind=as_str(info.get("rateLimitType")),
        utilization=max((share for share in used if share is not None), default=None),
    )
    return [seen]


def _read_result(record: Record, tokens: Tokens, cost_usd: float | None) -> list[Event]:
    usage = UsageReported(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_read_tokens=tokens.cache_read,
        cache_creation_tokens=tokens.cache_creation,
        cost_usd=cost_usd,
    )
    denials = [event for denial in as_records(record.get("permission_denials")) for event in _denied(denial)]
    result = SessionResult(
        subtype=as_str(record.get("subtype")),
        # A missing value is not an error; anything other than `false` is.
        is_error=record.get("is_error", False) is not False,
        text=as_str(record.get("result")),
        turns=as_count(record.get("num_turns")),
        duration_ms=as_count(record.get("duration_ms")),
        errors=as_strs(record.get("errors")),
        status=as_count(record.get("api_error_status")),
        terminal_reason=as_str(record.get("terminal_reason")),
        session_id=as_str(record.get("session_id")),
    )
    return [usage, *denials, result]


def _system(record: Record) -> list[Event]:
    # The first description of the format has only `init`, without a subtype.
    reader = _SYSTEM_READERS.get(as_str(record.get("subtype", "init")) or "")
    return reader(record) if reader else []


def _init(record: Record) -> list[Event]:
    started = SessionStarted(
        session_id=as_str(record.get("session_id")),
        model=as_str(record.get("model")),
        agent_version=as_str(record.get("claude_code_version")),
        tools=as_strs(record["tools"]) if isinstance(record.get("tools"), list) else None,
        key_source=as_str(record.get("apiKeySource")),
    )
    failed = [
        McpServerFailed(name=as_str(server.get("name")) or "(unnamed)")
        for server in as_records(record.get("mcp_servers"))
        if server.get("status") == "failed"
    ]
    return [started, *failed]


def _api_retry(record: Record) -> list[Event]:
    status = as_count(record.get("error_status"))
    retried = RequestRetried(
        attempt=as_count(record.get("attempt")),
        status=status,
        # 2.1.150 calls it a rate limit.
        reason="overloaded" if status == _OVERLOADED else as_str(record.get("error")),
        delay_ms=as_amount(record.get("retry_delay_ms")),
    )
    return [retried]


def _model_fallback(record: Record) -> list[Event]:
    switched = ModelSwitched(
        original=as_str(record.get("original_model")),
        fallback=as_str(record.get("fallback_model")),
        trigger=as_str(record.get("trigger")),
    )
    return [switched]


def _model_refusal(record: Record) -> list[Event]:
    return [ModelRefused()]


def _denied(record: Record) -> list[Event]:
    name = as_str(record.get("tool_name")) or "(unnamed)"
    return [ToolDenied(call_id=as_str(record.get("tool_use_id")), name=name)]


_SYSTEM_READERS: dict[str, Callable[[Record], list[Event]]] = {
    "init": _init,
    "api_retry": _api_retry,
    "model_fallback": _model_fallback,
    "model_refusal_no_fallback": _model_refusal,
    "permission_denied": _denied,
}


# No version of the CLI was seen to print these strings in `-p` mode (it prints the answer and nothing else): wrappers
# and logs do, and an answer may. They count at the beginning of a line, outside of code blocks, and never if there is
# a measurement.

_MODEL = re.compile(r"model:[ \t]+(claude[\w.\-]*|[\w.\-]+(?=[ \t]*(?:$|[(,;|])))", re.IGNORECASE)
_VERSION = re.compile(r"claude code (?:cli )?v?(\d+(?:\.\d+)*)|(\d+\.\d+\.\d+) \(claude code\)", re.IGNORECASE)
_TOKENS = re.compile(r"\b(input|output) tokens:[ \t]*(\d[\d,]*)", re.IGNORECASE)
_TOOL_CALL = re.compile(r"\[tool:[ \t]+([\w.\-]+)\][ \t]*(.*)", re.IGNORECASE)
_CLAIM_OR_FENCE = re.compile(
    r"^ {0,3}(?:(`{3,}|~{3,})|((?:model:|(?:input|output) tokens:|\[tool:|claude code|\d+\.\d+\.\d+ \(claude).*))",
    re.IGNORECASE | re.MULTILINE,
)
_CLAIMED_CALLS = TypeAdapter(tuple[ToolCall, ...], config=ConfigDict(defer_build=True))


def read_claims(text: str) -> SessionRecord:
    """Return what a text says of its session: the version, the model, the tokens and the tool calls."""
    model = version = None
    tokens: dict[str, int | None] = {}
    calls: list[dict[str, str]] = []
    for line in _claims_in(text):
        if match := _TOOL_CALL.match(line):
            calls.append({"name": match[1], "arguments": match[2].rstrip()})
        elif match := _MODEL.match(line):
            model = model or match[1]
        elif match := _VERSION.match(line):
            version = version or match[1] or match[2]
        else:
            for kind, digits in _TOKENS.findall(line):
                tokens.setdefault(kind.lower(), _number(digits))
    counted = Tokens(tokens.get("input"), tokens.get("output"))
    return SessionRecord(
        facts=SessionFacts(
            model=model, agent_version=version, usage=None if counted == Tokens() else SessionUsage(counted)
        ),
        tool_calls=_CLAIMED_CALLS.validate_python(calls),
    )


def _claims_in(text: str) -> Iterator[str]:
    """Yield the lines that begin like a claim, outside of code blocks; without the spaces before them."""
    fence = ""
    for mark, claim in _CLAIM_OR_FENCE.findall(text):
        if claim and not fence:
            yield claim
        elif mark and not fence:
            fence = mark
        elif mark and mark.startswith(fence):
            fence = ""


def _number(digits: str) -> int | None:
    # A longer number is not a token count (and int() refuses very long ones).
    return int(digits.replace(",", "")) if len(digits) <= 24 else None
