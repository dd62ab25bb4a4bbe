"""Count the tokens of answers, as a stream or in one piece. No I/O.

A meter changes nothing, and never raises.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from youbencha.gateway.sse import SseParser
from youbencha.json_lines import as_count, as_mapping, loads_lossy
from youbencha.usage import Tokens

MAX_BODY_BYTES = 64 * 1024 * 1024

_MAX_TOKENS = 10**12
"""A larger number is not a count of tokens."""

_MAX_NAME_CHARS = 256
_WORD = re.compile(r"[A-Za-z][\w.-]{0,63}", re.ASCII)


class Metered(NamedTuple):
    """The model and usage that an answer reports."""

    tokens: Tokens = Tokens()
    """`input` excludes cached tokens, however the API counts. None if the answer does not have the number."""
    model: str | None = None
    """As the answer names it."""
    complete: bool = False
    """The answer is complete, with its final counts. If not, `tokens` are a lower bound."""
    ended: bool = False
    """The answer has its last event, or is a whole document, with or without counts."""
    finished: bool = False
    """The answer says that it is finished, even if its last event is missing."""
    cache_creation_1h: int = 0
    """The part of `cache_creation` that is kept for an hour, and costs more."""
    error: str | None = None
    """The type of an error in the middle of the answer."""
    extras: Mapping[str, int] = MappingProxyType({})
    """As in `prices.Extras`. The tokens are in `tokens` too."""
    calls_tool: bool = False
    """The answer asks the agent to run a tool, so the agent has not finished."""


class StreamMeter:
    """Meters a stream of events."""

    def __init__(self, reader: UsageReader) -> None:
        self._reader = reader
        self._parser = SseParser(skim=reader.skim)

    def feed(self, chunk: bytes) -> None:
        read = self._reader.event
        for name, data in self._parser.feed(chunk):
            read(name, data)

    def result(self) -> Metered:
        return self._reader.metered()


class BodyMeter:
    """Meters an answer in one piece, which is kept, because only a complete JSON document can be parsed."""

    def __init__(self, new_reader: Callable[[], UsageReader], max_bytes: int = MAX_BODY_BYTES) -> None:
        self._new_reader = new_reader
        self._max_bytes = max_bytes
        self._body = bytearray()
        self._size = 0
        self._result: Metered | None = None

    def feed(self, chunk: bytes) -> None:
        self._result = None
        self._size += len(chunk)
        if self._size > self._max_bytes:
            self._body.clear()
        else:
            self._body += chunk

    @property
    def body(self) -> bytes:
        return bytes(self._body)

    def result(self) -> Metered:
        if self._size > self._max_bytes:
            return Metered(ended=True)
        if self._result is None:
            reader = self._new_reader()
            if self._body and (document := loads_lossy(self._body)) is not None:
                reader.body(document)
            self._result = reader.metered()
        return self._result


Meter = StreamMeter | BodyMeter
"""Reads an answer while it is relayed. `result` may be called at any time, and repeatedly."""


class UsageReader(ABC):
    """The part of a meter that depends on the API. It never raises: an invalid number is unknown."""

    skim: ClassVar[bytes] = b""
    """The start of frequent events of a stream that have no usage."""

    def __init__(self) -> None:
        self.model: str | None = None
        self.error: str | None = None
        self.ended = False
        """The answer has its final event, and with it its final counts."""
        self.stopped = False
        """The answer has its final event, with or without counts."""
        self.finished = False
        self.calls_tool = False
        self.extras: dict[str, int] = {}

    @abstractmethod
    def event(self, name: bytes, data: bytes) -> None:
        """Read the next event of a stream."""

    @abstractmethod
    def body(self, document: Any) -> None:
        """Read an answer in one piece, parsed."""

    @abstractmethod
    def tokens(self) -> Tokens: ...

    def cache_creation_1h(self) -> int:
        return 0

    def metered(self) -> Metered:
        tokens = self.tokens()
        return Metered(
            tokens=tokens,
            model=self.model,
            complete=self.ended and None not in (tokens.input, tokens.output),
            ended=self.ended or self.stopped,
            finished=self.finished or self.ended or self.stopped,
            cache_creation_1h=self.cache_creation_1h(),
            error=self.error,
            extras=self.extras,
            calls_tool=self.calls_tool,
        )

    def note_extra(self, name: str, number: int | None) -> None:
        """Note a running total. What is 0 is left out."""
        if number:
            self.extras[name] = max(number, self.extras.get(name, 0))


# For readers of usage.


def subtract(whole: int | None, *parts: int | None) -> int | None:
    """Subtract the parts, except one that is too large: some servers do not include cached tokens in the input."""
    if whole is None:
        return None
    for part in parts:
        if part is not None and part <= whole:
            whole -= part
    return whole


def token_count(value: Any) -> int | None:
    return as_count(value, _MAX_TOKENS)


def first_token_count(holder: Mapping[str, Any], *names: str) -> int | None:
    """Return the first valid number under these names."""
    return next((number for name in names if (number := token_count(holder.get(name))) is not None), None)


def model_name(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _MAX_NAME_CHARS and value.isprintable() else None


def error_word(error: Any, *names: str) -> str:
    """Return an error's code. Only a single word is accepted, because messages may contain anything."""
    values = (as_mapping(error).get(name) for name in names)
    return next((word for word in values if isinstance(word, str) and _WORD.fullmatch(word)), "unknown_error")
