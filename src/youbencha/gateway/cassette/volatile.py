"""What differs from run to run in the text of a request, though nothing has changed. Pure.

Each kind was seen in what real agents send (docs/cassettes.md says which). To take too much for volatile does little
harm: two requests are then taken for the same that differ in nothing but an id or a date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Name(NamedTuple):
    """A volatile name: which one it is matters, how it is spelt does not. So each gets a number."""

    kind: str
    value: str
    loose: bool = False
    """Known for one by its surroundings alone: it is then looked for elsewhere too."""


Piece = str | Name

_START, _END = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})(?![A-Za-z0-9]))"
_ID_PREFIX = (
    "toolu|tooluse|tool|msg|call|resp|fc|fco|rs|ctc|ctco|cmpl|chatcmpl|req|ses|prt|item|run|thread|srvtoolu|gen|user"
)
_TEMPORARY = r"(?:(?<=/tmp/)|(?<=/shm/)|(?<=/T/)|(?<=\\Temp\\))"

_PATTERNS: Mapping[str, str] = {
    "billing": r"x-anthropic-billing-header:[^\n]*",
    "loose": r"(?:(?:with|Chunk|agent|shell|task|session) ID|agentId|(?:agent|bash|shell|task|session)_id)"
    r"\\?[\"']?[:=]? ?\\?[\"']?(?P<id>[A-Za-z0-9]{6,20})" + _END,
    "loose_tag": r"<(?:task|agent|shell|bash)-?id>(?P<tag>[A-Za-z0-9]{6,20})(?=<)",
    "loose_file": r"(?<=/)(?:tasks|tool-results)/(?P<file>[A-Za-z0-9]{6,20})(?=\.[a-z]+)",
    "run": rf"\d{{4}}-\d\d-\d\d-\d{{6}}-[0-9a-f]{{6}}{_END}",
    "prefixed": rf"{_START}(?:{_ID_PREFIX})[_-](?=[A-Za-z_-]{{0,40}}\d)[A-Za-z0-9_-]{{8,}}",
    "uuid": rf"{_START}[0-9a-fA-F]{{8}}-(?:[0-9a-fA-F]{{4}}-){{3}}[0-9a-fA-F]{{12}}{_END}",
    "temporary": _TEMPORARY + r"[^/\s\"'`<>|:;,()\[\]{}\\*?$]+",
    "iso_date": rf"(?<![\w.])\d{{4}}-\d\d-\d\d(?:[T ]{_CLOCK}{_ZONE}?)?(?!\d)",
    "packed_date": rf"{_START}20\d{{6}}[T_-]?\d{{4,6}}Z?{_END}",
    "slash_date": rf"(?<![\w/.])\d{{1,4}}/\d{{1,2}}/\d{{2,4}}(?![\w/])",
    "named_date": rf"{_START}(?:{_WEEKDAY},? +)?{_MONTH} +\d{{1,2}}(?:,? +(?:{_CLOCK}|\d{{4}}))+"
    rf"(?: [A-Z]{{3,4}} \d{{4}})?{_ZONE}?",
    "day_first": rf"{_START}(?:{_WEEKDAY},? +)?\d{{1,2}} {_MONTH},? \d{{4}}(?: {_CLOCK})?{_ZONE}?",
    "duration": r"(?<![\w.])(?:\d+[hm] ?)*\d+(?:\.\d+)? ?(?:ms|[µu]s|ns|s|secs?|seconds?|milliseconds?|minutes?)"
    + _END,
    "clock": rf"(?<![\w.:/-]){_CLOCK}(?: ?[AP]M)?(?![\w:])",
    "port": r"(?:127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1\]|host\.docker\.internal):(?P<port_number>\d{2,5})(?!\d)",
    "pid": r"(?:\b[Pp](?:ID|id|GID)s?|\b[Pp]rocess)[ =:]{1,2}(?P<pid_number>\d{2,7})(?!\d)",
    "epoch": rf"(?<![\w.])1[5-9]\d{{8}}(?:\.\d+)?{_END}",
    "hex": rf"{_START}(?:[0-9a-fA-F]{{12,}}|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{7,11}}){_END}",
    "counted": r"Original token count: \d+",
    "rule": r"={4,}",
}
_VOLATILE = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()))
_RANDOM = re.compile(r"\d|^tmp|[-._][A-Za-z0-9_]{6,10}$")
"""A name in a directory for temporary files that nobody has chosen."""

Match = re.Match[str]


def pieces_of(text: str) -> list[Piece]:
    """The text, with a name of ours for what is volatile in it."""
    pieces: list[Piece] = []
    done = 0
    for match in _VOLATILE.finditer(text):
        kind = match.lastgroup
        assert kind is not None
        start = match.start()
        if start > done:
            pieces.append(text[done:start])
        pieces += _REPLACED[kind](match)
        done = match.end()
    if done < len(text):
        pieces.append(text[done:])
    return pieces


def _constant(text: str) -> Callable[[Match], list[Piece]]:
    return lambda match: [text]


def _name(kind: str) -> Callable[[Match], list[Piece]]:
    return lambda match: [Name(kind, match.group())]


def _inner(group: str, kind: str, *, loose: bool = False) -> Callable[[Match], list[Piece]]:
    """Only a part of what was found is volatile; the rest are its surroundings."""

    def pieces(match: Match) -> list[Piece]:
        before = match.string[match.start() : match.start(group)]
        after = match.string[match.end(group) : match.end()]
        found: list[Piece] = [before, Name(kind, match[group], loose)]
        return [*found, after] if after else found

    return pieces


def _temporary(match: Match) -> list[Piece]:
    return [Name("id", match.group())] if _RANDOM.search(match.group()) else [match.group()]


_REPLACED: Mapping[str, Callable[[Match], list[Piece]]] = {
    "billing": _constant("{{billing}}"),
    "loose": _inner("id", "id", loose=True),
    "loose_tag": _inner("tag", "id", loose=True),
    "loose_file": _inner("file", "id", loose=True),
    "run": _name("id"),
    "prefixed": _name("id"),
    "uuid": _name("id"),
    "temporary": _temporary,
    "iso_date": _constant("{{date}}"),
    "packed_date": _constant("{{date}}"),
    "slash_date": _constant("{{date}}"),
    "named_date": _constant("{{date}}"),
    "day_first": _constant("{{date}}"),
    "duration": _constant("{{duration}}"),
    "clock": _constant("{{time}}"),
    "port": _inner("port_number", "port"),
    "pid": _inner("pid_number", "pid"),
    "epoch": _constant("{{time}}"),
    "hex": _name("id"),
    "counted": _constant("Original token count: {{count}}"),
    "rule": _constant("===="),
}
"""`rule`: pytest fills its lines up to the width of the terminal, so they are as long as the time in them is short."""
