"""A provider for the gateway to ask: real HTTP, with answers that a test chooses, in the forms of four APIs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

SSE = "text/event-stream"


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    """By lower-case names."""
    body: bytes

    @property
    def case(self) -> str:
        """Which answer the client wants: the gateway passes the header on."""
        return self.headers.get("x-case", "")


@dataclass(frozen=True)
class Answer:
    chunks: Sequence[bytes]
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """The connection ends before the answer does."""
    held: bool = False
    """Nothing more comes, and the connection stays open."""


HANG_UP = Answer([])
"""Not an answer: the connection is closed."""


class Upstream:
    def __init__(self, answer: Callable[[Asked], Answer]) -> None:
        self.asked: list[Asked] = []
        self._answer = answer
        self._over = threading.Event()

    def __enter__(self) -> Self:
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                upstream._serve(self)

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        asked = Asked(handler.command, handler.path, headers, body)
        self.asked.append(asked)
        answer = self._answer(asked)
        handler.close_connection = True
        if answer is HANG_UP:
            return
        handler.send_response(answer.status)
        handler.send_header("Content-Type", answer.kind)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("Connection", "close")
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        try:
            for chunk in answer.chunks:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                handler.wfile.flush()
            if answer.held:
                self._over.wait()
            elif not answer.cut:
                handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            pass  # the client has left


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def as_json(value: object) -> Answer:
    return Answer([_compact(value).encode()])


def as_stream(events: Sequence[Mapping[str, Any] | str], **more: Any) -> Answer:
    return Answer([_event(event) for event in events], kind=SSE, **more)


def _event(event: Mapping[str, Any] | str) -> bytes:
    if isinstance(event, str):
        return f"data: {event}\n\n".encode()
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {_compact(event)}\n\n".encode()


# -- one answer, said in each API: 20 tokens in, 5 of them from the cache and 3 into it, 7 out ---------------------

Events = list[Mapping[str, Any] | str]


@dataclass(frozen=True)
class Api:
    name: str
    path: str
    stream_path: str
    key_header: str
    model: str
    body: Mapping[str, Any]
    whole: Callable[[str, str], Mapping[str, Any]]
    """Of the model's name and the text."""
    events: Callable[[str, Sequence[str]], Events]
    """Of the model's name and the pieces of the text."""

    def key(self, key: str) -> dict[str, str]:
        return {self.key_header: f"Bearer {key}" if self.key_header == "authorization" else key}

    def request(self, *, stream: bool = False, model: str | None = None) -> tuple[str, bytes]:
        """Path and body."""
        path = self.stream_path if stream else self.path
        if self.name == "gemini":
            return path.replace(self.model, model or self.model), json.dumps(self.body).encode()
        body = {**self.body, "model": model or self.model, "stream": stream}
        return path, json.dumps(body).encode()


def _anthropic(model: str, text: str) -> dict[str, Any]:
    counts = {"input_tokens": 12, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 7}
    content = [{"type": "text", "text": text}]
    head = {"id": "msg_01AbCdEfGhIjKlMnOpQrStUv", "type": "message", "role": "assistant", "model": model}
    return {**head, "content": content, "stop_reason": "end_turn", "stop_sequence": None, "usage": counts}


def _anthropic_events(model: str, pieces: Sequence[str]) -> Events:
    whole = _anthropic(model, "")
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]


_CHAT_USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 7,
    "total_tokens": 27,
    "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
}


def _chat(model: str, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "chatcmpl-Ab12Cd34Ef56Gh78", "object": "chat.completion", "created": 1768478400, "model": model}
    return {**head, "choices": [choice], "usage": _CHAT_USAGE}


def _chat_events(model: str, pieces: Sequence[str]) -> Events:
    head = {"id": "chatcmpl-Ab12Cd34Ef56Gh78", "object": "chat.completion.chunk", "created": 1768478400, "model": model}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    said = [chunk({"content": piece}) for piece in pieces]
    usage = {**head, "choices": [], "usage": _CHAT_USAGE}
    return [chunk({"role": "assistant", "content": ""}), *said, chunk({}, "stop"), usage, "[DONE]"]


def _responses(model: str, text: str) -> dict[str, Any]:
    item = {"type": "message", "id": "msg_0a1b2c3d4e5f6a7b", "role": "assistant", "status": "completed"}
    content = [{"type": "output_text", "text": text, "annotations": []}]
    details = {"cached_tokens": 5, "cache_write_tokens": 3}
    usage = {"input_tokens": 20, "output_tokens": 7, "total_tokens": 27, "input_tokens_details": details}
    head = {"id": "resp_0a1b2c3d4e5f6a7b", "object": "response", "status": "completed", "model": model}
    return {**head, "output": [{**item, "content": content}], "usage": usage}


def _responses_events(model: str, pieces: Sequence[str]) -> Events:
    whole = _responses(model, "".join(pieces))
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    item = whole["output"][0]
    at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    return [
        {"type": "response.created", "sequence_number": 0, "response": begun},
        *(
            {"type": "response.output_text.delta", "sequence_number": number, **at, "delta": each}
            for number, each in enumerate(pieces, start=1)
        ),
        {"type": "response.output_item.done", "sequence_number": 90, "output_index": 0, "item": item},
        {"type": "response.completed", "sequence_number": 91, "response": whole},
    ]


def _gemini(model: str, text: str, finish: str | None = "STOP") -> dict[str, Any]:
    candidate = {"index": 0, "content": {"role": "model", "parts": [{"text": text}]}}
    counts = {"promptTokenCount": 17, "cachedContentTokenCount": 5, "candidatesTokenCount": 4, "thoughtsTokenCount": 3}
    if finish is None:
        return {"candidates": [candidate], "modelVersion": model}
    candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": model, "usageMetadata": {**counts, "totalTokenCount": 24}}


def _gemini_events(model: str, pieces: Sequence[str]) -> Events:
    *first, last = pieces
    return [*(_gemini(model, each, None) for each in first), _gemini(model, last)]


_GEMINI = "/v1beta/models/gemini-golden"
APIS = (
    Api(
        "anthropic-messages",
        "/v1/messages",
        "/v1/messages",
        "x-api-key",
        "claude-golden",
        {"max_tokens": 100, "messages": [{"role": "user", "content": "do it"}]},
        _anthropic,
        _anthropic_events,
    ),
    Api(
        "openai-chat",
        "/v1/chat/completions",
        "/v1/chat/completions",
        "authorization",
        "gpt-golden",
        {"max_tokens": 100, "messages": [{"role": "user", "content": "do it"}]},
        _chat,
        _chat_events,
    ),
    Api(
        "openai-responses",
        "/v1/responses",
        "/v1/responses",
        "authorization",
        "gpt-golden",
        {"max_output_tokens": 100, "input": [{"role": "user", "content": "do it"}]},
        _responses,
        _responses_events,
    ),
    Api(
        "gemini",
        f"{_GEMINI}:generateContent",
        f"{_GEMINI}:streamGenerateContent?alt=sse",
        "x-goog-api-key",
        "gemini-golden",
        {"contents": [{"role": "user", "parts": [{"text": "do it"}]}], "generationConfig": {"maxOutputTokens": 100}},
        _gemini,
        _gemini_events,
    ),
)
