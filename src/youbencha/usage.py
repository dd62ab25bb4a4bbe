"""Count tokens and cost: of one call to a model, and of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SIDECAR = ".thunderdome-metrics.json"
"""The metrics sidecar of the Thunderdome: what a trial used, in one small file beside its results."""


class Tokens(NamedTuple):
    """Unknown is None; a zero was reported."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_creation: int | None = None


class SessionUsage(NamedTuple):
    """What a session used, as far as it is known."""

    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    partial: bool = False
    """More may have been used than could be counted."""


class UsageCounter:
    """Adds up one session from its calls and from the totals that the agent reports.

    | source | what it covers |
    |---|---|
    | the last total | the whole session: subagents and side models, over all turns |
    | calls, each message id once | what was seen: a lower bound where the agent would have reported a total |
    """

    def __init__(self) -> None:
        self._calls: dict[str, Tokens] = {}
        self._seen = Tokens()
        self._cost_usd: float | None = None
        self._total: SessionUsage | None = None

    def add_call(
        self, tokens: Tokens, cost_usd: float | None = None, *, message_id: str | None = None, final: bool = True
    ) -> None:
        """Count a call, or more news of one if `message_id` was seen before.

        `final` is False where `tokens.output` is only what the call began with: Claude Code 2.1.x says 1 there.
        """
        if cost_usd is not None:
            self._cost_usd = (self._cost_usd or 0) + cost_usd
        news = tokens if final else tokens._replace(output=None)
        if message_id is None:
            self._seen = add_all([self._seen, news])
            return
        known = self._calls.get(message_id, Tokens())
        if known != news:  # Claude Code repeats it with each content block
            self._calls[message_id] = largest = Tokens(*map(_larger, known, news))
            self._seen = Tokens(*map(_grown, self._seen, known, largest))

    def set_total(self, tokens: Tokens, cost_usd: float | None) -> None:
        """Note what the agent says of the whole session so far."""
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

        `ended`: the session came to its end, so that its calls are all there are, if it reports no total.
        """
        seen = self._seen
        if self._total is None:
            return _known(seen, self._cost_usd, partial=not ended)
        said, cost_usd, _ = self._total
        if said == Tokens():  # Claude Code 1.0.0 reports the cost alone
            return _known(seen, cost_usd, partial=True)
        # Where the CLI repeated a broken call without streaming, 2.1.30 and 1.0.128 forgot its usage: a total of
        # zeros (or of one output token) beside calls that carry the real numbers.
        short = any(mine is not None and mine > (theirs or 0) for mine, theirs in zip(seen, said, strict=True))
        if short and not any(said):
            return SessionUsage(seen, cost_usd or None, partial=True)
        return SessionUsage(said, cost_usd, partial=short)


def add_all(parts: Sequence[Tokens]) -> Tokens:
    """Each column's sum over what is known; None where nothing is."""
    columns = zip(*parts, strict=True) if parts else ((),) * 4
    return Tokens(*(_sum([value for value in column if value is not None]) for column in columns))


def _sum(values: list[int]) -> int | None:
    return sum(values) if values else None


def _larger(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _grown(total: int | None, before: int | None, now: int | None) -> int | None:
    return total if now is None else (total or 0) + now - (before or 0)


def _known(tokens: Tokens, cost_usd: float | None, *, partial: bool) -> SessionUsage | None:
    return None if tokens == Tokens() and cost_usd is None else SessionUsage(tokens, cost_usd, partial)
