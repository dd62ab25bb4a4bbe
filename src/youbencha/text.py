"""Format untrusted text, names, numbers, money and durations for display.

Invisible characters can reverse lines, move a terminal's cursor or hide a word: they are replaced by visible ones.
Escaping markup is left to each format. Unknown is shown as "unknown", never as 0.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rapidfuzz import fuzz, process

UNKNOWN = "unknown"
MIN_SIMILARITY = 65

# `\x1B\[[0-9;]*m` alone misses what CLIs really write to a PTY: ESC[?25h, ESC[<u, ESC]9;4;0;BEL, ESC 7.
# Every alternative is linear. Of a sequence that never ends, only the introducer is removed, not the text after it.
ANSI_PATTERN = re.compile(
    r"""\x1b(?:
        \[[0-?]*[\x20-/]*[@-~]                  # CSI, private ones too
      | \][^\x07\x1b\n]*(?:\x07|\x1b\\)         # OSC
      | [PX^_][^\x1b\n]*\x1b\\                  # DCS, SOS, PM, APC
      | [\x20-/]*[0-~]                          # ESC 7, ESC 8, ESC =, ESC ( B
    )?""",
    re.VERBOSE,
)

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
"""Only this escape sequence is harmless, and common in what test runners print."""

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff"
    "\U000e0000-\U000e007f]"
)

_BLANK = re.compile("[ \t\n]+")
_MAX_LINE_CHARS = 300
_MAX_VALUE_CHARS = 600
_MAX_PATH_CHARS = 160
_MAX_MESSAGE_CHARS = 2000
_ELLIPSIS = "..."
_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
_LONG_WORD = re.compile(rf"\S{{{_MAX_PATH_CHARS + 1},}}")


def did_you_mean(written: str, choices: Iterable[str]) -> str | None:
    """Return a hint with the choice nearest to what was written; None if none is near."""
    near = nearest(written, choices)
    return f"did you mean '{near}'?" if near else None


def nearest(written: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is spelt most like `written`, if one is near enough."""
    choices = list(choices)
    best = process.extractOne(written, choices, scorer=fuzz.ratio, processor=_fold, score_cutoff=MIN_SIMILARITY)
    if best:
        return best[0]
    # `input` means `input_tokens`, although their ratio is low.
    start = _fold(written)
    return next((choice for choice in choices if len(start) > 2 and _fold(choice).startswith(start)), None)


def _fold(word: str) -> str:
    return word.lower().replace("-", "_")


def strip_ansi(text: str) -> str:
    """Return the text without terminal sequences; no ESC is left in it."""
    return ANSI_PATTERN.sub("", text) if "\x1b" in text else text


def clean_text(text: str) -> str:
    """Return the text without terminal sequences, with plain line ends, and without lone surrogates."""
    return encodable(strip_ansi(text).replace("\r\n", "\n"))


def encodable(text: str) -> str:
    """Replace lone surrogates, which cannot be written to a UTF-8 file; captured output may contain some."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def visible(text: str) -> str:
    """Make every character visible, except line ends and tabs."""
    if text.isprintable():
        return text
    text = _COLOUR.sub("", text) if "\x1b" in text else text
    text = text.replace("\r\n", "\n") if "\r" in text else text
    return _UNSEEN.sub(_visible_form, text)


def _visible_form(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's control pictures: ␛
    if code == 0x7F:
        return "␡"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # Python's `surrogateescape` for a byte that is not UTF-8
    return f"⟨U+{code:04X}⟩"


def one_line(text: str, limit: int = _MAX_LINE_CHARS) -> str:
    """Return the text on one line, for a table cell or a heading; ends with `…` if it is shortened."""
    return shorten(_BLANK.sub(" ", visible(text[: limit * 8])).strip(" "), limit)


def first_line(text: str) -> str:
    """Return the first line that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def shorten(text: str, limit: int) -> str:
    """Cut a text to `limit` characters; it then ends with `…`."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def shorten_words(text: str) -> str:
    """Shorten a message of another program, which may name thousands of long paths."""
    return _LONG_WORD.sub(lambda word: _without_middle(word[0]), text[:_MAX_MESSAGE_CHARS])


def _without_middle(text: str) -> str:
    if len(text) <= _MAX_PATH_CHARS:
        return text
    half = (_MAX_PATH_CHARS - len(_ELLIPSIS)) // 2
    return text[:half] + _ELLIPSIS + text[-half:]


def format_path(path: str | bytes | os.PathLike[str]) -> str:
    """Format a path for a message: short, on one line, with replacement characters for what is not printable."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return _without_middle("".join(char if char.isprintable() else _UNPRINTABLE for char in text))


def format_duration(milliseconds: float | None) -> str:
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 59.95:  # from there on it would be rounded to "60.0 s"
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def format_clock(seconds: float) -> str:
    """Format a duration as a clock shows it: `1:05`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def time_of_day(seconds: float) -> str:
    """Format a moment as the time of day here."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def iso_time(seconds: float) -> str:
    """Format a moment as all files do: ISO 8601, UTC, milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_count(number: int | None) -> str:
    """Format a number with commas between thousands."""
    return UNKNOWN if number is None else f"{number:,}"


def plural(number: int, noun: str) -> str:
    return f"{format_count(number)} {noun}{'' if number == 1 else 's'}"


def format_usd(dollars: float | None) -> str:
    """Format with four digits below a dollar, where the differences between agents are; two above."""
    if dollars is None:
        return UNKNOWN
    if 0 < dollars < 0.0001:
        return "< $0.0001"
    digits = 2 if dollars == 0 or dollars >= 1 else 4
    return f"${dollars:,.{digits}f}"


def format_percent(share: float) -> str:
    """Format a share with one digit, never rounded up to 100%."""
    percent = share * 100
    return "99.9%" if 99.9 < percent < 100 else f"{percent:.1f}%".replace(".0%", "%")


def format_size(number_of_bytes: int) -> str:
    """Format a number of bytes: `12 B`, `1.5 KiB`, `4 GiB`."""
    size, units = float(number_of_bytes), ["TiB", "GiB", "MiB", "KiB", "B"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop()
    return f"{size:.1f}".removesuffix(".0") + f" {units[-1]}"


def first_few(names: Sequence[str], limit: int = 10) -> str:
    """Return `a, b and 3 more`."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def list_paths(paths: Iterable[str | bytes], limit: int = 5) -> str:
    """Return the first paths in alphabetical order: `a, b and 3 more`."""
    return first_few([format_path(path) for path in sorted(map(os.fsencode, paths))], limit)


def join_words(words: Sequence[str], conjunction: str = "and") -> str:
    """Return `a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def sentences(message: str, hint: str | None) -> str:
    """Return a message, and what to do about it, as two sentences."""
    if not hint:
        return message
    return f"{message}{'' if message.endswith(('.', '!', '?', ':')) else '.'} {hint}"


def format_value(value: Any) -> str:
    """Format a metric on one line; nested values as JSON."""
    match value:
        case None:
            return UNKNOWN
        case bool():
            return "yes" if value else "no"
        case int():
            return format_count(value)
        case float():
            return _format_decimal(value)
        case str():
            return value
    return json.dumps(value, ensure_ascii=False, default=str, separators=(", ", ": "))


def short_value(value: Any) -> str:
    return shorten(format_value(value), _MAX_VALUE_CHARS)


def _format_decimal(number: float) -> str:
    if not math.isfinite(number):
        return str(number)
    if number.is_integer() and abs(number) < 1e15:
        return format_count(int(number))
    return f"{number:,.4f}".rstrip("0").rstrip(".") if abs(number) >= 0.001 else f"{number:.3g}"


def label(name: str) -> str:
    """Return `Files changed` for `files_changed`."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: int,
    right: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> str:
    """Align columns; those in `right` to the right. Those in `drop` are left out, one by one, until the rows fit.

    A row is one line, and a cell is never shortened: users copy names and paths from a table.
    """
    columns = {name: [name, *cells] for name, *cells in zip(header, *rows, strict=True)}
    for dropped in (*drop, None):
        widths = {name: max(map(len, cells)) for name, cells in columns.items()}
        if dropped is None or sum(widths.values()) + 2 * len(widths) - 2 <= width:
            break
        del columns[dropped]
    padded = ([f"{cell:{'>' if name in right else '<'}{widths[name]}}" for cell in columns[name]] for name in columns)
    return "\n".join("  ".join(cells).rstrip() for cells in zip(*padded, strict=True))
