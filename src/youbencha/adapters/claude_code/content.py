"""The content of a message: blocks of text, thinking, tool calls and tool results -> events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.adapters.claude_code.signals import ModelCalled
from youbencha.adapters.claude_code.usage import read_usage
from youbencha.adapters.cli_agent import fields
from youbencha.adapters.cli_agent.fields import Record
from youbencha.adapters.cli_agent.signals import CallFailed
from youbencha.events import (
    AssistantText,
    AssistantThinking,
    Event,
    ToolCalled,
    ToolReturned,
    UserText,
)

SYNTHETIC = "<synthetic>"
_TOOL_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def assistant_events(record: Record) -> list[Event]:
    message = fields.mapping(record.get("message"))
    parent = fields.text(record.get("parent_tool_use_id"))
    sent_at = fields.text(record.get("timestamp"))
    blocks = _blocks(message.get("content"))
    events: list[Event] = [_call(record, message, blocks, parent)]
    for block in blocks:
        kind = block.get("type")
        if kind == "text":
            if text := fields.text(block.get("text")):
                events.append(AssistantText(text=text, parent=parent, sent_at=sent_at))
        elif kind == "thinking":
            if text := fields.text(block.get("thinking")):
                events.append(AssistantThinking(text=text, parent=parent))
        else:
            events.extend(_tool_event(block, parent))
    return events


def user_events(record: Record) -> list[Event]:
    message = fields.mapping(record.get("message"))
    parent = fields.text(record.get("parent_tool_use_id"))
    sent_at = fields.text(record.get("timestamp"))
    events: list[Event] = []
    for block in _blocks(message.get("content")):
        if block.get("type") == "text":
            if text := fields.text(block.get("text")):
                events.append(UserText(text=text, parent=parent, sent_at=sent_at))
        else:
            events.extend(_tool_event(block, parent))
    return events


def _call(record: Record, message: Record, blocks: list[Record], parent: str | None) -> Event:
    model = fields.text(message.get("model"))
    kind = fields.text(record.get("error"))
    if model == SYNTHETIC or kind:
        status = fields.count(record.get("api_error_status"))
        text = "\n".join(filter(None, (fields.text(block.get("text")) for block in blocks)))
        return CallFailed(kind=kind, status=status, text=text)
    return ModelCalled(
        message_id=fields.text(message.get("id")),
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
        name = fields.text(block.get("name")) or "(unnamed)"
        arguments = _arguments(block.get("input"))
        call_id = fields.text(block.get("id"))
        return [ToolCalled(call_id=call_id, name=name, arguments=arguments, parent=parent)]
    if kind.endswith("tool_result"):
        call_id = fields.text(block.get("tool_use_id"))
        content = _flat(block.get("content"))
        failed = block.get("is_error") is True
        return [ToolReturned(call_id=call_id, content=content, is_error=failed, parent=parent)]
    return []


def _arguments(value: object) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    return {} if value is None else {"input": value}


def _blocks(content: object) -> list[Record]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else fields.records(content)


def _flat(content: object) -> str:
    """A tool's result as text; what is not text leaves its kind behind: `[image]`."""
    if isinstance(content, str):
        return content
    parts = (_block_text(block) for block in fields.records(content))
    return "\n".join(parts)


def _block_text(block: Record) -> str:
    text = fields.text(block.get("text"))
    return text if text is not None else f"[{fields.text(block.get('type')) or 'unknown'}]"
