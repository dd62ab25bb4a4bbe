"""Format untrusted text, numbers, money and durations for display.

Invisible characters can reverse lines, move a terminal's cursor or hide a word: they are replaced by visible ones.
Escaping markup is left to each format. Unknown is shown as "unknown", never as 0.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

NEAR_ENOUGH = 65

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
"""Only this escape sequence is harmless, and common in what test runners print."""

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff"
    "\U000e0000-\U000e007f]"
)

_BLANK = re.compile("[ \t\n]+")
_LONGEST_LINE = 300
UNKNOWN = "unknown"

_LONGEST_VALUE = 600
_LONGEST = 160
_MIDDLE = "..."
_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
_LONG_WORD = re.compile(rf"\S{{{_LONGEST + 1},}}")
_LONGEST_TEXT = 2000


def did_you_mean(written: str, choices: Iterable[str]) -> str | None:
    """Return a hint with the choice nearest to what was written; None if none is near."""
    near = nearest(written, choices)
    return f"did you mean '{near}'?" if near else None


def nearest(written: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is spelt most like `written`, if one is near enough."""
    from rapidfuzz import fuzz, process  # takes 20 ms to import, and is only needed after a mistake

    choices = list(choices)
    best = process.extractOne(written, choices, scorer=fuzz.ratio, processor=_fold, score_cutoff=NEAR_ENOUGH)
    return best[0] if best else _completed(_fold(written), choices)


def _completed(written: str, choices: Iterable[str]) -> str | None:
    """The first choice that begins with what was written (`input` for `input_tokens`): their ratio is too low."""
    return next((c for c in choices if len(written) > 2 and _fold(c).startswith(written)), None)


def _fold(word: str) -> str:
    return word.lower().replace("-", "_")


def visible(text: str) -> str:
    """Make every character visible, except line ends and tabs."""
    if text.isprintable():
        return text
    text = _COLOUR.sub("", text) if "\x1b" in text else text
    text = text.replace("\r\n", "\n") if "\r" in text else text
    return _UNSEEN.sub(_visible_form, text)


def one_line(text: str, limit: int = _LONGEST_LINE) -> str:
    """Return the text on one line, for a table cell or a heading; ends with `…` if it is shortened."""
    return shortened(_BLANK.sub(" ", visible(text[: limit * 8])).strip(" "), limit)


def shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def first_line(text: str) -> str:
    """Return the first line that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _visible_form(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's control pictures: ␛
    if code == 0x7F:
        return "␡"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # Python's `surrogateescape` for a byte that is not UTF-8
    return f"⟨U+{code:04X}⟩"


def duration(milliseconds: float | None) -> str:
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


def count(number: int | None) -> str:
    """Format a number with commas between thousands, as everywhere."""
    return UNKNOWN if number is None else f"{number:,}"


def usd(dollars: float | None) -> str:
    """Four digits below a dollar, where the differences between agents are; two above."""
    if dollars is None:
        return UNKNOWN
    if 0 < dollars < 0.0001:
        return "< $0.0001"
    digits = 2 if dollars == 0 or dollars >= 1 else 4
    return f"${dollars:,.{digits}f}"


def percent(share: float) -> str:
    """Format a share with one digit, never rounded up to 100%."""
    value = share * 100
    return "99.9%" if 99.9 < value < 100 else f"{value:.1f}%".replace(".0%", "%")


def size(number_of_bytes: int) -> str:
    value = float(number_of_bytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def iso_time(seconds: float) -> str:
    """Format a time as all files do: ISO 8601, UTC, milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plural(number: int, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def listed(paths: Iterable[str | bytes], most: int = 5) -> str:
    """List paths in alphabetical order: `a, b and 3 more`."""
    ordered = sorted(os.fsencode(path) for path in paths)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(shown(path) for path in ordered[:most]) + more


def first_few(names: Sequence[str], most: int = 10) -> str:
    """`a, b, …`."""
    return ", ".join((*names[:most], *(["…"] if len(names) > most else [])))


def join_words(words: Sequence[str], conjunction: str = "and") -> str:
    """`a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def sentences(message: str, hint: str | None) -> str:
    """Return a message, and what to do about it, as two sentences."""
    if not hint:
        return message
    return f"{message}{'' if message.endswith(('.', '!', '?', ':')) else '.'} {hint}"


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
    for name in (*drop, None):
        widths = {each: max(map(len, cells)) for each, cells in columns.items()}
        if name is None or sum(widths.values()) + 2 * len(widths) - 2 <= width:
            break
        del columns[name]
    padded = ([f"{cell:{'>' if name in right else '<'}{widths[name]}}" for cell in columns[name]] for name in columns)
    return "\n".join("  ".join(cells).rstrip() for cells in zip(*padded, strict=True))


def value(anything: Any) -> str:
    """Format a metric on one line; nested values as JSON."""
    match anything:
        case None:
            return UNKNOWN
        case bool():
            return "yes" if anything else "no"
        case int():
            return count(anything)
        case float():
            return _decimal(anything)
        case str():
            return anything
    return json.dumps(anything, ensure_ascii=False, default=str, separators=(", ", ": "))


def short_value(anything: Any) -> str:
    text = value(anything)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def label(name: str) -> str:
    """`files_changed` -> `Files changed`."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _decimal(number: float) -> str:
    if not math.isfinite(number):
        return str(number)
    if number.is_integer() and abs(number) < 1e15:
        return count(int(number))
    return f"{number:,.4f}".rstrip("0").rstrip(".") if abs(number) >= 0.001 else f"{number:.3g}"


def shown(path: str | bytes | os.PathLike[str]) -> str:
    """Format a path for a message: short, on one line, with replacement characters for what is not printable."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return _shortened("".join(each if each.isprintable() else _UNPRINTABLE for each in text))


def without_long_words(text: str) -> str:
    """Shorten a message of another program, which may name thousands of long paths."""
    return _LONG_WORD.sub(lambda found: _shortened(found[0]), text[:_LONGEST_TEXT])


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = (_LONGEST - len(_MIDDLE)) // 2
    return text[:half] + _MIDDLE + text[-half:]
