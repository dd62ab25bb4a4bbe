"""Counting tokens. Unknown stays None; a zero was reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from youbencha.log.model import CostSource, Usage


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


def usage_of(tokens: Tokens, cost_usd: float | None, *, partial: bool, cost_source: CostSource = "agent") -> Usage:
    from youbencha.log.model import Usage

    both = None not in (tokens.input, tokens.output)
    return Usage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        total_tokens=(tokens.input or 0) + (tokens.output or 0) if both else None,
        cache_read_tokens=tokens.cache_read,
        cache_creation_tokens=tokens.cache_creation,
        cost_usd=cost_usd,
        cost_source=None if cost_usd is None else cost_source,
        partial=partial,
    )
