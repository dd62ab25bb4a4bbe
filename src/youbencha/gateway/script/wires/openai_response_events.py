"""A response of OpenAI's as the events of its stream. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from youbencha.gateway.script.wires.wire import Event, Message, pieces


def response_events(response: Message) -> Iterator[Event]:
    begun = {**response, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": _opening(item)}
        for event in _PARTS[item["type"]](item):
            yield {**event, "item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _opening(item: Mapping[str, Any]) -> dict[str, Any]:
    empty: Mapping[str, Mapping[str, Any]] = {
        "message": {"content": [], "status": "in_progress"},
        "function_call": {"arguments": "", "status": "in_progress"},
        "custom_tool_call": {"input": "", "status": "in_progress"},
        "reasoning": {"summary": []},
    }
    return {**item, **empty[item["type"]]}


def _message_parts(item: Mapping[str, Any]) -> Iterator[Event]:
    for index, part in enumerate(item["content"]):
        at = {"content_index": index}
        yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
        yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": part}


def _summary_parts(item: Mapping[str, Any]) -> Iterator[Event]:
    for index, part in enumerate(item["summary"]):
        at = {"summary_index": index}
        yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **at, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", **at, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **at, "part": part}


def _call_parts(item: Mapping[str, Any]) -> Iterator[Event]:
    for piece in pieces(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    done = {"name": item["name"], "arguments": item["arguments"]}
    yield {"type": "response.function_call_arguments.done", **done}


def _free_form_parts(item: Mapping[str, Any]) -> Iterator[Event]:
    for piece in pieces(item["input"]):
        yield {"type": "response.custom_tool_call_input.delta", "delta": piece}
    yield {"type": "response.custom_tool_call_input.done", "input": item["input"]}


_PARTS = {
    "message": _message_parts,
    "function_call": _call_parts,
    "custom_tool_call": _free_form_parts,
    "reasoning": _summary_parts,
}
