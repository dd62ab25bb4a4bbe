"""Turn a request into its canonical form, the same in every run, and into a fingerprint. No I/O.

Paths and volatile text become placeholders, secrets are masked, and what does not matter is removed. Any change here
changes fingerprints, so that recorded cassettes no longer match.
"""

from __future__ import annotations

import json
import os
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

from youbencha.gateway.cassette.volatile import (
    TOOL_PATTERNS,
    Name,
    Patterns,
    Piece,
    first_name,
    prompt_patterns,
    split_pieces,
)
from youbencha.gateway.wires import WIRES, WireName
from youbencha.json_lines import canonical
from youbencha.process import Redactor


class ModelRequest(NamedTuple):
    """The parts of a request that its answer may depend on."""

    method: str
    path: str
    """The API's path, without a query."""
    wire: WireName | None
    headers: Mapping[str, str]
    """The headers, by lower-case names."""
    body: object
    """Parsed; None if there is none, or if it is not JSON."""
    raw: bytes = b""
    """Only used if the body is not JSON."""


class Places(NamedTuple):
    """Directories whose names differ from run to run: a cassette has a placeholder for each."""

    named: tuple[tuple[str, Path], ...] = ()
    """For example ("workspace", …/src-modified), ("home", …). The longest path is replaced first."""


NO_PLACES = Places()


Forms = Mapping[str, str]
"""A placeholder's name, and the text that it replaces: `workspace`, `workspace:dashes` …"""

_PATH_STARTS = r"(?:(?<![\w.~/\\}-])|(?<=\\[nrt])|(?<=://)|(?<=:///)|(?<=[\s\"']-[A-Za-z]))"
"""Not after a character of a path; at the start of a line in JSON; in a URL; after an option: `-I/usr/include`."""

_WHOLE_PATH = re.compile(r"[/\\]|[A-Za-z]:")
_MIN_CHARS = 2

_MIN_DASHED_CHARS = 12
"""`-tmp` would be found in many words."""


def path_forms(places: Places) -> Forms:
    """The texts of all directories, the longest first, each text once."""
    names: dict[str, str] = {}
    for name, path in places.named:
        for suffix, text in _spellings(path).items():
            names.setdefault(text, f"{name}:{suffix}" if suffix else name)
    return {name: text for text, name in sorted(names.items(), key=lambda item: (-len(item[0]), item[1]))}


def placeholder_texts(places: Places) -> Forms:
    """The text for every placeholder, even if two of them have the same text in this run."""
    return {
        f"{name}:{suffix}" if suffix else name: text
        for name, path in reversed(places.named)
        for suffix, text in _spellings(path).items()
    }


def path_pattern(text: str) -> str:
    """Return a pattern that does not match inside a longer name: not in `/home/me/tmp` or `/tmpfs` for `/tmp`."""
    before = _PATH_STARTS if _WHOLE_PATH.match(text) else r"(?<![A-Za-z0-9])"
    return f"{before}{re.escape(text)}(?![A-Za-z0-9_])"


def in_json(text: str) -> str:
    """Escape a text as in JSON, without the quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _spellings(path: Path) -> dict[str, str]:
    """Return the forms of a path: unchanged; with links resolved; with slashes, as many tools write it on Windows; in
    JSON; and with a dash for all but letters and digits, as in Claude Code's project directories."""
    plain = str(path)
    if len(plain) < _MIN_CHARS:
        return {}
    real = os.path.realpath(plain)
    dashed = [re.sub(r"[^A-Za-z0-9]", "-", text) for text in (plain, real)]
    texts = {"": plain, "real": real, "slashes": plain.replace("\\", "/")}
    texts |= {"json": in_json(plain), "ascii": json.dumps(plain)[1:-1], "json-json": in_json(in_json(plain))}
    if len(plain) >= _MIN_DASHED_CHARS:
        texts |= {"dashes": dashed[0], "real-dashes": dashed[1]}
    return texts


SURROGATES = "surrogatepass"
"""JSON may contain a lone surrogate, which UTF-8 cannot."""


def masked(text: str, redactor: Redactor) -> str:
    return masked_bytes(text.encode("utf-8", SURROGATES), redactor).decode("utf-8", SURROGATES)


def masked_bytes(data: bytes, redactor: Redactor) -> bytes:
    stream = redactor.stream()
    return stream.feed(data) + stream.finish()


_DROPPED = frozenset({"metadata", "user", "prompt_cache_key", "safety_identifier", "client_metadata"})
"""Keys of the body that identify the client."""

_NEVER = frozenset({"cache_control"})
"""This affects the price, not the answer, and agents move it from message to message."""

MESSAGES = tuple(dict.fromkeys(wire.conversation for wire in WIRES.values()))
"""Keys of the conversation. It comes last, so that earlier placeholders keep their numbers when a message is added."""

_SEALED = frozenset({"signature", "thoughtSignature", "thought_signature", "encrypted_content"})
_SEAL = re.compile(r"\S{16,}\Z")

_TEMPORARY = frozenset({"{{tmp}}", "{{temp}}"})
"""Directories in which names are mostly random."""

_NO_DAYS: frozenset[date] = frozenset()
_MAX_CACHED_CHARS = 8_000_000

_UNBROKEN_CHARS = 4096
"""A text that begins with this many characters without a space is an image or the like, without volatile text."""


class CanonicalRequest(NamedTuple):
    body: object
    names: Mapping[str, str]
    """The text of each numbered placeholder in this request: `id-1`, `port-2` …"""
    fingerprint: str


class RequestMatcher:
    """Makes the requests of one session canonical. Results are cached by text, because texts repeat."""

    def __init__(self, forms: Forms, redactor: Redactor) -> None:
        self._redactor = redactor
        self._paths = {text: "{{" + name.partition(":")[0] + "}}" for name, text in forms.items()}
        self._path_pattern = re.compile("|".join(map(path_pattern, self._paths))) if self._paths else None
        self._known: OrderedDict[tuple[str, Origin, frozenset[date]], tuple[Piece, ...]] = OrderedDict()
        self._size = 0

    def canonical(self, request: ModelRequest, days: frozenset[date]) -> CanonicalRequest:
        """Return the canonical form. `days` are the dates that may be today's in a text."""
        return _Canonicalisation(self, days).canonical(request)

    def pieces(self, text: str, origin: Origin, days: frozenset[date]) -> tuple[Piece, ...]:
        known = text, origin, days
        if (cached := self._known.get(known)) is not None:
            return cached
        pieces = self._known[known] = tuple(self._split(text, origin, days))
        self._size += len(text)
        while self._size > _MAX_CACHED_CHARS:
            self._size -= len(self._known.popitem(last=False)[0][0])
        return pieces

    def _split(self, text: str, origin: Origin, days: frozenset[date]) -> Iterator[Piece]:
        text = masked(text, self._redactor)
        if len(text) > _UNBROKEN_CHARS and not any(space in text[:_UNBROKEN_CHARS] for space in " \n"):
            yield text
            return
        patterns: Mapping[Origin, Patterns] = {
            "tool": TOOL_PATTERNS,
            "model": prompt_patterns(_NO_DAYS),
            "prompt": prompt_patterns(days),
        }
        for start, end, section_origin in sections(text, origin):
            yield from self._section(text, start, end, patterns[section_origin])

    def _section(self, text: str, done: int, end: int, patterns: Patterns) -> Iterator[Piece]:
        for match in self._path_pattern.finditer(text, done, end) if self._path_pattern else ():
            yield from split_pieces(text, done, match.start(), patterns)
            placeholder, done = self._paths[match.group()], match.end()
            yield placeholder
            if placeholder in _TEMPORARY:
                names, done = first_name(text, done, patterns)
                yield from names
        yield from split_pieces(text, done, end, patterns)


class _Canonicalisation:
    """Makes one request canonical."""

    def __init__(self, matcher: RequestMatcher, days: frozenset[date]) -> None:
        self._matcher, self._days = matcher, days

    def canonical(self, request: ModelRequest) -> CanonicalRequest:
        numbering = _Numbering({name.value for name in self._loose(request.body, "prompt")})
        body = self._value(_without_sender(request.body), numbering, "prompt")
        if body is None and request.raw:
            body = {"raw": sha256(request.raw).hexdigest()}
        fingerprint = sha256(canonical([request.method, request.path, body])).hexdigest()
        return CanonicalRequest(body, numbering.names, fingerprint)

    def _value(self, value: object, numbering: _Numbering, origin: Origin) -> object:
        if isinstance(value, str):
            return numbering.text(self._pieces(value, origin))
        if isinstance(value, list):
            return [self._value(item, numbering, origin) for item in value]
        if isinstance(value, dict):
            origin = message_origin(value, origin)
            return {
                numbering.text(self._pieces(key, origin)): _sealed(key, item)
                or self._value(_plain(key, item), numbering, field_origin(key, origin))
                for key, item in sorted(value.items(), key=messages_last)
                if key not in _NEVER
            }
        return value

    def _loose(self, value: object, origin: Origin) -> Iterator[Name]:
        if isinstance(value, str):
            yield from (piece for piece in self._pieces(value, origin) if isinstance(piece, Name) and piece.loose)
        elif isinstance(value, list):
            for item in value:
                yield from self._loose(item, origin)
        elif isinstance(value, dict):
            origin = message_origin(value, origin)
            for key, item in value.items():
                yield from self._loose(item, field_origin(key, origin))

    def _pieces(self, text: str, origin: Origin) -> tuple[Piece, ...]:
        return self._matcher.pieces(text, origin, self._days)


class _Numbering:
    """Numbers the volatile values of a request: its first id is {{id-1}} wherever it occurs."""

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


def _without_sender(body: object) -> object:
    return {key: value for key, value in body.items() if key not in _DROPPED} if isinstance(body, dict) else body


def messages_last(item: tuple[str, object]) -> tuple[bool, str]:
    return item[0] in MESSAGES, item[0]


def _sealed(key: str, value: object) -> str | None:
    """Replace what only the provider can read, which differs each time."""
    return "{{sealed}}" if key in _SEALED and isinstance(value, str) and _SEAL.match(value) else None


def _plain(key: str, value: Any) -> object:
    """Treat a list of one text as the text itself, because agents switch between the two."""
    if key != "content" or not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], dict):
        return value
    block = {name: item for name, item in value[0].items() if name not in _NEVER}
    alone = block.get("type") == "text" and set(block) == {"type", "text"} and isinstance(block["text"], str)
    return block["text"] if alone else value


def number_volatile(text: str, days: frozenset[date]) -> str:
    """Return a text with placeholders for its volatile parts."""
    return _Numbering(set()).text(tuple(split_pieces(text, 0, len(text), prompt_patterns(days))))


Origin = Literal["tool", "model", "prompt"]
_OUTPUT_KEYS = frozenset({"functionResponse", "function_response", "codeExecutionResult"})

_ID_KEYS = frozenset({"id", "tool_use_id", "tool_call_id", "call_id", "item_id"})
"""Text from a program, in any text."""

_TOOL_ROLES = frozenset({"tool", "function"})
_MODEL_ROLES = frozenset({"assistant", "model"})
_TAGS = "env|task-notification|bash-stdout|bash-stderr|local-command-stdout"

_BLOCK = re.compile(
    # A reminder with CLAUDE.md contains instructions.
    r"<system-reminder>(?!(?:(?!</system-reminder>).)*# claudeMd\b).*?</system-reminder>"
    rf"|<(?P<tag>{_TAGS})>.*?</(?P=tag)>"
    r"|(?:\A|(?<=\n))gitStatus: .*?(?:\nRecent commits:\n(?:[^\n]+\n?)*|\Z)"
    r"|(?:\A|(?<=\n))Recent commits:\n(?:[^\n]+\n?)*"
    r"|(?:\A|(?<=\n))And got this output:\n.*\Z"  # Aider has no tools, and quotes the output in a prompt
    r"|\ACommand: [^\n]*\nOutput: .*\Z",  # Claude Code asks a small model which files a command has read
    re.S,
)

_MARK = re.compile(
    r"<system-reminder>|<env>|<task-|<bash-|<local-|Recent commits:|gitStatus:|got this output:|\nOutput: "
)


def message_origin(value: Mapping[str, Any], around: Origin) -> Origin:
    """Return the origin of the text in an object of a request: a message, a content block, an item."""
    if around == "tool":
        return around
    kind, role = str(value.get("type", "")), value.get("role")
    if kind.endswith(("tool_result", "_call_output")) or role in _TOOL_ROLES:
        return "tool"
    return "model" if role in _MODEL_ROLES or kind.endswith("_call") or kind == "reasoning" else around


def field_origin(key: str, around: Origin) -> Origin:
    return "tool" if key in _OUTPUT_KEYS or key in _ID_KEYS else around


def sections(text: str, origin: Origin) -> Iterator[tuple[int, int, Origin]]:
    """Split a text by origin. What an agent adds to a prompt mostly has markers, and counts as output of tools."""
    done = 0
    if origin == "prompt" and _MARK.search(text):
        for match in _BLOCK.finditer(text):
            yield done, match.start(), origin
            yield match.start(), match.end(), "tool"
            done = match.end()
    yield done, len(text), origin
