"""One line of stream-json -> events. Stateless; no line, however broken, is an exception.

Facts behind it: key order is not fixed (2.1.325 writes a result's "type" near the end), unknown types come with every
release, `init` repeats, one assistant line holds one content block of a message whose id and usage repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from youbencha import json_lines
from youbencha.adapters.claude_code.codes import MALFORMED_LINE
from youbencha.adapters.cli_agent.session import CallFailed
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    AssistantThinking,
    Event,
    RateLimitSeen,
    RequestRetried,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    UsageReported,
    UserText,
    WarningRaised,
    event_type,
)
from youbencha.json_lines import Record, quoted
from youbencha.log import Usage
from youbencha.log.model import usage_of
from youbencha.usage import Tokens, add_all

SYNTHETIC = "<synthetic>"

_TOOL_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def assistant_events(record: Record) -> list[Event]:
    message = json_lines.mapping(record.get("message"))
    parent = json_lines.text(record.get("parent_tool_use_id"))
    sent_at = json_lines.text(record.get("timestamp"))
    blocks = _blocks(message.get("content"))
    events: list[Event] = [_call(record, message, blocks, parent)]
    for block in blocks:
        kind = block.get("type")
        if kind == "text":
            if text := json_lines.text(block.get("text")):
                events.append(AssistantText(text=text, parent=parent, sent_at=sent_at))
        elif kind == "thinking":
            if text := json_lines.text(block.get("thinking")):
                events.append(AssistantThinking(text=text, parent=parent))
        else:
            events.extend(_tool_event(block, parent))
    return events


def user_events(record: Record) -> list[Event]:
    message = json_lines.mapping(record.get("message"))
    parent = json_lines.text(record.get("parent_tool_use_id"))
    sent_at = json_lines.text(record.get("timestamp"))
    events: list[Event] = []
    for block in _blocks(message.get("content")):
        if block.get("type") == "text":
            if text := json_lines.text(block.get("text")):
                events.append(UserText(text=text, parent=parent, sent_at=sent_at))
        else:
            events.extend(_tool_event(block, parent))
    return events


def _call(record: Record, message: Record, blocks: list[Record], parent: str | None) -> Event:
    model = json_lines.text(message.get("model"))
    kind = json_lines.text(record.get("error"))
    if model == SYNTHETIC or kind:
        status = json_lines.count(record.get("api_error_status"))
        text = "\n".join(filter(None, (json_lines.text(block.get("text")) for block in blocks)))
        return CallFailed(kind=kind, status=status, text=text)
    return ModelCalled(
        message_id=json_lines.text(message.get("id")),
        model=model,
        tokens=read_usage(message.get("usage")),
        # 1.0.x repeats the final usage and says why the model stopped; 2.1.x says null and repeats the first usage.
        final=message.get("stop_reason") is not None,
        parent=parent,
    )


def _tool_event(block: Record, parent: str | None) -> list[Event]:
    kind = block.get("type")
    if not isinstance(kind, str):
        return []
    if kind in _TOOL_CALLS:
        name = json_lines.text(block.get("name")) or "(unnamed)"
        arguments = _arguments(block.get("input"))
        call_id = json_lines.text(block.get("id"))
        return [ToolCalled(call_id=call_id, name=name, arguments=arguments, parent=parent)]
    if kind.endswith("tool_result"):
        call_id = json_lines.text(block.get("tool_use_id"))
        content = _flat(block.get("content"))
        failed = block.get("is_error") is True
        return [ToolReturned(call_id=call_id, content=content, is_error=failed, parent=parent)]
    return []


def _arguments(value: object) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    return {} if value is None else {"input": value}


def _blocks(content: object) -> list[Record]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else json_lines.records(content)


def _flat(content: object) -> str:
    """A tool's result as text; what is not text leaves its kind behind: `[image]`."""
    if isinstance(content, str):
        return content
    parts = (_block_text(block) for block in json_lines.records(content))
    return "\n".join(parts)


def _block_text(block: Record) -> str:
    text = json_lines.text(block.get("text"))
    return text if text is not None else f"[{json_lines.text(block.get('type')) or 'unknown'}]"


def is_known(record: Record) -> bool:
    """Only Claude Code's own kinds of event tell that a stream has begun; other programs write JSON too."""
    return record.get("type") in _READERS


def events_of(record: Record) -> list[Event]:
    reader = _READERS.get(record.get("type", ""))
    return reader(record) if reader else []


def malformed_line(text: str) -> WarningRaised:
    return WarningRaised(code=MALFORMED_LINE, message=f"Skipped a line that is not a stream-json event: {quoted(text)}")


def _system(record: Record) -> list[Event]:
    reader = _SYSTEM_READERS.get(json_lines.text(record.get("subtype")) or "")
    return reader(record) if reader else []


def _init(record: Record) -> list[Event]:
    started = SessionStarted(
        session_id=json_lines.text(record.get("session_id")),
        model=json_lines.text(record.get("model")),
        agent_version=json_lines.text(record.get("claude_code_version")),
        tools=json_lines.texts(record.get("tools")),
        key_source=json_lines.text(record.get("apiKeySource")),
    )
    failed = [
        McpServerFailed(name=json_lines.text(server.get("name")) or "(unnamed)")
        for server in json_lines.records(record.get("mcp_servers"))
        if server.get("status") == "failed"
    ]
    return [started, *failed]


def _api_retry(record: Record) -> list[Event]:
    retried = RequestRetried(
        attempt=json_lines.count(record.get("attempt")),
        status=json_lines.count(record.get("error_status")),
        reason=json_lines.text(record.get("error")),
        delay_ms=json_lines.amount(record.get("retry_delay_ms")),
    )
    return [retried]


def _model_fallback(record: Record) -> list[Event]:
    switched = ModelSwitched(
        original=json_lines.text(record.get("original_model")),
        fallback=json_lines.text(record.get("fallback_model")),
        trigger=json_lines.text(record.get("trigger")),
    )
    return [switched]


def _model_refusal(record: Record) -> list[Event]:
    return [ModelRefused()]


def _denied(record: Record) -> list[Event]:
    name = json_lines.text(record.get("tool_name")) or "(unnamed)"
    return [ToolDenied(call_id=json_lines.text(record.get("tool_use_id")), name=name)]


def _rate_limit(record: Record) -> list[Event]:
    info = json_lines.mapping(record.get("rate_limit_info"))
    seen = RateLimitSeen(
        status=json_lines.text(info.get("status")),
        resets_at=json_lines.amount(info.get("resetsAt")),
        kind=json_lines.text(info.get("rateLimitType")),
    )
    return [seen]


def _result(record: Record) -> list[Event]:
    tokens = read_total(record)
    # 1.0.0 says cost_usd (this turn) and total_cost (the session); later versions total_cost_usd.
    costs = (json_lines.amount(record.get(key)) for key in ("total_cost_usd", "total_cost", "cost_usd"))
    usage = UsageReported(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_read_tokens=tokens.cache_read,
        cache_creation_tokens=tokens.cache_creation,
        cost_usd=next((cost for cost in costs if cost is not None), None),
    )
    denials = [event for denial in json_lines.records(record.get("permission_denials")) for event in _denied(denial)]
    closing = ClaudeResult(
        subtype=json_lines.text(record.get("subtype")),
        # Absent is no error; anything that is not a plain `false` is one.
        is_error=record.get("is_error", False) is not False,
        text=json_lines.text(record.get("result")),
        turns=json_lines.count(record.get("num_turns")),
        duration_ms=json_lines.count(record.get("duration_ms")),
        errors=json_lines.texts(record.get("errors")),
        status=json_lines.count(record.get("api_error_status")),
        terminal_reason=json_lines.text(record.get("terminal_reason")),
        session_id=json_lines.text(record.get("session_id")),
    )
    return [usage, *denials, closing]


def _stream_event(record: Record) -> list[Event]:
    event = json_lines.mapping(record.get("event"))
    reader = _PARTIAL_READERS.get(json_lines.text(event.get("type")) or "")
    return reader(record, event) if reader else []


def _message_start(record: Record, event: Record) -> list[Event]:
    message = json_lines.mapping(event.get("message"))
    call = ModelCalled(
        message_id=json_lines.text(message.get("id")),
        model=json_lines.text(message.get("model")),
        tokens=read_usage(message.get("usage")),
        final=False,
        parent=json_lines.text(record.get("parent_tool_use_id")),
    )
    return [call]


def _message_delta(record: Record, event: Record) -> list[Event]:
    call = ModelCalled(
        message_id=json_lines.text(record.get("api_message_id")),
        model=None,
        tokens=read_usage(event.get("usage")),
        final=True,
        parent=json_lines.text(record.get("parent_tool_use_id")),
    )
    return [call]


def _block_delta(record: Record, event: Record) -> list[Event]:
    delta = json_lines.mapping(event.get("delta"))
    text = json_lines.text(delta.get("text"))
    if delta.get("type") != "text_delta" or not text:
        return []
    return [AssistantTextDelta(text=text, parent=json_lines.text(record.get("parent_tool_use_id")))]


_READERS: dict[str, Callable[[Record], list[Event]]] = {
    "system": _system,
    "assistant": assistant_events,
    "user": user_events,
    "result": _result,
    "stream_event": _stream_event,
    "rate_limit_event": _rate_limit,
}

_SYSTEM_READERS: dict[str, Callable[[Record], list[Event]]] = {
    "init": _init,
    "api_retry": _api_retry,
    "model_fallback": _model_fallback,
    "model_refusal_no_fallback": _model_refusal,
    "permission_denied": _denied,
}

_PARTIAL_READERS: dict[str, Callable[[Record, Record], list[Event]]] = {
    "message_start": _message_start,
    "message_delta": _message_delta,
    "content_block_delta": _block_delta,
}


# What Claude Code says that no other agent says in this form: events for this package's own accounting.
#
# They travel in the same stream as the common events; whoever does not know them passes over them.


@event_type
class ModelCalled(Event):
    """One call to the model, or one more piece of news about it: ids repeat, once for each content block."""

    message_id: str | None
    """None: the call that was last started under the same `parent`."""
    model: str | None
    tokens: Tokens
    final: bool
    """False where `tokens.output` is only what the call started with (2.1.x: always 1)."""
    parent: str | None = None


@event_type
class ModelRefused(Event):
    """The model declined, and there was no other to ask."""


@event_type
class ModelSwitched(Event):
    """The CLI went over to another model on its own: what follows does not measure the one asked for."""

    original: str | None
    fallback: str | None
    trigger: str | None


@event_type
class McpServerFailed(Event):
    name: str


@event_type
class ClaudeResult(SessionResult):
    errors: tuple[str, ...] = ()
    status: int | None = None
    """HTTP status of the call that ended the session, where one did (2.1.197 and later)."""
    terminal_reason: str | None = None
    session_id: str | None = None


# Who to believe about tokens. Unknown stays None; a zero was reported.
#
# | source | why there in the order |
# |---|---|
# | last result's modelUsage | everything: subagents and side models, over all turns |
# | its usage | only the main loop, only the last turn |
# | calls, each id once | only until the end that was seen; 2.1.x knows `output` from partial messages only |

_USAGE_KEYS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")

_MODEL_USAGE_KEYS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


def read_usage(value: object) -> Tokens:
    """As the API writes it."""
    return _read(json_lines.mapping(value), _USAGE_KEYS)


def read_total(result: Record) -> Tokens:
    """What a `result` says of the whole session; `modelUsage` is cumulative, so the last result's is the total."""
    by_model = [
        _read(usage, _MODEL_USAGE_KEYS)
        for usage in json_lines.mapping(result.get("modelUsage")).values()
        if isinstance(usage, dict)
    ]
    return add_all(by_model) if by_model else read_usage(result.get("usage"))


def _read(record: Record, keys: tuple[str, str, str, str]) -> Tokens:
    get = record.get
    given, made, read, created = keys
    return Tokens(
        json_lines.count(get(given)),
        json_lines.count(get(made)),
        json_lines.count(get(read)),
        json_lines.count(get(created)),
    )


def _larger(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


class Ledger:
    """Adds up one session's tokens from whatever was said about them."""

    def __init__(self) -> None:
        self._calls: dict[str, Tokens] = {}
        self._current: dict[str | None, str] = {}
        self._reported: UsageReported | None = None
        self._told = Tokens()

    def news(self) -> UsageReported | None:
        """The sum of the calls so far, if it has grown: for whoever watches. The last word is the result's."""
        seen = add_all(list(self._calls.values()))
        if seen == self._told or self._reported is not None:
            return None
        self._told = seen
        return UsageReported(
            input_tokens=seen.input,
            output_tokens=seen.output,
            cache_read_tokens=seen.cache_read,
            cache_creation_tokens=seen.cache_creation,
        )

    def note_total(self, usage: UsageReported) -> None:
        self._reported = usage

    def note_call(self, call: ModelCalled) -> None:
        key = call.message_id or self._current.get(call.parent)
        if key is None:
            return
        self._current[call.parent] = key
        news = call.tokens if call.final else call.tokens._replace(output=None)
        known = self._calls.get(key)
        if known != news:  # each content block repeats it
            self._calls[key] = news if known is None else Tokens(*map(_larger, known, news))

    def total(self) -> Usage | None:
        """None where nobody said anything."""
        seen = add_all(list(self._calls.values()))
        reported = self._reported or UsageReported()
        said = Tokens(
            reported.input_tokens,
            reported.output_tokens,
            reported.cache_read_tokens,
            reported.cache_creation_tokens,
        )
        if said == Tokens():  # no result was seen, or one of 1.0.0, which tells the cost alone
            known = seen != Tokens() or reported.cost_usd is not None
            return usage_of(seen, reported.cost_usd, partial=True) if known else None
        # Where the CLI repeated a broken call without streaming, 2.1.30 and 1.0.128 forgot its usage: a result of
        # zeros (or of one output token) beside messages that carry the real numbers.
        short = any(mine is not None and mine > (theirs or 0) for mine, theirs in zip(seen, said, strict=True))
        if short and not any(said):
            return usage_of(seen, reported.cost_usd or None, partial=True)
        return usage_of(said, reported.cost_usd, partial=short)


def plain_usage(input_tokens: int | None, output_tokens: int | None) -> Usage | None:
    """From a text that names them."""
    tokens = Tokens(input_tokens, output_tokens)
    return None if tokens == Tokens() else usage_of(tokens, None, partial=False)
