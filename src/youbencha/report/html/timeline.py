"""The agent's log, in portions that a page can show. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from youbencha.report.formatting import count
from youbencha.report.text import first_line, one_line

if TYPE_CHECKING:
    from youbencha.log import Message, ToolCall, YouBenchaLog

MOST_ENTRIES = 200
LONGEST_TEXT = 6000
_FOLDED_FROM = 1200
_FOLDED_LINES = 16
_TELLING = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")
"""The argument that says most about a tool call, most telling first."""

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Portion(Generic[Entry]):
    """The beginning and the end of a list that is too long: how it started, and how it came out."""

    first: tuple[Entry, ...]
    left_out: int
    last: tuple[Entry, ...]


@dataclass(frozen=True)
class Said:
    role: str
    text: str
    headline: str
    """What shows while it is folded; empty if it is short enough to stay open."""
    moment: str
    nested: bool


@dataclass(frozen=True)
class Called:
    name: str
    headline: str
    arguments: str
    result: str | None
    failed: bool | None
    nested: bool


@dataclass(frozen=True)
class Timeline:
    said: Portion[Said]
    called: Portion[Called]
    messages: int
    calls: int


def timeline(log: YouBenchaLog) -> Timeline:
    return Timeline(
        said=_portion([*map(_said, _edges(log.messages))], len(log.messages)),
        called=_portion([*map(_called, _edges(log.tool_calls))], len(log.tool_calls)),
        messages=len(log.messages),
        calls=len(log.tool_calls),
    )


def _edges(entries: Sequence[Entry]) -> Sequence[Entry]:
    half = MOST_ENTRIES // 2
    return entries if len(entries) <= MOST_ENTRIES else (*entries[:half], *entries[-half:])


def _portion(shown: list[Entry], total: int) -> Portion[Entry]:
    if len(shown) == total:
        return Portion(tuple(shown), 0, ())
    half = len(shown) // 2
    return Portion(tuple(shown[:half]), total - len(shown), tuple(shown[half:]))


def _said(message: Message) -> Said:
    text = message.content.strip("\n")
    long = len(text) > _FOLDED_FROM or text.count("\n") > _FOLDED_LINES
    return Said(
        role=message.role,
        text=cut(text),
        headline=one_line(first_line(text), 160) if long else "",
        moment=(message.timestamp or "")[11:19],
        nested=message.parent is not None,
    )


def _called(call: ToolCall) -> Called:
    try:
        arguments: Any = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = call.arguments
    pretty = arguments if isinstance(arguments, str) else json.dumps(arguments, indent=2, ensure_ascii=False)
    return Called(
        name=call.name,
        headline=one_line(_telling(arguments), 160),
        arguments=cut(pretty),
        result=None if call.result is None else cut(call.result),
        failed=call.is_error,
        nested=call.parent is not None,
    )


def _telling(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return str(arguments)
    found = (arguments[name] for name in _TELLING if isinstance(arguments.get(name), str))
    return next(found, json.dumps(arguments, ensure_ascii=False) if arguments else "")


def cut(text: str, limit: int = LONGEST_TEXT) -> str:
    """With a word about what is missing: a text that just stops would look like the whole."""
    return text if len(text) <= limit else f"{text[:limit]}\n… {count(len(text) - limit)} more characters"
