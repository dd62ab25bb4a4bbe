"""What there is to know about an API that a script is served as, and what all of them share. Pure."""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from youbencha.gateway.routes import Action, WireName
from youbencha.gateway.script.asked import Asked, Incoming
from youbencha.gateway.script.format import Answer
from youbencha.gateway.script.tokens import Tokens

Event = dict[str, Any]
Message = dict[str, Any]

MODEL_WITHOUT_NAME = "scripted-model"

DELTAS = 4
"""A text comes in so many pieces: enough to see that a client puts them together."""


class Wire(ABC):
    """One API: how a request is read, and how an answer is written."""

    name: ClassVar[WireName]
    request_id_header: ClassVar[str | None] = None
    bad_key: ClassVar[str]
    """What is said to a client without the right key."""
    closing: ClassVar[bytes] = b""
    """What follows the last event of a stream."""

    @abstractmethod
    def complaint(self, request: Incoming, action: Action) -> str | None:
        """What the API would refuse this request for; None if it is good enough to be answered."""

    @abstractmethod
    def asked(self, request: Incoming) -> Asked:
        """`request` is one that `complaint` has nothing against."""

    @abstractmethod
    def message(self, answer: Answer, model: str, tokens: Tokens, request: Incoming) -> Message:
        """The answer to a client that wants it in one piece."""

    @abstractmethod
    def events(self, message: Message, request: Incoming) -> list[Event]:
        """The stream that a client puts together to `message` again."""

    @abstractmethod
    def is_delta(self, event: Event) -> bool:
        """Whether the client has heard a word with this event."""

    @abstractmethod
    def error_body(self, status: int, message: str | None, kind: str | None, request_id: str | None) -> Message: ...

    @abstractmethod
    def error_event(self, body: Message, begun: list[Event]) -> Event:
        """An error (its `body`) in the middle of a stream that has `begun`."""

    @abstractmethod
    def models(self, name: str | None) -> Message: ...

    def counted(self, tokens: int) -> Message:
        """The answer to a client that wants to know how large its request is."""
        raise NotImplementedError(f"{self.name} counts no tokens")


def sse(event: Event) -> bytes:
    """As a server-sent event; one that has a type is named after it."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"{name}data: {data}\n\n".encode("utf-8", "replace")


def new_id(prefix: str) -> str:
    return f"{prefix}_01{secrets.token_hex(11)}"


def pieces(text: str) -> list[str]:
    size = max(1, -(-len(text) // DELTAS))
    return [text[start : start + size] for start in range(0, len(text), size)]


def texts_in(answer: Answer) -> list[str]:
    return [answer.text] if isinstance(answer.text, str) else answer.text or []


def written(arguments: Mapping[str, Any]) -> str:
    """A tool's input, for the APIs that send it as text."""
    return json.dumps(arguments, ensure_ascii=False)
