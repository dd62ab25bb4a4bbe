"""What differs from run to run in the text of a request, though nothing has changed. Pure.

Each kind was seen in what real agents send (docs/cassettes.md says which). To take too much for volatile does little
harm: two requests are then taken for the same that differ in nothing but an id or a date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple


class Name(NamedTuple):
    """A volatile name: which one it is matters, how it is spelt does not. So each gets a number."""

    kind: str
    value: str
    loose: bool = False
    """Known for one by its surroundings alone: it is then looked for elsewhere too."""


Piece = str | Name

_END = r"(?![A-Za-z0-9])"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
_ZONE = rf"(?: ?(?:Z|UTC|GMT|[+-]\d{{2}}:?\d{{2}}){_END})"
_ID_PREFIX = (
    "toolu|tooluse|tool|msg|call|resp|fc|fco|rs|ctc|ctco|cmpl|chatcmpl|req|ses|prt|item|run|thread|srvtoolu|gen|user"
)
_LINE = r"(?:(?<![^\n])|(?<=\\n))"
"""Where a line starts, also in text that is itself in JSON."""
_LOOSE = "[A-Za-z0-9]{6,20}"
_TEMPORARY = r"(?:(?<=/tmp/)|(?<=/shm/)|(?<=/T/)|(?<=\\Temp\\))"
_FILE_NAME = r"[^/\s\"'`<>|:;,()\[\]{}\\*?$]+"

_DIGIT_FIRST: Mapping[str, str] = {
    "run": rf"\d{{4}}-\d\d-\d\d-\d{{6}}-[0-9a-f]{{6}}{_END}",
    "iso_date": rf"\d{{4}}-\d\d-\d\d(?:[T ]{_CLOCK}{_ZONE}?)?(?!\d)",
    "packed_date": rf"20\d{{6}}[T_-]?\d{{4,6}}Z?{_END}",
    "slash_date": r"\d{1,4}/\d{1,2}/\d{2,4}(?![\w/])",
    "day_first": rf"\d{{1,2}} {_MONTH},? \d{{4}}(?: {_CLOCK})?{_ZONE}?",
    "duration": rf"(?:\d+[hm] ?)*\d+(?:\.\d+)? ?(?:ms|[µu]s|ns|s|secs?|seconds?|milliseconds?|minutes?){_END}",
    "clock": rf"(?<![.:/-]){_CLOCK}(?: ?[AP]M)?(?![\w:])",
    "socket": r"\d{2,7}(?=\.(?:sock|pid)\b)",
    "epoch": rf"1[5-9]\d{{8}}(?:\.\d+)?{_END}",
}
_LETTER_FIRST: Mapping[str, str] = {
    "billing": r"x-anthropic-billing-header:[^\n]*",
    "loose": r"(?:(?:with|Chunk|agent|shell|task|session) ID|agentId|(?:agent|bash|shell|task|session)_id)"
    rf"\\?[\"']?[:=]? ?\\?[\"']?(?P<loose_id>{_LOOSE}){_END}",
    "loose_tag": rf"(?:task|agent|shell|bash)-?id>(?P<tag_id>{_LOOSE})(?=<)",
    "loose_file": rf"(?:tasks|tool-results)/(?P<file_id>{_LOOSE})(?=\.[a-z]+)",
    "prefixed": rf"(?:{_ID_PREFIX})[_-](?=[A-Za-z_-]{{0,40}}\d)[A-Za-z0-9_-]{{8,}}",
    "named_date": rf"(?:{_WEEKDAY},? +)?{_MONTH} +\d{{1,2}}(?:,? +(?:{_CLOCK}|\d{{4}}))+"
    rf"(?: [A-Z]{{3,4}} \d{{4}})?{_ZONE}?",
    "pid": r"(?:(?:PID|pid|PGID|pgid)s?|[Pp]rocess)[ =:]{1,2}(?P<pid_number>\d{2,7})(?!\d)",
    "counted": rf"(?:Original token count: \d+|(?:{_LINE}|(?<=: ))total [\d.]+[KMG]?(?=\n|$))",
    "system": r"(?:OS Version: [^\n]+|(?:Linux|Darwin) \d+\.\d+\.\d+[-\w.]*)",
    "port_named": r"(?:localhost|host\.docker\.internal):(?P<named_port>\d{2,5})(?!\d)",
}
_ANY_FIRST: Mapping[str, str] = {
    "temporary": _TEMPORARY + _FILE_NAME,
    "uuid": rf"[0-9a-fA-F]{{8}}-(?:[0-9a-fA-F]{{4}}-){{3}}[0-9a-fA-F]{{12}}{_END}",
    "commit": r"(?:(?<=commit )[0-9a-f]{7,40}(?=[\s,.)])|(?<=\n)[0-9a-f]{7,11}(?= \S))",
    "hex": rf"(?:[0-9a-fA-F]{{12,}}|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{7,11}}){_END}",
    "port": r"(?:127\.0\.0\.1|0\.0\.0\.0|\[::1\]):(?P<port_number>\d{2,5})(?!\d)",
    "rule": r"={4,}",
    "listing": rf"{_LINE}[-bcdlps][-rwxsStT]{{9}}[.+@]?(?P<owner_and_size> +\d+ +\S+ +\S+ +\d[\d.,]*[KMG]?)(?= )",
}


def _either(patterns: Mapping[str, str]) -> str:
    return "(?:" + "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in patterns.items()) + ")"


_VOLATILE = re.compile(
    # Where a word starts, or a line does in text that is itself in JSON: all else is passed over at once.
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
    rf"(?:(?=[A-Za-z]){_either(_LETTER_FIRST)}|{_either(_ANY_FIRST)}|(?=\d){_either(_DIGIT_FIRST)})"
)
_HINT = re.compile(r"\d[^\n\d]|[^\n\d]\d|\d{7}|ID|[_-]id|Id|/tmp/|/T/|Temp|====|billing")
"""A line without any of these has nothing volatile in it: no words without digits, no short number alone."""
_RANDOM = re.compile(r"\d|^tmp|[-._][A-Za-z0-9_]{6,10}$")
"""A name in a directory for temporary files that nobody has chosen."""

_CHILD = re.compile(rf"(?P<separator>[/\\]+)(?P<child>{_FILE_NAME})")

Match = re.Match[str]


def pieces_of(text: str, start: int, end: int) -> list[Piece]:
    """A stretch of the text, with a name of ours for what is volatile in it."""
    pieces: list[Piece] = []
    done = start
    for match in _matches(text, start, end):
        kind = match.lastgroup
        assert kind is not None
        if match.start() > done:
            pieces.append(text[done : match.start()])
        pieces += _REPLACED[kind](match)
        done = match.end()
    if done < end:
        pieces.append(text[done:end])
    return pieces


def first_name(text: str, start: int) -> tuple[list[Piece], int]:
    """What comes right after a directory for temporary files, and where that ends."""
    match = _CHILD.match(text, start)
    if match is None or not _RANDOM.search(match["child"]):
        return [], start
    return [match["separator"], Name("id", match["child"])], match.end()


def _matches(text: str, start: int, stop: int) -> Iterator[Match]:
    """Line by line: most lines of a prompt need no second look, and the pattern is far slower than the hint."""
    while start < stop:
        end = text.find("\n", start, stop) + 1 or stop
        if _HINT.search(text, start, end):
            yield from _VOLATILE.finditer(text, start, end)
        start = end


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
    "loose": _inner("loose_id", "id", loose=True),
    "loose_tag": _inner("tag_id", "id", loose=True),
    "loose_file": _inner("file_id", "id", loose=True),
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
    "port_named": _inner("named_port", "port"),
    "pid": _inner("pid_number", "pid"),
    "socket": _name("pid"),
    "epoch": _constant("{{time}}"),
    "commit": _name("id"),
    "hex": _name("id"),
    "counted": lambda match: [match.group().rpartition(" ")[0], " {{count}}"],
    "listing": lambda match: [match.group()[: -len(match["owner_and_size"])], " {{owner and size}}"],
    "system": _constant("{{system}}"),
    "rule": _constant("===="),
}
"""`rule`: pytest fills its lines up to the width of the terminal, so they are as long as the time in them is short."""
