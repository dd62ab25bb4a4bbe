"""What a request says, as far as a script cares, whatever the API it is written for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from youbencha.gateway.script.variables import working_directory

Required = tuple[str, tuple[type, ...], str]
"""A key that a body must have, the types that it may be of, and how an error calls them."""


@dataclass(frozen=True, slots=True)
class Asked:
    session: str
    model: str
    stream: bool
    has_tools: bool
    system: str
    prompt: str
    """The text of the first user message, reminders included."""
    cwd: str | None


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as it came."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any

    @property
    def key(self) -> str:
        """The API key, wherever the client has put it."""
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ").strip()
        named = self.headers.get("x-api-key") or self.headers.get("x-goog-api-key")
        return named or bearer or self.query.get("key", "")


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a conversation."""

    role: str
    texts: tuple[str, ...]


def complaint(body: Any, required: Iterable[Required]) -> str | None:
    """What the API would refuse this body for; None if it is good enough to be answered."""
    if not isinstance(body, Mapping):
        return "the request body must be a JSON object"
    for key, kinds, name in required:
        if key not in body:
            return f"{key}: Field required"
        if not isinstance(body[key], kinds) or isinstance(body[key], bool):
            return f"{key}: must be {name}"
    return None


def asked(
    *, session: str, model: str, stream: bool, has_tools: bool, system: str, prompt: str, talk: Iterable[Said]
) -> Asked:
    """The parts that are found alike in every API are found here."""
    cwd = working_directory(system, prompt, *(text for said in talk for text in said.texts))
    return Asked(session, model, stream, has_tools, system, prompt, cwd)


def opening(talk: Iterable[Said]) -> str:
    """All that is said to the model before its first word.

    Codex puts what it knows of its surroundings into a user message of its own, before the person's.
    """
    texts: list[str] = []
    for said in talk:
        if said.role not in ("user", "system", "developer"):
            break
        texts += said.texts if said.role == "user" else ()
    return "\n".join(texts)


def system_of(talk: Iterable[Said]) -> str:
    return "\n".join(text for said in talk if said.role in ("system", "developer") for text in said.texts)


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; none if it is no list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def texts_of(content: Any) -> Iterator[str]:
    """The texts of a field that is a string or a list of blocks."""
    if isinstance(content, str):
        yield content
    for block in mappings(content):
        if isinstance(block.get("text"), str):
            yield block["text"]


def text_in(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""
