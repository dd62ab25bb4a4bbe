"""Count tokens: what a model call or a session used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Tokens(NamedTuple):
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_creation: int | None = None


def add_all(parts: Sequence[Tokens]) -> Tokens:
    """Each column's sum over what is known; None where nobody knows."""
    columns = zip(*parts, strict=True) if parts else ((),) * 4
    return Tokens(*(_sum([value for value in column if value is not None]) for column in columns))


def _sum(values: list[int]) -> int | None:
    return sum(values) if values else None


# The metrics sidecar of the Thunderdome: what a trial used, in one small file beside its results.

SIDECAR = ".thunderdome-metrics.json"
