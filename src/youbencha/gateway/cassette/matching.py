"""A request as it would be in any run: what is volatile in it has a name, and what does not matter is gone. Pure."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from youbencha.gateway.api import WireName
from youbencha.gateway.cassette.placeholders import Forms, masked, pattern_of
from youbencha.gateway.cassette.volatile import (
    TOOL_PATTERNS,
    Name,
    Patterns,
    Piece,
    first_name,
    pieces_of,
    prompt_patterns,
)
from youbencha.json_lines import canonical
from youbencha.process import Redactor

Origin = Literal["tool", "model", "told"]

_OUTPUT_KEYS = frozenset({"functionResponse", "function_response", "codeExecutionResult"})

_ID_KEYS = frozenset({"id", "tool_use_id", "tool_call_id", "call_id", "item_id"})
"""Made up by a program, in whosever words they stand."""

_TOOL_ROLES = frozenset({"tool", "function"})

_MODEL_ROLES = frozenset({"assistant", "model"})

_TAGS = "env|task-notification|bash-stdout|bash-stderr|local-command-stdout"

_BLOCK = re.compile(
    # A reminder with CLAUDE.md in it holds what people want.
    r"<system-reminder>(?!(?:(?!</system-reminder>).)*# claudeMd\b).*?</system-reminder>"
    rf"|<(?P<tag>{_TAGS})>.*?</(?P=tag)>"
    r"|(?:\A|(?<=\n))gitStatus: .*?(?:\nRecent commits:\n(?:[^\n]+\n?)*|\Z)"
    r"|(?:\A|(?<=\n))Recent commits:\n(?:[^\n]+\n?)*"
    r"|(?:\A|(?<=\n))And got this output:\n.*\Z"  # Aider: it has no tools, and tells it as a person would
    r"|\ACommand: [^\n]*\nOutput: .*\Z",  # Claude Code asks a small model which files a command has read
    re.S,
)

_MARK = re.compile(
    r"<system-reminder>|<env>|<task-|<bash-|<local-|Recent commits:|gitStatus:|got this output:|\nOutput: "
)


def origin_of(value: Mapping[str, Any], around: Origin) -> Origin:
    """Of an object in a request: a message, a block of one, an item."""
    if around == "tool":
        return around
    kind, role = str(value.get("type", "")), value.get("role")
    if kind.endswith(("tool_result", "_call_output")) or role in _TOOL_ROLES:
        return "tool"
    return "model" if role in _MODEL_ROLES or kind.endswith("_call") or kind == "reasoning" else around


def origin_at(key: str, around: Origin) -> Origin:
    return "tool" if key in _OUTPUT_KEYS or key in _ID_KEYS else around


def sections(text: str, origin: Origin) -> Iterator[tuple[int, int, Origin]]:
    """A text from start to end. What an agent puts among a person's words, it mostly marks: that is tools' output."""
    done = 0
    if origin == "told" and _MARK.search(text):
        for match in _BLOCK.finditer(text):
            yield done, match.start(), origin
            yield match.start(), match.end(), "tool"
            done = match.end()
    yield done, len(text), origin


# What goes into a cassette and comes out of it, as plain data.


class ModelRequest(NamedTuple):
    """A request, as far as an answer may depend on it."""

    method: str
    path: str
    """As the API itself has it, without a query."""
    wire: WireName | None
    headers: Mapping[str, str]
    """By lower-case names."""
    body: object
    """Parsed JSON; None if there was none, or if it was none."""
    raw: bytes = b""
    """Only looked at where it is no JSON."""


class ReplayedAnswer(NamedTuple):
    """A recorded answer, made to fit the run that asks now."""

    status: int
    headers: Mapping[str, str]
    chunks: Sequence[tuple[float, bytes]]
    """How many milliseconds to wait after the chunk before, and what to send then."""


class Mismatch(NamedTuple):
    """Why nothing that was recorded answers a request."""

    summary: str
    """In one line."""
    text: str
    """The summary, and a diff to the nearest request that was recorded."""


_DROPPED = frozenset({"metadata", "user", "prompt_cache_key", "safety_identifier", "client_metadata"})
"""Keys of the whole body that say who asks, not what."""

_NEVER = frozenset({"cache_control"})
"""Says what to pay for, not what to answer; and agents move it from message to message as they go on."""

_TALK = ("messages", "input", "contents")
"""Comes last, so that what was said before keeps its numbers when something is added."""

_SEALED = frozenset({"signature", "thoughtSignature", "thought_signature", "encrypted_content"})

_SEAL = re.compile(r"\S{16,}\Z")

_TEMPORARY = frozenset({"{{tmp}}", "{{temp}}"})
"""Places in which names are mostly made up."""

_NO_DAYS: frozenset[date] = frozenset()

_CACHED_CHARACTERS = 8_000_000

_UNBROKEN = 4096
"""A text that begins with so many characters and no space is a picture or the like: nothing is volatile in it."""


class CanonicalRequest(NamedTuple):
    body: object
    names: Mapping[str, str]
    """What each numbered placeholder stands for here: `id-1`, `port-2` …"""
    fingerprint: str


class RequestMatcher:
    """Of one session: it knows its places and its secrets, and remembers the texts that come again and again."""

    def __init__(self, forms: Forms, redactor: Redactor) -> None:
        self._redactor = redactor
        self._places = {text: "{{" + name.partition(":")[0] + "}}" for name, text in forms.items()}
        self._place = re.compile("|".join(map(pattern_of, self._places))) if self._places else None
        self._known: OrderedDict[tuple[str, Origin, frozenset[date]], tuple[Piece, ...]] = OrderedDict()
        self._size = 0

    def normal(self, asking: ModelRequest, days: frozenset[date]) -> CanonicalRequest:
        """`days`: those that a text may call today."""
        return _Normalising(self, days).normal(asking)

    def pieces(self, text: str, origin: Origin, days: frozenset[date]) -> tuple[Piece, ...]:
        known = text, origin, days
        found = self._known.get(known)
        if found is not None:
            return found
        pieces = tuple(self._split(text, origin, days))
        self._known[known] = pieces
        self._size += len(text)
        while self._size > _CACHED_CHARACTERS:
            self._size -= len(self._known.popitem(last=False)[0][0])
        return pieces

    def _split(self, text: str, origin: Origin, days: frozenset[date]) -> Iterator[Piece]:
        text = masked(text, self._redactor)
        if len(text) > _UNBROKEN and not any(space in text[:_UNBROKEN] for space in " \n"):
            yield text
            return
        readings: Mapping[Origin, Patterns] = {
            "tool": TOOL_PATTERNS,
            "model": prompt_patterns(_NO_DAYS),
            "told": prompt_patterns(days),
        }
        for start, end, whose in sections(text, origin):
            yield from self._stretch(text, start, end, readings[whose])

    def _stretch(self, text: str, done: int, end: int, reading: Patterns) -> Iterator[Piece]:
        for match in self._place.finditer(text, done, end) if self._place else ():
            yield from pieces_of(text, done, match.start(), reading)
            place, done = self._places[match.group()], match.end()
            yield place
            if place in _TEMPORARY:
                names, done = first_name(text, done, reading)
                yield from names
        yield from pieces_of(text, done, end, reading)


class _Normalising:
    """Of one request."""

    def __init__(self, normaliser: RequestMatcher, days: frozenset[date]) -> None:
        self._normaliser, self._days = normaliser, days

    def normal(self, asking: ModelRequest) -> CanonicalRequest:
        numbering = _Numbering({name.value for name in self._loose(asking.body, "told")})
        body = self._value(_without(asking.body), numbering, "told")
        if body is None and asking.raw:
            body = {"raw": sha256(asking.raw).hexdigest()}
        told = canonical([asking.method, asking.path, body])
        return CanonicalRequest(body, numbering.names, sha256(told).hexdigest())

    def _value(self, value: object, numbering: _Numbering, origin: Origin) -> object:
        if isinstance(value, str):
            return numbering.text(self._pieces(value, origin))
        if isinstance(value, list):
            return [self._value(each, numbering, origin) for each in value]
        if isinstance(value, dict):
            origin = origin_of(value, origin)
            return {
                numbering.text(self._pieces(key, origin)): _sealed(key, each)
                or self._value(_plain(key, each), numbering, origin_at(key, origin))
                for key, each in sorted(value.items(), key=_talk_last)
                if key not in _NEVER
            }
        return value

    def _loose(self, value: object, origin: Origin) -> Iterator[Name]:
        if isinstance(value, str):
            yield from (piece for piece in self._pieces(value, origin) if isinstance(piece, Name) and piece.loose)
        elif isinstance(value, list):
            for each in value:
                yield from self._loose(each, origin)
        elif isinstance(value, dict):
            origin = origin_of(value, origin)
            for key, each in value.items():
                yield from self._loose(each, origin_at(key, origin))

    def _pieces(self, text: str, origin: Origin) -> tuple[Piece, ...]:
        return self._normaliser.pieces(text, origin, self._days)


class _Numbering:
    """The first id of a request is {{id-1}}, wherever it comes again: so a result keeps its call."""

    def __init__(self, loose: set[str]) -> None:
        self.names: dict[str, str] = {}
        self._placeholders: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._words = loose
        words = "|".join(map(re.escape, sorted(loose)))
        self._loose = re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])")

    def text(self, pieces: tuple[Piece, ...]) -> str:
        return "".join([self._literal(piece) if isinstance(piece, str) else self._number(*piece) for piece in pieces])

    def _literal(self, text: str) -> str:
        if not any(word in text for word in self._words):  # far faster than the pattern
            return text
        return self._loose.sub(lambda match: self._number("id", match.group()), text)

    def _number(self, kind: str, value: str, loose: bool = False) -> str:
        known = self._placeholders.get((kind, value))
        if known is None:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            name = f"{kind}-{self._counts[kind]}"
            self.names[name] = value
            known = self._placeholders[kind, value] = "{{" + name + "}}"
        return known


def _without(body: object) -> object:
    return {key: value for key, value in body.items() if key not in _DROPPED} if isinstance(body, dict) else body


def _talk_last(item: tuple[str, object]) -> tuple[bool, str]:
    return item[0] in _TALK, item[0]


def _sealed(key: str, value: object) -> str | None:
    """What only the provider can read is other each time."""
    return "{{sealed}}" if key in _SEALED and isinstance(value, str) and _SEAL.match(value) else None


def _plain(key: str, value: Any) -> object:
    """A text alone says the same as a list of one text, and agents change from one to the other as they go on."""
    if key != "content" or not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], dict):
        return value
    block = {name: each for name, each in value[0].items() if name not in _NEVER}
    alone = block.get("type") == "text" and set(block) == {"type", "text"} and isinstance(block["text"], str)
    return block["text"] if alone else value


def numbered(text: str, days: frozenset[date]) -> str:
    """A text by itself, with a name of ours for what is volatile in it."""
    return _Numbering(set()).text(tuple(pieces_of(text, 0, len(text), prompt_patterns(days))))
