"""The base class of the APIs of the scripted model: read a request, write an answer. No I/O."""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from youbencha.gateway.sse import write_event
from youbencha.gateway.wires import Action, WireName, presented_key
from youbencha.json_lines import as_records
from youbencha.scripted_model.format import ScriptedAnswer, ScriptedUsage, working_directory

Required = tuple[str, tuple[type, ...], str]
"""A required key of a body, its valid types, and their description in an error."""


@dataclass(frozen=True, slots=True)
class ScriptRequest:
    session: str
    model: str
    stream: bool
    has_tools: bool
    system: str
    prompt: str
    """The text of the first user message, reminders included."""
    by_user: tuple[str, ...]
    """All texts of the user."""
    cwd: str | None


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as it was received."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any

    @property
    def key(self) -> str:
        """The API key, from any of its usual headers or the query."""
        return presented_key(self.headers, self.query) or ""


@dataclass(frozen=True, slots=True)
class ScriptedMessage:
    """One message of a conversation."""

    role: str
    texts: tuple[str, ...]


def problem_with(body: Any, required: Iterable[Required]) -> str | None:
    """Return why the API would refuse this body, or None."""
    if not isinstance(body, Mapping):
        return "the request body must be a JSON object"
    for key, kinds, name in required:
        if key not in body:
            return f"{key}: Field required"
        if not isinstance(body[key], kinds) or isinstance(body[key], bool):
            return f"{key}: must be {name}"
    return None


def script_request(
    *,
    session: str,
    model: str,
    stream: bool,
    has_tools: bool,
    system: str,
    prompt: str,
    messages: Sequence[ScriptedMessage],
) -> ScriptRequest:
    """Add the working directory, which is found in the same way in every API."""
    cwd = working_directory(system, prompt, *(text for message in messages for text in message.texts))
    by_user = tuple(text for message in messages if message.role == "user" for text in message.texts)
    return ScriptRequest(session, model, stream, has_tools, system, prompt, by_user, cwd)


def first_prompt(messages: Iterable[ScriptedMessage]) -> str:
    """Return the user's texts before the model's first message.

    Codex puts a description of its environment into a separate user message before the prompt.
    """
    texts: list[str] = []
    for message in messages:
        if message.role not in ("user", "system", "developer"):
            break
        texts += message.texts if message.role == "user" else ()
    return "\n".join(texts)


def system_text(messages: Iterable[ScriptedMessage]) -> str:
    system = [message for message in messages if message.role in ("system", "developer")]
    return "\n".join(text for message in system for text in message.texts)


def read_texts(content: Any) -> Iterator[str]:
    """Yield the texts of a field that is a string or a list of blocks."""
    if isinstance(content, str):
        yield content
    for block in as_records(content):
        if isinstance(block.get("text"), str):
            yield block["text"]


def read_messages(items: Any, *, content: str = "content", default_role: str = "") -> list[ScriptedMessage]:
    return [
        ScriptedMessage(str(item.get("role", default_role)), tuple(read_texts(item.get(content))))
        for item in as_records(items)
    ]


def text_in(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class ClaimedTokens:
    input: int = 100
    """Without the cached ones."""
    output: int = 20
    """Including thinking tokens."""
    cache_read: int = 0
    cache_creation: int = 0
    reasoning: int = 0

    @property
    def all_input(self) -> int:
        return self.input + self.cache_read + self.cache_creation

    @property
    def thought(self) -> int:
        """Thinking tokens, at most those of the output."""
        return min(self.reasoning, self.output)


_NAMES = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_creation",
    "reasoning_tokens": "reasoning",
}


def claimed_tokens(answer: ScriptedAnswer, default: ScriptedUsage) -> ClaimedTokens:
    """Return each number from the answer, else from the script, else a small default."""
    given = default.model_dump(exclude_none=True) | answer.usage.model_dump(exclude_none=True)
    return ClaimedTokens(**{_NAMES[name]: number for name, number in given.items()})


WireEvent = dict[str, Any]
Message = dict[str, Any]
MODEL_WITHOUT_NAME = "scripted-model"

DELTAS = 4
"""The number of pieces of a text, enough to test whether a client joins them."""


class ScriptedWire(ABC):
    """One API: how a request is read, and how an answer is written."""

    name: ClassVar[WireName]
    request_id_header: ClassVar[str | None] = None
    bad_key: ClassVar[str]
    """The message for a client without the right key."""
    closing: ClassVar[bytes] = b""
    """What is sent after the last event of a stream."""

    @abstractmethod
    def problem_with(self, request: HttpRequest, action: Action) -> str | None:
        """Return why the API would refuse this request, or None."""

    @abstractmethod
    def read(self, request: HttpRequest) -> ScriptRequest:
        """Read a request that `problem_with` found no problem with."""

    @abstractmethod
    def message(self, answer: ScriptedAnswer, model: str, tokens: ClaimedTokens, request: HttpRequest) -> Message:
        """Return the answer in one piece."""

    @abstractmethod
    def events(self, message: Message, request: HttpRequest) -> list[WireEvent]:
        """Return the events of a stream with the content of `message`."""

    @abstractmethod
    def is_delta(self, event: WireEvent) -> bool:
        """Whether this event has a part of the answer."""

    @abstractmethod
    def error_body(self, status: int, message: str | None, kind: str | None, request_id: str | None) -> Message: ...

    def error_event(self, body: Message, begun: list[WireEvent]) -> WireEvent:
        """Return an error (its `body`) in the middle of a stream that has `begun`."""
        return body

    @abstractmethod
    def model(self, name: str) -> Message:
        """Return the answer to a client that asks for one model."""

    def models(self, names: Sequence[str]) -> Message:
        """Return the answer to a client that asks for the list of models."""
        return {"object": "list", "data": [self.model(name) for name in names]}

    def counted(self, tokens: int) -> Message:
        """Return the answer to a client that asks how many tokens its request has."""
        raise NotImplementedError(f"{self.name} counts no tokens")


def event_bytes(event: WireEvent) -> bytes:
    """Write a server-sent event, named by its type if it has one."""
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return write_event(str(event.get("type", "")).encode(), data.encode("utf-8", "replace"))


def new_id(prefix: str) -> str:
    return f"{prefix}_01{secrets.token_hex(11)}"


def pieces(text: str) -> list[str]:
    size = max(1, -(-len(text) // DELTAS))
    return [text[start : start + size] for start in range(0, len(text), size)]


def texts_in(answer: ScriptedAnswer) -> list[str]:
    return [answer.text] if isinstance(answer.text, str) else answer.text or []


def json_text(arguments: Mapping[str, Any]) -> str:
    """Write a tool's input for the APIs that send it as text."""
    return json.dumps(arguments, ensure_ascii=False)
