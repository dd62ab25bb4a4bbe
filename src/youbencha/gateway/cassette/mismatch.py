"""Find the place of a request in its session, and show how it differs from what was recorded there. No I/O."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple

from youbencha.gateway.cassette.matching import MESSAGES, CanonicalRequest, ModelRequest
from youbencha.json_lines import as_mapping, as_records, canonical, dumps
from youbencha.text import shorten


class Mismatch(NamedTuple):
    """Why no recording matches a request."""

    summary: str
    """A description in one line."""
    text: str
    """The summary, and a diff to the request that was recorded instead."""


class Outline(NamedTuple):
    """What a session remembers of a request, to find the one that a later request continues."""

    fingerprint: str
    path: str
    model: object
    large: Mapping[str, bytes]
    """The digests of large fields, such as the system prompt and the tools."""
    messages: tuple[bytes, ...]


class Continuation(NamedTuple):
    """The place of a request in its session: which earlier one it continues, and what both have in common."""

    after: str | None = None
    """The fingerprint of the earlier request; None for one that begins a conversation."""
    same: tuple[str, ...] = ()
    """The names of equal large fields."""
    same_messages: int = 0
    """The number of equal messages at the start."""


_MIN_LARGE_BYTES = 1000


def outline(request: ModelRequest, matched: CanonicalRequest) -> Outline:
    body = as_mapping(matched.body)
    talk = messages_in(body)
    fields = {key: canonical(value) for key, value in body.items() if value is not talk}
    return Outline(
        matched.fingerprint,
        request.path,
        body.get("model"),
        {key: sha256(data).digest() for key, data in fields.items() if len(data) >= _MIN_LARGE_BYTES},
        tuple(sha256(canonical(message)).digest() for message in talk),
    )


def find_position(request: Outline, earlier: Iterable[Outline]) -> Continuation:
    """Return the position of a request: after the earlier one with the longest equal start, the last of several."""
    best, most = None, 0
    for other in earlier:
        if (other.path, other.model) == (request.path, request.model) and other.fingerprint != request.fingerprint:
            same = _equal(request.messages, other.messages)
            if same >= max(most, 1):
                best, most = other, same
    if best is None:
        return Continuation()
    unchanged = tuple(key for key, digest in best.large.items() if digest == request.large.get(key))
    return Continuation(best.fingerprint, unchanged, most)


def messages_in(body: Any) -> list[Any]:
    """Return the conversation of a request in any API."""
    return next((talk for key in MESSAGES if isinstance(talk := as_mapping(body).get(key), list)), [])


def compare(title: str, body: Any, recorded: Any, file_name: str, lost: str | None) -> Mismatch:
    """Compare a request with the recorded one, both in canonical form. `lost`: why the latter has no answer."""
    summary = "; ".join(_differences(body, recorded)) or f"it was recorded without an answer: {lost or 'unknown'}"
    head = [f"{title}: {summary}", f"At this point of the session, {file_name} was recorded."]
    return Mismatch(summary, "\n".join([*head, "", *_diff(_text_lines(recorded), _text_lines(body))]))


def _differences(body: Any, recorded: Any) -> Iterator[str]:
    if not isinstance(body, dict) or not isinstance(recorded, dict):
        yield from () if body == recorded else ("the body differs",)
        return
    for key in sorted((body.keys() | recorded.keys()) - set(MESSAGES)):
        if key not in recorded or key not in body:
            yield f"`{key}` is {'new' if key in body else 'missing'}"
        elif body[key] != recorded[key]:
            difference = f"`{key}` differs: {_first_difference(body[key], recorded[key])}"
            yield _tool_differences(body[key], recorded[key]) if key == "tools" else difference
    yield from _message_differences(messages_in(body), messages_in(recorded))


def _tool_differences(tools: Any, recorded: Any) -> str:
    now, then = _tool_names(tools), _tool_names(recorded)
    new, missing = sorted(now - then), sorted(then - now)
    changes = [f"new: {', '.join(new)}"] if new else []
    changes += [f"missing: {', '.join(missing)}"] if missing else []
    return f"the tools differ ({'; '.join(changes) or 'in their descriptions'})"


def _tool_names(tools: Any) -> set[str]:
    tools = as_records(tools)
    functions = [tool.get("function") for tool in tools]
    return {str(holder["name"]) for holder in [*tools, *functions] if isinstance(holder, dict) and "name" in holder}


def _message_differences(messages: list[Any], recorded: list[Any]) -> Iterator[str]:
    for number, (now, then) in enumerate(zip(messages, recorded, strict=False), 1):
        if now != then:
            role = f" ({now['role']})" if isinstance(now, dict) and "role" in now else ""
            yield f"message {number}{role} differs: {_first_difference(now, then)}"
            return
    if len(messages) != len(recorded):
        yield f"it has {len(messages)} messages, the recording has {len(recorded)}"


def _first_difference(now: Any, then: Any) -> str:
    ours, theirs = _text_lines(now), _text_lines(then)
    start, end = _equal_ends(ours, theirs)
    new, old = (lines[start : len(lines) - end] for lines in (ours, theirs))
    if new and old:
        one, other = _from_difference(new[0].strip(), old[0].strip())
        return f"{_quote(one)}, recorded: {_quote(other)}"
    return f"added: {_quote(new[0])}" if new else f"missing: {_quote(old[0])}"


_MAX_WIDTH = 200
_MAX_LINES = 120
_MAX_COMPARED_LINES = 2000
"""The time that difflib takes may grow with their square."""
_CONTEXT_LINES = 3
_SHORT = 80
_LEAD = 30


def _diff(recorded: list[str], now: list[str]) -> list[str]:
    """Return a unified diff. Equal lines at the start and the end are not compared."""
    start, end = _equal_ends(recorded, now)
    skipped, left_out = max(0, start - _CONTEXT_LINES), max(0, end - _CONTEXT_LINES)
    before, after = (lines[skipped : len(lines) - left_out][:_MAX_COMPARED_LINES] for lines in (recorded, now))
    whole = list(difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=_CONTEXT_LINES))
    shown = whole[:_MAX_LINES]
    for at, (one, other) in enumerate(pairwise(shown)):
        if one.startswith("-") and other.startswith("+"):
            old, new = _from_difference(one[1:], other[1:])
            shown[at : at + 2] = [f"-{old}", f"+{new}"]
    shown = [shorten(line, _MAX_WIDTH) for line in shown]
    return [*shown, f"… and {len(whole) - _MAX_LINES} more lines"] if len(whole) > _MAX_LINES else shown


def _from_difference(one: str, other: str) -> tuple[str, str]:
    """Shorten the common start of two long lines."""
    same = _equal(one, other)
    if same < _SHORT - _LEAD:
        return one, other
    return f"…{one[same - _LEAD :]}", f"…{other[same - _LEAD :]}"


def _quote(line: str) -> str:
    return repr(shorten(line.strip(), _SHORT))


def _equal_ends(first: list[str], second: list[str]) -> tuple[int, int]:
    """Return how many lines are equal at the start, and how many of the rest at the end."""
    start = _equal(first, second)
    return start, _equal(first[start:][::-1], second[start:][::-1])


def _equal(first: Sequence[object], second: Sequence[object]) -> int:
    """Return the length of the common start."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


def _text_lines(value: Any) -> list[str]:
    """Write a value as indented lines for a diff."""
    return list(_lines(value, ""))


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _item(f"{indent}{key}:", item, indent)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _item(f"{indent}-", item, indent)
    elif isinstance(value, str):
        yield from (f"{indent}{line}" for line in value.split("\n"))
    else:
        yield indent + dumps(value)


def _item(head: str, value: Any, indent: str) -> Iterator[str]:
    """Yield a key and its value on one line, if the value has only one line."""
    if isinstance(value, str) and "\n" not in value:
        yield f"{head} {value}"
    elif isinstance(value, dict | list | str) and value:
        yield head
        yield from _lines(value, indent + "  ")
    else:
        yield f"{head} {dumps(value)}"
