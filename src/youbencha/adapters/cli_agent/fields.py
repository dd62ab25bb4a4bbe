"""Reading fields of a JSON record that may hold anything: the value if it has the right type, else nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = Mapping[str, Any]
_EMPTY: Record = {}


def text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def count(value: object) -> int | None:
    """A whole number from 0 up. `true` is not a number, whatever Python says."""
    return value if type(value) is int and value >= 0 else None


def number(value: object) -> float | None:
    return float(value) if type(value) in (int, float) else None  # type: ignore[arg-type]


def amount(value: object) -> float | None:
    """A number from 0 up."""
    found = number(value)
    return found if found is not None and found >= 0 else None


def mapping(value: object) -> Record:
    return value if isinstance(value, dict) else _EMPTY


def records(value: object) -> list[Record]:
    """The objects of a list; whatever else is in it is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
