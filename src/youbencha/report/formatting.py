"""Numbers as people read them. What is unknown is called so; it is never a zero."""

from __future__ import annotations

import json
import math
from typing import Any

UNKNOWN = "unknown"
THIN = "\u202f"
"""Between thousands: narrow, and no line breaks there."""

_LONGEST_VALUE = 600


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
    return UNKNOWN if number is None else f"{number:,}".replace(",", THIN)


def usd(dollars: float | None) -> str:
    """Four digits below a dollar, where the differences between agents are; two above."""
    if dollars is None:
        return UNKNOWN
    if 0 < dollars < 0.0001:
        return "< $0.0001"
    digits = 2 if dollars == 0 or dollars >= 1 else 4
    return f"${dollars:,.{digits}f}".replace(",", THIN)


def percent(share: float) -> str:
    """One digit, and never rounded up to a 100% that was not reached."""
    value = share * 100
    return "99.9%" if 99.9 < value < 100 else f"{value:.1f}%".replace(".0%", "%")


def size(number_of_bytes: int) -> str:
    value = float(number_of_bytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def plural(number: int, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def value(anything: Any) -> str:
    """Whatever an evaluator measured, on one line. Nested values are JSON: every reader knows it."""
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
    return f"{number:,.4f}".rstrip("0").rstrip(".").replace(",", THIN) if abs(number) >= 0.001 else f"{number:.3g}"
