"""One line of stream-json -> events. Stateless; no line, however broken, is an exception.

Facts behind it: key order is not fixed (2.1.325 writes a result's "type" near the end), unknown types come with every
release, `init` repeats, one assistant line holds one content block of a message whose id and usage repeat.
"""

from __future__ import annotations

from collections.abc import Callable

from youbencha.adapters.claude_code.codes import MALFORMED_LINE
from youbencha.adapters.claude_code.content import assistant_events, user_events
from youbencha.adapters.claude_code.signals import (
    ClaudeResult,
    McpServerFailed,
    ModelCalled,
    ModelRefused,
    ModelSwitched,
)
from youbencha.adapters.claude_code.usage import read_total, read_usage
from youbencha.adapters.cli_agent import fields
from youbencha.adapters.cli_agent.fields import Record
from youbencha.adapters.cli_agent.json_lines import quoted
from youbencha.events import (
    AssistantTextDelta,
    Event,
    RateLimitSeen,
    RequestRetried,
    SessionStarted,
    ToolDenied,
    UsageReported,
    Warned,
)


def is_known(record: Record) -> bool:
    """Only Claude Code's own kinds of event tell that a stream has begun; other programs write JSON too."""
    return record.get("type") in _READERS


def events_of(record: Record) -> list[Event]:
    reader = _READERS.get(record.get("type", ""))
    return reader(record) if reader else []


def malformed_line(text: str) -> Warned:
    return Warned(code=MALFORMED_LINE, message=f"Skipped a line that is not a stream-json event: {quoted(text)}")


def _system(record: Record) -> list[Event]:
    reader = _SYSTEM_READERS.get(fields.text(record.get("subtype")) or "")
    return reader(record) if reader else []


def _init(record: Record) -> list[Event]:
    started = SessionStarted(
        session_id=fields.text(record.get("session_id")),
        model=fields.text(record.get("model")),
        agent_version=fields.text(record.get("claude_code_version")),
        tools=fields.texts(record.get("tools")),
        key_source=fields.text(record.get("apiKeySource")),
    )
    failed = [
        McpServerFailed(name=fields.text(server.get("name")) or "(unnamed)")
        for server in fields.records(record.get("mcp_servers"))
        if server.get("status") == "failed"
    ]
    return [started, *failed]


def _api_retry(record: Record) -> list[Event]:
    retried = RequestRetried(
        attempt=fields.count(record.get("attempt")),
        status=fields.count(record.get("error_status")),
        reason=fields.text(record.get("error")),
        delay_ms=fields.amount(record.get("retry_delay_ms")),
    )
    return [retried]


def _model_fallback(record: Record) -> list[Event]:
    switched = ModelSwitched(
        original=fields.text(record.get("original_model")),
        fallback=fields.text(record.get("fallback_model")),
        trigger=fields.text(record.get("trigger")),
    )
    return [switched]


def _model_refusal(record: Record) -> list[Event]:
    return [ModelRefused()]


def _denied(record: Record) -> list[Event]:
    name = fields.text(record.get("tool_name")) or "(unnamed)"
    return [ToolDenied(call_id=fields.text(record.get("tool_use_id")), name=name)]


def _rate_limit(record: Record) -> list[Event]:
    info = fields.mapping(record.get("rate_limit_info"))
    seen = RateLimitSeen(
        status=fields.text(info.get("status")),
        resets_at=fields.amount(info.get("resetsAt")),
        kind=fields.text(info.get("rateLimitType")),
    )
    return [seen]


def _result(record: Record) -> list[Event]:
    tokens = read_total(record)
    # 1.0.0 says cost_usd (this turn) and total_cost (the session); later versions total_cost_usd.
    costs = (fields.amount(record.get(key)) for key in ("total_cost_usd", "total_cost", "cost_usd"))
    usage = UsageReported(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_read_tokens=tokens.cache_read,
        cache_creation_tokens=tokens.cache_creation,
        cost_usd=next((cost for cost in costs if cost is not None), None),
    )
    denials = [event for denial in fields.records(record.get("permission_denials")) for event in _denied(denial)]
    closing = ClaudeResult(
        subtype=fields.text(record.get("subtype")),
        # Absent is no error; anything that is not a plain `false` is one.
        is_error=record.get("is_error", False) is not False,
        text=fields.text(record.get("result")),
        turns=fields.count(record.get("num_turns")),
        duration_ms=fields.count(record.get("duration_ms")),
        errors=fields.texts(record.get("errors")),
        status=fields.count(record.get("api_error_status")),
        terminal_reason=fields.text(record.get("terminal_reason")),
        session_id=fields.text(record.get("session_id")),
    )
    return [usage, *denials, closing]


def _stream_event(record: Record) -> list[Event]:
    event = fields.mapping(record.get("event"))
    reader = _PARTIAL_READERS.get(fields.text(event.get("type")) or "")
    return reader(record, event) if reader else []


def _message_start(record: Record, event: Record) -> list[Event]:
    message = fields.mapping(event.get("message"))
    call = ModelCalled(
        message_id=fields.text(message.get("id")),
        model=fields.text(message.get("model")),
        tokens=read_usage(message.get("usage")),
        final=False,
        parent=fields.text(record.get("parent_tool_use_id")),
    )
    return [call]


def _message_delta(record: Record, event: Record) -> list[Event]:
    call = ModelCalled(
        message_id=fields.text(record.get("api_message_id")),
        model=None,
        tokens=read_usage(event.get("usage")),
        final=True,
        parent=fields.text(record.get("parent_tool_use_id")),
    )
    return [call]


def _block_delta(record: Record, event: Record) -> list[Event]:
    delta = fields.mapping(event.get("delta"))
    text = fields.text(delta.get("text"))
    if delta.get("type") != "text_delta" or not text:
        return []
    return [AssistantTextDelta(text=text, parent=fields.text(record.get("parent_tool_use_id")))]


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
