"""Keep the conversation of a stream of any length for the log: its beginning, its end and the last answer."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from youbencha.events import AssistantText, Event, ToolCalled, ToolReturned, UserText
from youbencha.json_lines import dumps
from youbencha.log.model import Message, ToolCall
from youbencha.log.session import LeftOut
from youbencha.text import join_words, plural, strip_ansi

TRANSCRIPT_LIMIT = 10 * 1024 * 1024
"""The maximum length in characters."""

_ENTRY_SIZE = 250
"""What an entry counts in addition to its text: a stream may have millions of empty ones."""

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")

_TEXT_OF: dict[type[Event], Callable[[Any], str]] = {
    AssistantText: lambda event: strip_ansi(event.text),
    UserText: lambda event: strip_ansi(event.text),
    ToolCalled: lambda event: dumps(event.arguments),
    ToolReturned: lambda event: strip_ansi(event.content),
}

_WITHOUT_TEXT: dict[type[Event], dict[str, Any]] = {
    AssistantText: {"text": ""},
    UserText: {"text": ""},
    ToolCalled: {"arguments": {}},
    ToolReturned: {"content": ""},
}


@dataclass(slots=True, eq=False)
class _Entry:
    event: Any
    text: str

    @property
    def size(self) -> int:
        return len(self.text) + _ENTRY_SIZE


class Conversation:
    """The messages of a conversation, and its tool calls joined with their results.

    The first half of the limit is for the beginning. The rest is for the newest entries, for which older ones are
    dropped, but never the last answer of the main conversation. What does not fit even so is cut in the middle.
    """

    def __init__(self, limit: int = TRANSCRIPT_LIMIT) -> None:
        self._limit = limit
        self._size = 0
        self._beginning: list[_Entry] = []
        self._newest: deque[_Entry] = deque()
        self._last_answer: _Entry | None = None
        self._held_answer: _Entry | None = None
        """The last answer, if it is older than the newest entries."""
        self._called: set[str] = set()
        self._dropped: Counter[str] = Counter()
        self._lost_results: dict[str, int] = {}
        """The lengths of the results that were dropped."""

    def add(self, event: Event) -> None:
        text_of = _TEXT_OF.get(type(event))
        if text_of is None or self._is_redundant(event):
            return
        entry = _Entry(event, text_of(event))
        self._size += entry.size
        if not self._newest and self._size <= self._limit // 2:
            self._beginning.append(entry)
        else:
            self._newest.append(entry)
        if isinstance(event, AssistantText) and event.parent is None:
            self._replace_last_answer(entry)
        if self._size > self._limit:
            self._make_room()

    def messages(self) -> tuple[Message, ...]:
        left_out = self.left_out()
        gap = (
            [Message(role="system", content=left_out_here(left_out))]
            if left_out.messages or left_out.tool_calls
            else []
        )
        before, after = self._beginning, [*([self._held_answer] if self._held_answer else []), *self._newest]
        return (*_messages(before), *gap, *_messages(after))

    def tool_calls(self) -> tuple[ToolCall, ...]:
        kept = [*self._beginning, *self._newest]
        results = {entry.event.call_id: entry for entry in kept if isinstance(entry.event, ToolReturned)}
        return tuple(
            self._tool_call(entry, results.get(entry.event.call_id))
            for entry in kept
            if isinstance(entry.event, ToolCalled)
        )

    def left_out(self) -> LeftOut:
        dropped, kept = self._dropped, [*self._beginning, *self._newest]
        calls = {entry.event.call_id for entry in kept if isinstance(entry.event, ToolCalled)}
        of_no_call = (
            len(entry.text)
            for entry in kept
            if isinstance(entry.event, ToolReturned) and entry.event.call_id not in calls
        )
        return LeftOut(dropped["messages"], dropped["tool_calls"], dropped["characters"] + sum(of_no_call))

    def _is_redundant(self, event: Event) -> bool:
        """Return whether a call was reported before, or a result is of no known call."""
        if isinstance(event, ToolCalled) and event.call_id is not None:
            known = event.call_id in self._called
            self._called.add(event.call_id)
            return known
        return isinstance(event, ToolReturned) and event.call_id not in self._called

    def _replace_last_answer(self, entry: _Entry) -> None:
        self._last_answer = entry
        if self._held_answer is not None:
            self._drop(self._held_answer)
            self._held_answer = None

    def _make_room(self) -> None:
        while self._size > self._limit and len(self._newest) > 1:
            oldest = self._newest.popleft()
            if oldest is self._last_answer:
                self._held_answer = oldest
            else:
                self._drop(oldest)
        if self._size > self._limit:  # one entry is left, perhaps with the last answer
            for entry in (self._held_answer, *self._newest):
                if self._size > self._limit and entry is not None:
                    self._shorten(entry)

    def _shorten(self, entry: _Entry) -> None:
        """Cut the middle out, so that a quarter of the limit is left."""
        text, half = entry.text, self._limit // 8
        left_out = len(text) - 2 * half
        if left_out > 0:
            self._dropped["characters"] += left_out
            entry.text = f"{text[:half]}\n{left_out_here(LeftOut(characters=left_out))}\n{text[-half:]}"
            entry.event = replace(entry.event, **_WITHOUT_TEXT[type(entry.event)])
            self._size -= len(text) - len(entry.text)

    def _drop(self, entry: _Entry) -> None:
        self._size -= entry.size
        self._dropped["characters"] += len(entry.text)
        if isinstance(entry.event, ToolReturned):
            self._lost_results[entry.event.call_id or ""] = len(entry.text)
        else:
            self._dropped["tool_calls" if isinstance(entry.event, ToolCalled) else "messages"] += 1

    def _tool_call(self, entry: _Entry, result: _Entry | None) -> ToolCall:
        call: ToolCalled = entry.event
        lost = self._lost_results.get(call.call_id or "")
        return ToolCall(
            name=call.name,
            arguments=entry.text,
            result=result.text if result else None if lost is None else left_out_here(LeftOut(characters=lost)),
            is_error=result.event.is_error if result else None,
            id=call.call_id,
            parent=call.parent,
        )


def _messages(entries: list[_Entry]) -> list[Message]:
    return [
        Message(
            role="assistant" if isinstance(entry.event, AssistantText) else "user",
            content=entry.text,
            timestamp=moment(entry.event.sent_at),
            parent=entry.event.parent,
        )
        for entry in entries
        if isinstance(entry.event, AssistantText | UserText)
    ]


def left_out_here(left_out: LeftOut) -> str:
    """Return the note where something is missing."""
    return f"[{describe_left_out(left_out)} left out here]"


def describe_left_out(left_out: LeftOut) -> str:
    """Describe it, as `3 messages, 2 tool calls and 12,345 characters`."""
    parts = [plural(left_out.messages, "message")] if left_out.messages else []
    parts += [plural(left_out.tool_calls, "tool call")] if left_out.tool_calls else []
    size = plural(left_out.bytes, "byte") if left_out.bytes else plural(left_out.characters, "character")
    return join_words([*parts, size])


def moment(text: str | None) -> str | None:
    """Return the timestamp, if it is valid."""
    if text is None or not _RFC3339.fullmatch(text):
        return None
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return text
