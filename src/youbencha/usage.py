"""Count the tokens and the cost of calls and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SIDECAR = ".thunderdome-metrics.json"
"""Thunderdome's metrics file, which has the usage of a trial."""


class Tokens(NamedTuple):
    """Numbers of tokens. Unknown is None; a zero was reported."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_creation: int | None = None


class SessionUsage(NamedTuple):
    """What a session used, as far as is known."""

    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    partial: bool = False
    """More may have been used than could be counted."""


class UsageCounter:
    """Computes a session's usage from its calls and from the totals that the agent reports.

    | source | what it covers |
    |---|---|
    | the last total | the whole session: subagents and other models, over all turns; a lower bound if calls are more |
    | calls, each message id once | what was seen: a lower bound if the agent usually reports a total |
    """

    def __init__(self) -> None:
        self._calls: dict[str, Tokens] = {}
        self._seen = Tokens()
        self._cost_usd: float | None = None
        self._total: SessionUsage | None = None

    def add_call(
        self, tokens: Tokens, cost_usd: float | None = None, *, message_id: str | None = None, final: bool = True
    ) -> None:
        """Count a call, or update it if `message_id` was seen before.

        `final` is False where `tokens.output` is only a preliminary number: Claude Code 2.1.x reports 1 there.
        """
        if cost_usd is not None:
            self._cost_usd = (self._cost_usd or 0) + cost_usd
        reported = tokens if final else tokens._replace(output=None)
        if message_id is None:
            self._seen = add_all([self._seen, reported])
            return
        known = self._calls.get(message_id, Tokens())
        if known != reported:  # Claude Code repeats it with each content block
            self._calls[message_id] = largest = larger(known, reported)
            self._seen = Tokens(*map(_grown, self._seen, known, largest))

    def set_total(self, tokens: Tokens, cost_usd: float | None) -> None:
        """Record the agent's total for the session so far."""
        self._total = SessionUsage(tokens, cost_usd)

    @property
    def has_total(self) -> bool:
        return self._total is not None

    @property
    def calls(self) -> Tokens:
        """The sum of the calls so far."""
        return self._seen

    def usage(self, *, ended: bool = False) -> SessionUsage | None:
        """The session's usage; None if nothing is known.

        `ended`: the session has ended, so its calls are complete if it reports no total.
        """
        seen = self._seen
        if self._total is None:
            return _known(seen, self._cost_usd, partial=not ended)
        total, cost_usd, _ = self._total
        if total == Tokens():  # Claude Code 1.0.0 reports only the cost
            return _known(seen, cost_usd or None, partial=True)
        # 2.0.30 counts no input. After repeating a broken call without streaming, 2.1.30 and 1.0.128 lose its usage.
        # The cost is computed from the same numbers, so it is a lower bound, too.
        short = any(calls is not None and calls > (reported or 0) for calls, reported in zip(seen, total, strict=True))
        return SessionUsage(larger(seen, total), (cost_usd or None) if short else cost_usd, partial=short)


def total_tokens(tokens: Tokens) -> int | None:
    """Input, output, cache reads and cache writes together, as in the original Thunderdome.

    None if input or output is unknown. Agents without a cache report no tokens of one.
    """
    if tokens.input is None or tokens.output is None:
        return None
    return sum(number or 0 for number in tokens)


def add_all(parts: Sequence[Tokens]) -> Tokens:
    """The sum of the known values in each column; None where none is known."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*parts, strict=True) if parts else ((),) * 4
    known = ([value for value in column if value is not None] for column in columns)
    return Tokens(*(sum(values) if values else None for values in known))


def larger(one: Tokens, other: Tokens) -> Tokens:
    """The larger number in each column."""
    return Tokens(*map(_larger, one, other))


def _larger(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _grown(total: int | None, before: int | None, now: int | None) -> int | None:
    return total if now is None else (total or 0) + now - (before or 0)


def _known(tokens: Tokens, cost_usd: float | None, *, partial: bool) -> SessionUsage | None:
    return None if tokens == Tokens() and cost_usd is None else SessionUsage(tokens, cost_usd, partial)
