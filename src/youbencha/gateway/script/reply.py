"""What goes over the wire for an answer, fault included, as data. Pure; the server only plays it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from youbencha.gateway.script.asked import Incoming
from youbencha.gateway.script.format import Answer, HttpError
from youbencha.gateway.script.tokens import Tokens
from youbencha.gateway.script.wires.wire import Event, Message, Wire, new_id, sse

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


def json_reply(
    wire: Wire, body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None, request_id: str | None = None
) -> Reply:
    raw = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    return Reply(
        status=status,
        headers={"content-type": JSON, **_identified(wire, request_id), **(headers or {})},
        pieces=(raw,),
    )


def error_reply(wire: Wire, error: HttpError, *, delay: float = 0.0) -> Reply:
    request_id = new_id("req")
    body = wire.error_body(error.status, error.message, error.type, request_id)
    given = {name.lower(): str(value) for name, value in error.headers.items()}
    reply = json_reply(wire, body, status=error.status, headers=given, request_id=request_id)
    return replace(reply, delay=delay)


def refusal(wire: Wire, status: int, message: str) -> Reply:
    """An error of the server itself. The header tells every client that to try again is no use."""
    return error_reply(wire, HttpError(status=status, message=message, headers={"x-should-retry": "false"}))


def reply_to(wire: Wire, request: Incoming, answer: Answer, *, stream: bool, model: str, tokens: Tokens) -> Reply:
    """`answer` has its variables filled in."""
    if answer.error is not None:
        return error_reply(wire, answer.error, delay=answer.delay)
    if answer.garbage is not None:
        headers = {"content-type": "text/plain; charset=utf-8"}
        return Reply(headers=headers, pieces=(answer.garbage.encode("utf-8", "replace"),), delay=answer.delay)
    message = wire.message(answer, model, tokens, request)
    return _stream(wire, answer, wire.events(message, request)) if stream else _whole(wire, answer, message)


def _stream(wire: Wire, answer: Answer, events: list[Event]) -> Reply:
    begun = _up_to_first_delta(wire, events)
    ending, closing = Ending.COMPLETE, b""
    if answer.error_mid_stream is not None:
        error = answer.error_mid_stream
        body = wire.error_body(error.status, error.message, error.type, None)
        events = [*begun, wire.error_event(body, begun)]
    elif answer.drop is not None:
        events, ending = events[: answer.drop.after_events], Ending.DROP
    elif answer.hang:
        events, ending = begun, Ending.HANG
    else:
        closing = wire.closing
    return Reply(
        headers={"content-type": EVENT_STREAM, "cache-control": "no-cache", **_identified(wire)},
        pieces=_cut([*(sse(event) for event in events), *([closing] if closing else [])], answer.chunk_bytes),
        ending=ending,
        delay=answer.delay,
        pause=answer.pause,
    )


def _whole(wire: Wire, answer: Answer, message: Message) -> Reply:
    """The same faults for a client that did not ask for a stream, as far as they can happen to it."""
    if answer.error_mid_stream is not None:
        error = answer.error_mid_stream
        instead = HttpError(status=error.status, type=error.type, message=error.message)
        return error_reply(wire, instead, delay=answer.delay)
    sent = json_reply(wire, message)
    body, ending = sent.pieces[0], Ending.COMPLETE
    if answer.drop is not None:
        body, ending = body[: len(body) // 2 if answer.drop.after_events else 0], Ending.DROP
    elif answer.hang:
        body, ending = b"", Ending.HANG
    return replace(sent, pieces=_cut([body], answer.chunk_bytes), ending=ending, delay=answer.delay, pause=answer.pause)


def _identified(wire: Wire, request_id: str | None = None) -> dict[str, str]:
    return {wire.request_id_header: request_id or new_id("req")} if wire.request_id_header else {}


def _up_to_first_delta(wire: Wire, events: Sequence[Event]) -> list[Event]:
    deltas = (n for n, event in enumerate(events) if wire.is_delta(event))
    return list(events[: next(deltas, 0) + 1])


def _cut(parts: Sequence[bytes], size: int | None) -> tuple[bytes, ...]:
    if size is None:
        return tuple(parts)
    body = b"".join(parts)
    return tuple(body[start : start + size] for start in range(0, len(body), size))
