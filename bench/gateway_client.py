"""A minimal HTTP client, because its own time is part of every measurement."""

from __future__ import annotations

import concurrent.futures
import json
import random
import re
import socket
import threading
import time
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from bench.gateway_upstream import HOLD, MODEL, RELEASE

BODY_BYTES = 50_000
_TIMEOUT_S = 20.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_WORDS = ("def", "return", "value", "None", "for", "item", "in", "self", "import", "assert", "result", "==")


class Target(NamedTuple):
    """A server to measure: the model itself, or a proxy in front of it."""

    url: str
    key: str

    def request(self, *, stream: bool, hold: bool = False) -> bytes:
        body = json.dumps({**_conversation(), "stream": stream, "system": HOLD.decode() if hold else "Work."})
        head = (
            f"POST /v1/messages?beta=true HTTP/1.1\r\nHost: {urlsplit(self.url).netloc}\r\nx-api-key: {self.key}\r\n"
            "anthropic-version: 2023-06-01\r\nanthropic-beta: interleaved-thinking-2025-05-14\r\n"
            "Accept: application/json\r\nUser-Agent: claude-cli/2.1.325 (external, cli)\r\nx-app: cli\r\n"
            "X-Stainless-Lang: js\r\nX-Stainless-Retry-Count: 0\r\nX-Stainless-Runtime: node\r\n"
            "Accept-Language: *\r\nAccept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return (head + body).encode()

    def release(self) -> None:
        """Ask the model to send what it holds back."""
        with Connection(self) as connection:
            connection.ask(RELEASE + b"HTTP/1.1\r\nHost: model\r\n\r\n")


def _conversation() -> dict[str, object]:
    """A request body as long as an agent's after a few turns."""
    rng = random.Random(4)
    messages: list[object] = []
    size = 0
    while size < BODY_BYTES:
        call = {"type": "tool_use", "id": f"toolu_{size}", "name": "Read", "input": {"file_path": f"src/{size}.py"}}
        text = "\n".join(" ".join(rng.choices(_WORDS, k=10)) for _ in range(50))
        answer = {"type": "tool_result", "tool_use_id": call["id"], "content": text}
        turn = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
        messages += turn
        size += len(json.dumps(turn))
    tools = [{"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}}]
    start = {"role": "user", "content": "Fix the bug."}
    return {"model": MODEL, "max_tokens": 1000, "tools": tools, "messages": [start, *messages]}


class Connection:
    """A kept-alive connection."""

    def __init__(self, target: Target) -> None:
        parts = urlsplit(target.url)
        self._socket = socket.create_connection((parts.hostname, parts.port or 80), timeout=_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: bytes) -> float:
        """Return the seconds until the whole answer has arrived."""
        start = time.perf_counter()
        self._socket.sendall(request)
        self.read_answer()
        return time.perf_counter() - start

    def first_event(self, request: bytes) -> float:
        """Return the seconds until the first event of the answer has arrived."""
        start = time.perf_counter()
        self._socket.sendall(request)
        self._received = b""
        while b"message_start" not in self._received or b"\n\n" not in self._received:
            self._receive()
        return time.perf_counter() - start

    def read_answer(self) -> None:
        while not _is_complete(self._received):
            self._receive()
        if not self._received.startswith(b"HTTP/1.1 200 "):
            raise AssertionError(f"not answered: {self._received[:2000]!r}")
        self._received = b""

    def _receive(self) -> None:
        data = self._socket.recv(256 * 1024)
        if not data:
            raise AssertionError(f"the connection was closed after {self._received[:2000]!r}")
        self._received += data


def _is_complete(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return bool(end) and (len(body) >= int(length[1]) if length else body.endswith(b"\r\n0\r\n\r\n"))


def requests_per_second(target: Target, request: bytes, *, clients: int, seconds: float) -> float:
    """Each client sends its next request as soon as it has an answer."""
    barrier = threading.Barrier(clients)

    def rate(_: int) -> float:
        with Connection(target) as connection:
            connection.ask(request)
            barrier.wait(_TIMEOUT_S)
            answered, start = 0, time.perf_counter()
            while (taken := time.perf_counter() - start) < seconds:
                connection.ask(request)
                answered += 1
            return answered / taken

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return sum(pool.map(rate, range(clients)))
