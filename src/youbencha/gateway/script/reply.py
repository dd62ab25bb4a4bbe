"""What goes over the wire for an answer, fault included, as data. Pure; the server only plays it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from youbencha.gateway.script.api_errors import error_body
from youbencha.gateway.script.asked import Asked
from youbencha.gateway.script.format import Answer, HttpError, Usage
from youbencha.gateway.script.message import Event, message_events, message_json, new_id, sse, usage_of

EVENT_STREAM = "text/event-stream; charset=utf-8"
JSON = "application/json"


class Ending(Enum):
    """How the body ends."""

    COMPLETE = "complete"
    DROP = "drop"
    HANG = "hang"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Sequence[bytes] = ()
    """Each is written on its own."""
    ending: Ending = Ending.COMPLETE
    delay: float = 0.0
    pause: float = 0.0


def json_reply(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    raw = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    return Reply(
        status=status,
        headers={"content-type": JSON, "request-id": new_id("req"), **(headers or {})},
        pieces=(raw,),
    )


def error_reply(error: HttpError, *, delay: float = 0.0) -> Reply:
    request_id = new_id("req")
    body = error_body(error.status, error.message, error.type, request_id)
    given = {name.lower(): str(value) for name, value in error.headers.items()}
    reply = json_reply(body, status=error.status, headers={"request-id": request_id, **given})
    return Reply(status=reply.status, headers=reply.headers, pieces=reply.pieces, delay=delay)


def refusal(status: int, message: str) -> Reply:
    """An error of the server itself. The header tells every client that to try again is no use."""
    return error_reply(HttpError(status=status, message=message, headers={"x-should-retry": "false"}))


def reply_to(request: Asked, answer: Answer, *, model: str, usage: Usage) -> Reply:
    """`answer` has its variables filled in."""
    if answer.error is not None:
        return error_reply(answer.error, delay=answer.delay)
    if answer.garbage is not None:
        headers = {"content-type": "text/plain; charset=utf-8"}
        return Reply(headers=headers, pieces=(answer.garbage.encode("utf-8", "replace"),), delay=answer.delay)
    message = message_json(answer, model, usage_of(answer, usage))
    return _stream(answer, message) if request.stream else _whole(answer, message)


def _stream(answer: Answer, message: Mapping[str, Any]) -> Reply:
    events = list(message_events(message))
    begun = _up_to_first_delta(events)
    ending = Ending.COMPLETE
    if answer.error_mid_stream is not None:
        error = answer.error_mid_stream
        events = [*begun, error_body(error.status, error.message, error.type, None)]
    elif answer.drop is not None:
        events, ending = events[: answer.drop.after_events], Ending.DROP
    elif answer.hang:
        events, ending = begun, Ending.HANG
    headers = {"content-type": EVENT_STREAM, "cache-control": "no-cache", "request-id": new_id("req")}
    return Reply(
        headers=headers,
        pieces=_cut([sse(event) for event in events], answer.chunk_bytes),
        ending=ending,
        delay=answer.delay,
        pause=answer.pause,
    )


def _whole(answer: Answer, message: Mapping[str, Any]) -> Reply:
    """The same faults for a client that did not ask for a stream, as far as they can happen to it."""
    if answer.error_mid_stream is not None:
        error = answer.error_mid_stream
        instead = HttpError(status=error.status, type=error.type, message=error.message)
        return error_reply(instead, delay=answer.delay)
    sent = json_reply(message)
    body, ending = sent.pieces[0], Ending.COMPLETE
    if answer.drop is not None:
        body, ending = body[: len(body) // 2 if answer.drop.after_events else 0], Ending.DROP
    elif answer.hang:
        body, ending = b"", Ending.HANG
    return Reply(
        headers=sent.headers,
        pieces=_cut([body], answer.chunk_bytes),
        ending=ending,
        delay=answer.delay,
        pause=answer.pause,
    )


def _up_to_first_delta(events: Sequence[Event]) -> list[Event]:
    deltas = (n for n, event in enumerate(events) if event["type"] == "content_block_delta")
    return list(events[: next(deltas, 0) + 1])


def _cut(parts: Sequence[bytes], size: int | None) -> tuple[bytes, ...]:
    if size is None:
        return tuple(parts)
    body = b"".join(parts)
    return tuple(body[start : start + size] for start in range(0, len(body), size))
