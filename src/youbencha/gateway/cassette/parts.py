"""A request in parts, so that what it has in common with others is written once. Pure.

An agent sends its instructions, its tools and the whole talk again with every turn. A large part is named by its
content, and stands in a file of its own; so a talk takes as much room as was said in it, not the square of that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from youbencha.gateway.cassette.written import compact

PART, LINES = "$part", "$lines"
TALK = ("messages", "input", "contents")
_LARGE = 1000
_TOGETHER = 10
"""So many messages, once they are complete, are one part."""
_SHORT_LINE = 16
_OURS = re.compile(r"\$+(?:part|lines)\Z")


def taken_apart(body: Any) -> tuple[Any, dict[str, Any]]:
    """The body with references, and what they refer to."""
    parts: dict[str, Any] = {}
    if not isinstance(body, dict):
        return _apart(body, parts), parts
    return {_key(key): (_talk if key in TALK else _apart)(value, parts) for key, value in body.items()}, parts


def put_together(body: Any, part: Callable[[str], Any]) -> Any:
    """`part` gives what a reference refers to."""
    whole = _whole(body, part)
    if not isinstance(whole, dict):
        return whole
    return {key: _one_list(value) if key in TALK else value for key, value in whole.items()}


def _whole(value: Any, part: Callable[[str], Any]) -> Any:
    if isinstance(value, list):
        return [_whole(each, part) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {PART}:
        return _whole(part(value[PART]), part)
    if set(value) == {LINES}:
        return "\n".join(value[LINES])
    return {_own_key(key): _whole(each, part) for key, each in value.items()}


def _talk(value: Any, parts: dict[str, Any]) -> Any:
    """The beginning of a talk stays as it is when it goes on, so it is cut at the same places every time."""
    if not isinstance(value, list):
        return _apart(value, parts)
    whole = len(value) // _TOGETHER * _TOGETHER
    messages = [_apart(each, parts) for each in value]
    groups = [messages[at : at + _TOGETHER] for at in range(0, whole, _TOGETHER)]
    return [*(_reference(group, parts) for group in groups), *messages[whole:]]


def _one_list(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [each for item in value for each in (item if isinstance(item, list) else [item])]


def _apart(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return _reference(_in_lines(value), parts) if len(value) >= _LARGE else value
    if isinstance(value, list):
        small: Any = [_apart(each, parts) for each in value]
    elif isinstance(value, dict):
        small = {_key(key): _apart(each, parts) for key, each in value.items()}
    else:
        return value
    return _reference(small, parts) if len(compact(small)) >= _LARGE else small


def _in_lines(text: str) -> Any:
    """For `git diff`; but not if the quotes would be more than the text."""
    lines = text.split("\n")
    return {LINES: lines} if len(text) >= _SHORT_LINE * len(lines) else text


def _reference(value: Any, parts: dict[str, Any]) -> dict[str, str]:
    name = sha256(compact(value)).hexdigest()[:12]
    parts[name] = value
    return {PART: name}


def _key(key: str) -> str:
    """A key of the body's own that looks like one of ours gets a dollar more."""
    return f"${key}" if _OURS.match(key) else key


def _own_key(key: str) -> str:
    return key[1:] if key.startswith("$$") and _OURS.match(key) else key
