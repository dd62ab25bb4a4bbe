"""What a request to the Messages API says, as far as a script cares. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from youbencha.gateway.script.variables import working_directory

_REQUIRED: tuple[tuple[str, type, str], ...] = (
    ("model", str, "text"),
    ("max_tokens", int, "a whole number"),
    ("messages", list, "a list"),
)


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


def complaint(body: Any) -> str | None:
    """What the API would refuse this body for; None if it is good enough to be answered."""
    if not isinstance(body, Mapping):
        return "the request body must be a JSON object"
    for key, kind, name in _REQUIRED:
        if key not in body:
            return f"{key}: Field required"
        if not isinstance(body[key], kind) or isinstance(body[key], bool):
            return f"{key}: must be {name}"
    return None if body["messages"] else "messages: at least one message is required"


def asked(headers: Mapping[str, str], body: Mapping[str, Any]) -> Asked:
    """`headers` have lower-case names; `body` is one that `complaint` has nothing against."""
    system = "\n".join(texts_of(body.get("system")))
    messages = [message for message in body["messages"] if isinstance(message, Mapping)]
    prompt = "\n".join(_first_user_text(messages))
    return Asked(
        session=session_of(headers, body),
        model=body["model"],
        stream=body.get("stream") is True,
        has_tools=bool(body.get("tools")),
        system=system,
        prompt=prompt,
        cwd=working_directory(system, prompt, *(t for m in messages for t in texts_of(m.get("content")))),
    )


def session_of(headers: Mapping[str, str], body: Mapping[str, Any]) -> str:
    """Who is asking. Claude Code sends the header from 2.1.86 on, and has its session in the user id before."""
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    return headers.get("x-claude-code-session-id") or (user if isinstance(user, str) else "") or key_of(headers)


def key_of(headers: Mapping[str, str]) -> str:
    return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ").strip()


def texts_of(content: Any) -> Iterator[str]:
    """The texts of a `system` or `content` field, which is a string or a list of blocks."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, Mapping) and isinstance(block.get("text"), str):
                yield block["text"]


def _first_user_text(messages: list[Mapping[str, Any]]) -> Iterator[str]:
    first = next((message for message in messages if message.get("role") == "user"), None)
    return texts_of(first.get("content") if first else None)
