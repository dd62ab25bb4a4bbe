"""A model that gives the same answer at once, in its own process: `python -m bench.gateway_upstream`.

It prints its port. A real model's time, or a Python process shared with what is measured, would hide the difference.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import ClassVar

MODEL = "claude-sonnet-4-5"
HOLD = b"hold the rest back"
"""In a request: only the first event is sent, until a request for RELEASE comes."""
RELEASE = b"GET /release "

_WORDS = 20
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream": *true')
_USAGE = {"input_tokens": 12_000, "cache_read_input_tokens": 9_000, "cache_creation_input_tokens": 500}


def _json_answer() -> bytes:
    text = [{"type": "text", "text": "word " * _WORDS}]
    usage = {**_USAGE, "output_tokens": _WORDS}
    body = json.dumps({**_message("end_turn"), "content": text, "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _stream_answer() -> list[bytes]:
    """Each event as an HTTP chunk. The first includes the response's headers."""
    block = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": {**_message(None), "usage": {**_USAGE, "output_tokens": 1}}},
        start,
        *[block] * _WORDS,
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": _WORDS},
        },
        {"type": "message_stop"},
    ]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    first, *others = (_chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n") for event in events)
    return [head + first, *others, b"0\r\n\r\n"]


def _message(stop_reason: str | None) -> dict[str, object]:
    stop = {"stop_reason": stop_reason, "stop_sequence": None}
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [], **stop}


def _chunk(event: str) -> bytes:
    return f"{len(event):x}\r\n{event}\r\n".encode()


_JSON = _json_answer()
_EVENTS = _stream_answer()


class _Model(asyncio.Protocol):
    held: ClassVar[list[asyncio.Transport]] = []

    def __init__(self) -> None:
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(b"\r\n\r\n") + 4
        if head_end < 4:
            return
        length = _LENGTH.search(self._received, 0, head_end)
        if len(self._received) >= head_end + (int(length[1]) if length else 0):
            self._answer(bytes(self._received))
            self._received.clear()

    def _answer(self, request: bytes) -> None:
        if request.startswith(RELEASE):
            for transport in self.held:
                transport.writelines(_EVENTS[1:])
            self.held.clear()
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        elif not _STREAM.search(request):
            self._transport.write(_JSON)
        elif HOLD in request:
            self._transport.write(_EVENTS[0])
            self.held.append(self._transport)
        else:
            for event in _EVENTS:
                self._transport.write(event)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Model, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
