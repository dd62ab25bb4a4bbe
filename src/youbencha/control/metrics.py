"""The metrics sidecar: what a session cost, in the words of the first harness and a few more."""

from __future__ import annotations

from typing import Any, NamedTuple

from youbencha.control.tally import Tally
from youbencha.log.tokens import Tokens


class _Spent(NamedTuple):
    tokens: Tokens
    cost_usd: float | None
    partial: bool


def metrics(tally: Tally) -> dict[str, Any]:
    """Whatever the end. What nobody said is None, never 0; `partial` where more was spent than could be counted."""
    spent = _spent(tally)
    return {
        "input_tokens": spent.tokens.input,
        "output_tokens": spent.tokens.output,
        "cache_read_tokens": spent.tokens.cache_read,
        "cache_creation_tokens": spent.tokens.cache_creation,
        "turns": tally.turns,
        "tools_used": tally.tools_used,
        "duration_ms": tally.duration_ms,
        "total_cost_usd": spent.cost_usd,
        "session_id": tally.session_id,
        "model": tally.model,
        "ended": tally.how,
        "partial": spent.partial,
    }


def _spent(tally: Tally) -> _Spent:
    """The last result is believed. Without one, the answers that were seen are a lower bound.

    Where the CLI repeated a broken call without streaming, 2.1.30 and 1.0.128 forgot its usage: a result of zeros
    beside answers that carry the real numbers.
    """
    said, seen = tally.total, tally.calls
    if said == Tokens():
        return _Spent(seen, tally.cost_usd, partial=True)
    short = any(mine is not None and mine > (theirs or 0) for mine, theirs in zip(seen, said, strict=True))
    if short and not any(said):
        return _Spent(seen, tally.cost_usd or None, partial=True)
    return _Spent(said, tally.cost_usd, partial=short)
