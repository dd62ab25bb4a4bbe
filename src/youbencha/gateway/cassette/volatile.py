"""Find what differs from run to run in the text of a request: ids, dates, durations, ports. No I/O.

Each kind was seen in requests of real agents (see docs/cassettes.md). In a tool's output, it does little harm to treat
too much as volatile. In a prompt it does: a changed task would match the recorded one. So only ids that people do not
write by hand are volatile there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

Clock = Callable[[], date]
CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})(?![A-Za-z0-9]))"
WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
"""Not from `calendar`, which depends on the locale."""

_NTH = "(?:st|nd|rd|th)?"
_TIME = rf"(?:(?:T|,? (?:at )?){CLOCK}(?: ?[AP]M(?![a-z]))?{ZONE}?(?:[+-]\d{{4}}(?: \([A-Z][A-Za-z ]+\))?)?)?"

_EPOCH_BLOCK = 100_000
"""Seconds in which the first five digits of a ten-digit time do not change."""


def around(day: date) -> frozenset[date]:
    """Return the day, the one before and the one after: a run may pass midnight, a container may be in another zone."""
    return frozenset(day + timedelta(days=shift) for shift in (-1, 0, 1))


def letter_first(days: Sequence[date]) -> Mapping[str, str]:
    written = _alternatives(f"{_iso(day)}|{_slashes(day)}|{_day_first(day)}" for day in days)
    named = _alternatives(
        rf"{_month(day)} +0?{day.day}{_NTH},? +(?:{CLOCK}(?: [AP]M)? (?:[A-Z]{{3,5}} )?)?{day.year}" for day in days
    )
    return {
        "date_named": rf"(?:{WEEKDAY},? +)?{named}(?!\d){_TIME}",
        "date_weekday": rf"{WEEKDAY},? +{written}{_TIME}",
        "date_month": r"(?:[Cc]urrent|[Tt]his) (?:month|year) is "
        rf"(?P<in_date_month>{_alternatives(map(_this_month, days))})(?!\d)",
    }


def digit_first(days: Sequence[date]) -> Mapping[str, str]:
    epochs = _alternatives(sorted({block for day in days for block in _epoch_blocks(day)}))
    return {
        "date_iso": _alternatives(map(_iso, days)) + _TIME,
        "date_slashes": _alternatives(map(_slashes, days)) + _TIME,
        "date_packed": _alternatives(f"{day:%Y%m%d}" for day in days) + r"(?:[T_-]?\d{4,6}Z?)?(?![A-Za-z0-9])",
        "date_day_first": _alternatives(map(_day_first, days)) + _TIME,
        "id_now_in_ms": rf"{epochs}\d{{8}}(?![A-Za-z0-9])",
        "time_now": rf"{epochs}\d{{5}}(?:\.\d+)?(?![A-Za-z0-9])",
    }


def _iso(day: date) -> str:
    return rf"{day:%Y-%m-%d}(?!\d)"


def _slashes(day: date) -> str:
    """Month first and day first, with slashes; day first with dots."""
    year = rf"(?:{day.year}|{day:%y})"
    month_and_day = rf"(?:0?{day.month}/0?{day.day}|0?{day.day}/0?{day.month})/{year}"
    return rf"(?:{month_and_day}|{day.year}/0?{day.month}/0?{day.day}|0?{day.day}\.0?{day.month}\.{day.year})(?![\w/])"


def _day_first(day: date) -> str:
    return rf"0?{day.day}{_NTH} {_month(day)},? {day.year}(?!\d)"


def _this_month(day: date) -> str:
    return f"(?:{_month(day)} )?{day.year}"


def _month(day: date) -> str:
    name = _MONTHS[day.month - 1]
    return f"(?:{name}|{name[:3]})"


def _epoch_blocks(day: date) -> Iterable[str]:
    start = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    return (str(second // _EPOCH_BLOCK) for second in (start, start + 86_399))


def _alternatives(patterns: Iterable[str]) -> str:
    return "(?:" + "|".join(patterns) + ")"


_END = r"(?![A-Za-z0-9])"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"

_ID_PREFIX = (
    "toolu|tooluse|tool|msg|call|resp|fc|fco|rs|ctc|ctco|cmpl|chatcmpl|req|ses|prt|item|run|thread|srvtoolu|gen|user"
)

_LINE = r"(?:(?<![^\n])|(?<=\\n))"
"""The start of a line, also in text inside JSON."""

_LOOSE = r"(?=[A-Za-z]{0,19}\d)[A-Za-z0-9]{6,20}"
"""With a digit, because otherwise it may be any word."""

_MADE_UP = "[a-z0-9]{6,12}"
"""Also without a digit, where only Claude Code writes an id."""

MIXED = r"(?<![A-Za-z0-9])(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]"

COUNTED = rf"[A-Za-z]+\d+{_END}"
"""A word with a number, which people use as a name."""

_TEMPORARY = r"(?:(?<=/tmp/)|(?<=/shm/)|(?<=/T/)|(?<=\\Temp\\))"
_PYTEST = r"(?:pytest-of-[\w.-]+[/\\])?"
"""Pytest numbers its directories for temporary files below one for the user."""

FILE_NAME = r"[^/\s\"'`<>|:;,()\[\]{}\\*?$]+"

_NUMBER = r"\d+(?:,\d{3}){0,4}(?:\.\d+)?"
_UNIT = rf"(?:ms|[µu]s|ns|s|secs?|seconds?|milliseconds?|minutes?){_END}"

_LABEL = (
    r"(?i:[a-z_]{0,30}(?:duration|elapsed|latency|time)(?:[_-]?(?:in[_-]?)?(?:[mun]s|_s|secs?|seconds|millis))?"
    r"|(?:real|user|sys)(?= +\d+\.\d))"
)
"""The name of a measured time. `timeout` is none."""

# In any text.

DIGIT_FIRST: Mapping[str, str] = {"id_run": rf"\d{{4}}-\d\d-\d\d-\d{{6}}-[0-9a-f]{{6}}{_END}"}

_IDS: Mapping[str, str] = {
    "billing": r"x-anthropic-billing-header:[^\n]*",
    "loose_id": r"(?:(?:with|Chunk|agent|shell|task|session) ID|agentId|(?:agent|bash|shell|task|session)_id)"
    rf"\\?[\"']?[:=]? ?\\?[\"']?(?P<in_loose_id>{_LOOSE}){_END}",
    "loose_tag": rf"(?:task|agent|shell|bash)-?id>(?P<in_loose_tag>{_LOOSE})(?=<)",
    "loose_file": rf"(?:tasks|tool-results)/(?P<in_loose_file>{_LOOSE})(?=\.[a-z]+)",
}

LETTER_FIRST: Mapping[str, str] = {
    **_IDS,
    "id_run_name": rf"run-\d{{4}}-\d\d-\d\d-\d{{6}}-[0-9a-f]{{12}}{_END}",
    "id_prefixed": rf"(?:{_ID_PREFIX})[_-](?=[A-Za-z0-9_-]*?{MIXED}{{12}})[A-Za-z0-9_-]{{12,}}",
    "system": r"OS Version: [^\n]+",
}

ANY_FIRST: Mapping[str, str] = {
    # Claude Code's list of commits in its system prompt: one hash in 26 has no letter, or no digit.
    "id_listed_commit": r"(?<=Recent commits:\n)[0-9a-f]{7,40}(?= )",
    "id_temporary": _TEMPORARY + FILE_NAME,
    "id_uuid": rf"[0-9a-fA-F]{{8}}-(?:[0-9a-fA-F]{{4}}-){{3}}[0-9a-fA-F]{{12}}{_END}",
    "id_hex": rf"(?=[a-fA-F]*\d)(?=\d*[a-fA-F])(?:[0-9a-fA-F]{{12,}}|[0-9a-f]{{7,11}}){_END}",
}

# Only in a tool's output.

TOOL_DIGIT_FIRST: Mapping[str, str] = {
    **DIGIT_FIRST,
    "date_iso": rf"\d{{4}}-\d\d-\d\d(?:[T ]{CLOCK}{ZONE}?)?(?!\d)",
    "date_packed": rf"20\d{{6}}[T_-]?\d{{4,6}}Z?{_END}",
    "date_slashes": r"\d{1,4}/\d{1,2}/\d{2,4}(?![\w/])",
    "date_day_first": rf"\d{{1,2}} {_MONTH},? \d{{4}}(?: {CLOCK})?{ZONE}?",
    "duration": rf"(?:\d+[hm] ?)*{_NUMBER} ?{_UNIT}",
    "number_with_unit": rf"{_NUMBER} ?(?:[kKMGT]i?B|[A-Za-z]+(?=/s(?:ec)?{_END})){_END}",
    "id_address": rf"0x[0-9a-fA-F]{{9,16}}{_END}",
    "time_clock": rf"(?<![.:/-]){CLOCK}(?: ?[AP]M)?(?![\w:])",
    "pid_socket": r"\d{2,7}(?=\.(?:sock|pid)\b)",
    "time_epoch": rf"1[5-9]\d{{8}}(?:\.\d+)?{_END}",
}

TOOL_LETTER_FIRST: Mapping[str, str] = {
    **_IDS,
    "loose_made_up": rf"running in background with ID: (?P<in_loose_made_up>{_MADE_UP}){_END}",
    "loose_made_up_tag": rf"(?:task|agent|shell|bash)-id>(?P<in_loose_made_up_tag>{_MADE_UP})(?=</)",
    "loose_made_up_file": rf"(?:tasks|tool-results)/(?P<in_loose_made_up_file>{_MADE_UP})(?=\.(?:output|txt)\b)",
    "id_prefixed": rf"(?:{_ID_PREFIX})[_-](?=[A-Za-z_-]{{0,40}}\d)[A-Za-z0-9_-]{{8,}}",
    "date_named": rf"(?:{WEEKDAY},? +)?{_MONTH} +\d{{1,2}}(?:,? +(?:{CLOCK}|\d{{4}}))+"
    rf"(?: [A-Z]{{3,4}} \d{{4}})?{ZONE}?",
    "pid_named": r"(?:(?:PID|pid|PGID|pgid)s?|[Pp]rocess)[ =:]{1,2}(?P<in_pid_named>\d{2,7})(?!\d)",
    "count": rf"(?:Original token count: |(?:{_LINE}|(?<=: ))total (?=[\d.]+[KMG]?(?:\n|$)))(?P<in_count>[\d.]+[KMG]?)",
    "system": r"(?:OS Version: [^\n]+|(?:Linux|Darwin) \d+\.\d+\.\d+[-\w.]*)",
    "port_named": r"(?:(?:localhost|host\.docker\.internal):|[Pp]orts?\\?[\"']?[ =:]{1,3}(?=\d{5}))"
    r"(?P<in_port_named>\d{2,5})(?!\d)",
    "number_labelled": rf"(?=[\w-]{{3,45}}[^\w\n]{{1,20}}\d){_LABEL}\\?[\"']?(?: ?[:=>])? *\\?[\"']?"
    rf"(?P<in_number_labelled>{_NUMBER})(?!\w|[.,:/-]\d| ?{_UNIT})",
}

TOOL_ANY_FIRST: Mapping[str, str] = {
    "id_temporary": _TEMPORARY + _PYTEST + FILE_NAME,
    "id_uuid": ANY_FIRST["id_uuid"],
    "id_commit": rf"(?:(?<=commit )[0-9a-f]{{7,40}}(?=[\s,.)])|{_LINE}[0-9a-f]{{7,11}}(?= \S))",
    "id_hex": rf"(?:[0-9a-fA-F]{{12,}}|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{7,11}}){_END}",
    "port": r"(?:(?:127\.0\.0\.1|0\.0\.0\.0|\[::1?\]|\*)(?::|', )|(?<=\s):(?=\d{5}))(?P<in_port>\d{2,5})(?!\d)",
    "rule": r"={4,}",
    "owner": rf"{_LINE}[-bcdlps][-rwxsStT]{{9}}[.+@]?(?P<in_owner> +\d+ +\S+ +\S+ +\d[\d.,]*[KMG]?)(?= )",
}


class Name(NamedTuple):
    """A volatile value. Each distinct value gets a number."""

    kind: str
    value: str
    loose: bool = False
    """Recognised only by its context; other occurrences of it are then replaced too."""


Piece = str | Name


class Patterns(NamedTuple):
    """The patterns for texts of one origin."""

    pattern: re.Pattern[str]
    random: re.Pattern[str]
    """A random name in a directory for temporary files."""


def _either(patterns: Mapping[str, str]) -> str:
    return "(?:" + "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in patterns.items()) + ")"


def _volatile(letter: Mapping[str, str], either: Mapping[str, str], digit: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile(
        # At the start of a word, or of a line in text inside JSON: everything else is skipped quickly.
        r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
        rf"(?:(?=[A-Za-z]){_either(letter)}|{_either(either)}|(?=\d){_either(digit)})"
    )


_RANDOM_NAME = re.compile(
    rf"^tmp|^youbencha-|^claude-\d+$|\d{{5}}|(?!{COUNTED}){MIXED}{{6}}|[-._](?=[A-Za-z]*[a-z][A-Z])[A-Za-z]{{6}}$"
)

TOOL_PATTERNS = Patterns(
    _volatile(TOOL_LETTER_FIRST, TOOL_ANY_FIRST, TOOL_DIGIT_FIRST), re.compile(r"\d|^tmp|[-._][A-Za-z0-9_]{6,10}$")
)


@lru_cache(maxsize=8)
def prompt_patterns(days: frozenset[date]) -> Patterns:
    """Return the patterns for prompts and models, with these dates as the day of the run."""
    letter, digit = dict(LETTER_FIRST), dict(DIGIT_FIRST)
    if days:
        letter |= letter_first(sorted(days))
        digit |= digit_first(sorted(days))
    return Patterns(_volatile(letter, ANY_FIRST, digit), _RANDOM_NAME)


_HINT = re.compile(
    r"\d[^\n\d]|[^\n\d]\d|\d{7}|ID|[_-]id|Id|tasks/|tool-results/|/tmp/|/T/|Temp|====|billing|(?<![^\n])[a-f]{7}"
)
"""A line without any of these has no volatile text, so the far slower pattern is not tried."""

_CHILD = re.compile(rf"(?P<separator>[/\\]+{_PYTEST})(?P<child>{FILE_NAME})")
Match = re.Match[str]


def split_pieces(text: str, start: int, end: int, patterns: Patterns) -> list[Piece]:
    """Split a section of a text into literal text and volatile names."""
    pieces: list[Piece] = []
    done = start
    for match in _matches(text, start, end, patterns.pattern):
        kind = match.lastgroup
        assert kind is not None
        if match.start() > done:
            pieces.append(text[done : match.start()])
        chosen = kind == "id_temporary" and not patterns.random.search(match.group())
        pieces += [match.group()] if chosen else _replaced(match, kind)
        done = match.end()
    if done < end:
        pieces.append(text[done:end])
    return pieces


def first_name(text: str, start: int, patterns: Patterns) -> tuple[list[Piece], int]:
    """Return the random name right after a directory for temporary files, and where it ends."""
    match = _CHILD.match(text, start)
    if match is None or not patterns.random.search(match["child"]):
        return [], start
    return [match["separator"], Name("id", match["child"])], match.end()


def _matches(text: str, start: int, stop: int, pattern: re.Pattern[str]) -> Iterator[Match]:
    """Search line by line, and only lines with a hint."""
    while start < stop:
        end = text.find("\n", start, stop) + 1 or stop
        if _HINT.search(text, start, end):
            yield from pattern.finditer(text, start, end)
        start = end


_TEXTS: Mapping[str, str] = {"owner": " {{owner and size}}", "rule": "===="}
"""`rule`: pytest fills lines up to the terminal's width, so their length depends on the time in them."""

_NUMBERED: Mapping[str, str] = {"id": "id", "loose": "id", "port": "port", "pid": "pid"}


def _replaced(match: Match, group: str) -> Iterator[Piece]:
    """Replace a match as the first word of its group's name says. If there is a group `in_…`, the rest is context."""
    kind = group.partition("_")[0]
    start, end = match.span(f"in_{group}" if f"in_{group}" in match.re.groupindex else group)
    text = match.string
    if kind in _NUMBERED:
        replaced: Piece = Name(_NUMBERED[kind], text[start:end], kind == "loose")
    else:
        replaced = _TEXTS.get(kind, "{{" + kind + "}}")
    yield from (piece for piece in (text[match.start() : start], replaced, text[end : match.end()]) if piece)
