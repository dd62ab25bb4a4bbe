"""What differs from run to run in the text of a request, though nothing has changed. Pure.

Each kind was seen in what real agents send (docs/cassettes.md says which).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from youbencha.gateway.cassette import days as dates
from youbencha.gateway.cassette.kinds import (
    ANY_FIRST,
    COUNTED,
    DIGIT_FIRST,
    FILE_NAME,
    LETTER_FIRST,
    MIXED,
    TOOL_ANY_FIRST,
    TOOL_DIGIT_FIRST,
    TOOL_LETTER_FIRST,
)


class Name(NamedTuple):
    """A volatile name: which one it is matters, how it is spelt does not. So each gets a number."""

    kind: str
    value: str
    loose: bool = False
    """Known for one by its surroundings alone: it is then looked for elsewhere too."""


Piece = str | Name


class Reading(NamedTuple):
    """What to look for, in whose words."""

    pattern: re.Pattern[str]
    random: re.Pattern[str]
    """A name in a directory for temporary files that nobody has chosen."""


def _either(patterns: Mapping[str, str]) -> str:
    return "(?:" + "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in patterns.items()) + ")"


def _volatile(letter: Mapping[str, str], either: Mapping[str, str], digit: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile(
        # Where a word starts, or a line does in text that is itself in JSON: all else is passed over at once.
        r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
        rf"(?:(?=[A-Za-z]){_either(letter)}|{_either(either)}|(?=\d){_either(digit)})"
    )


_CHOSEN_BY_NOBODY = re.compile(
    rf"^tmp|^youbencha-|^claude-\d+$|\d{{5}}|(?!{COUNTED}){MIXED}{{6}}|[-._](?=[A-Za-z]*[a-z][A-Z])[A-Za-z]{{6}}$"
)
TOOLS = Reading(
    _volatile(TOOL_LETTER_FIRST, TOOL_ANY_FIRST, TOOL_DIGIT_FIRST),
    re.compile(r"\d|^tmp|[-._][A-Za-z0-9_]{6,10}$"),
)


@lru_cache(maxsize=8)
def words(days: frozenset[date]) -> Reading:
    """Of whoever speaks; with these days as the day of the run."""
    letter, digit = dates.letter_first(days), dates.digit_first(days)
    return Reading(_volatile({**LETTER_FIRST, **letter}, ANY_FIRST, {**DIGIT_FIRST, **digit}), _CHOSEN_BY_NOBODY)


_HINT = re.compile(
    r"\d[^\n\d]|[^\n\d]\d|\d{7}|ID|[_-]id|Id|tasks/|tool-results/|/tmp/|/T/|Temp|====|billing|(?<![^\n])[a-f]{7}"
)
"""A line without any of these has nothing volatile in it: no words without digits, no short number alone."""
_CHILD = re.compile(rf"(?P<separator>[/\\]+)(?P<child>{FILE_NAME})")

Match = re.Match[str]


def pieces_of(text: str, start: int, end: int, reading: Reading) -> list[Piece]:
    """A stretch of the text, with a name of ours for what is volatile in it."""
    pieces: list[Piece] = []
    done = start
    for match in _matches(text, start, end, reading.pattern):
        kind = match.lastgroup
        assert kind is not None
        if match.start() > done:
            pieces.append(text[done : match.start()])
        chosen = kind == "temporary" and not reading.random.search(match.group())
        pieces += [match.group()] if chosen else _REPLACED[kind](match)
        done = match.end()
    if done < end:
        pieces.append(text[done:end])
    return pieces


def first_name(text: str, start: int, reading: Reading) -> tuple[list[Piece], int]:
    """What comes right after a directory for temporary files, and where that ends."""
    match = _CHILD.match(text, start)
    if match is None or not reading.random.search(match["child"]):
        return [], start
    return [match["separator"], Name("id", match["child"])], match.end()


def _matches(text: str, start: int, stop: int, pattern: re.Pattern[str]) -> Iterator[Match]:
    """Line by line: most lines of a prompt need no second look, and the pattern is far slower than the hint."""
    while start < stop:
        end = text.find("\n", start, stop) + 1 or stop
        if _HINT.search(text, start, end):
            yield from pattern.finditer(text, start, end)
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


_REPLACED: Mapping[str, Callable[[Match], list[Piece]]] = {
    "billing": _constant("{{billing}}"),
    "loose": _inner("loose_id", "id", loose=True),
    "loose_tag": _inner("tag_id", "id", loose=True),
    "loose_file": _inner("file_id", "id", loose=True),
    "made_up": _inner("made_up_id", "id", loose=True),
    "made_up_tag": _inner("made_up_tag_id", "id", loose=True),
    "made_up_file": _inner("made_up_file_id", "id", loose=True),
    "run": _name("id"),
    "prefixed": _name("id"),
    "uuid": _name("id"),
    "temporary": _name("id"),
    "iso_date": _constant("{{date}}"),
    "packed_date": _constant("{{date}}"),
    "slash_date": _constant("{{date}}"),
    "named_date": _constant("{{date}}"),
    "day_first": _constant("{{date}}"),
    "today_named": _constant("{{date}}"),
    "today_weekday": _constant("{{date}}"),
    "today_iso": _constant("{{date}}"),
    "today_slashes": _constant("{{date}}"),
    "today_packed": _constant("{{date}}"),
    "today_day_first": _constant("{{date}}"),
    "this_month": lambda match: [match.group()[: -len(match["month"])], "{{date}}"],
    "now": _constant("{{time}}"),
    "now_in_ms": _name("id"),
    "duration": _constant("{{duration}}"),
    "clock": _constant("{{time}}"),
    "port": _inner("port_number", "port"),
    "port_named": _inner("named_port", "port"),
    "pid": _inner("pid_number", "pid"),
    "socket": _name("pid"),
    "epoch": _constant("{{time}}"),
    "commit": _name("id"),
    "listed_commit": _name("id"),
    "hex": _name("id"),
    "counted": lambda match: [match.group().rpartition(" ")[0], " {{count}}"],
    "listing": lambda match: [match.group()[: -len(match["owner_and_size"])], " {{owner and size}}"],
    "system": _constant("{{system}}"),
    "rule": _constant("===="),
}
"""`rule`: pytest fills its lines up to the width of the terminal, so they are as long as the time in them is short."""
