"""Fields of a message that may hold anything: the value if it has the right type, else nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

Message = Mapping[str, Any]
_EMPTY: Message = MappingProxyType({})


def text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def mapping(value: object) -> Message:
    return value if isinstance(value, Mapping) else _EMPTY


def mappings(value: object) -> Iterator[Message]:
    """The objects of a list; whatever else is in it is left out."""
    return (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else iter(())


def count(value: object) -> int | None:
    """A whole number from 0 up. `true` is not a number, whatever Python says."""
    return value if type(value) is int and value >= 0 else None


def amount(value: object) -> float | None:
    """A finite number from 0 up."""
    return float(value) if type(value) in (int, float) and 0 <= value < 1e300 else None  # type: ignore[arg-type,operator]


def blocks(message: Message) -> Iterator[Message]:
    """What an `assistant` or `user` message consists of."""
    return mappings(mapping(message.get("message")).get("content"))
