"""Count the tokens and the cost of calls and sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

_N = TypeVar("_N", int, float)


class Tokens(NamedTuple):
    """Numbers of tokens. Unknown is None; a zero was reported."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_creation: int | None = None


class SessionUsage(NamedTuple):
    """The usage of a session, as far as it is known."""

    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    partial: bool = False
    """More may have been used than could be counted."""


class SessionTotal(NamedTuple):
    """The usage that an agent reports for its session so far."""

    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    by_model: Mapping[str, Tokens] = MappingProxyType({})
    """The parts of `tokens`, if it reports them."""
    incomplete: bool = False
    """Calls are known to be missing."""


class _Call(NamedTuple):
    tokens: Tokens = Tokens()
    model: str | None = None
    cost_usd: float | None = None


class _Compared(NamedTuple):
    """The calls that were seen, and the agent's total for them."""

    calls: Tokens
    total: Tokens

    @property
    def short(self) -> bool:
        return is_less(self.total, self.calls)

    @property
    def larger(self) -> Tokens:
        return larger(self.calls, self.total)


class UsageCounter:
    """Computes a session's usage from its calls and from the totals that the agent reports, for each model by itself.

    | source | what it covers |
    |---|---|
    | the last total | the whole session: subagents and other models, over all turns; a lower bound if calls are more |
    | calls, each message id once | what was seen: a lower bound if the agent usually reports a total |
    """

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._calls_without_id: dict[str | None, Tokens] = {}
        self._seen = Tokens()
        self._cost_usd: float | None = None
        self._total: SessionTotal | None = None

    def add_call(
        self,
        tokens: Tokens,
        cost_usd: float | None = None,
        *,
        message_id: str | None = None,
        final: bool = True,
        model: str | None = None,
    ) -> None:
        """Count a call, or update it if `message_id` was seen before.

        `final` is False where `tokens.output` is only a preliminary number: Claude Code 2.1.x reports 1 there.
        """
        reported = tokens if final else tokens._replace(output=None)
        if message_id is None:
            self._cost_usd = _increased(self._cost_usd, None, cost_usd)
            self._seen = add_all([self._seen, reported])
            self._calls_without_id[model] = add_all([self._calls_without_id.get(model, Tokens()), reported])
            return
        known = self._calls.get(message_id, _Call())
        call = _Call(larger(known.tokens, reported), known.model or model, _larger(known.cost_usd, cost_usd))
        if call != known:  # Claude Code repeats it with each content block
            self._calls[message_id] = call
            self._seen = Tokens(*map(_increased, self._seen, known.tokens, call.tokens))
            self._cost_usd = _increased(self._cost_usd, known.cost_usd, call.cost_usd)

    def set_total(self, total: SessionTotal) -> None:
        """Record the agent's total for the session so far, which is no less than the last one."""
        last, self._total = self._total, total
        if last is not None and (is_less(total.tokens, last.tokens) or (total.cost_usd or 0) < (last.cost_usd or 0)):
            cost_usd = max(usage.cost_usd or 0 for usage in (total, last)) or None
            self._total = SessionTotal(larger(total.tokens, last.tokens), cost_usd, incomplete=True)

    @property
    def has_total(self) -> bool:
        return self._total is not None

    @property
    def calls(self) -> Tokens:
        """Return the sum of the calls so far."""
        return self._seen

    def usage(self, *, ended: bool = False) -> SessionUsage | None:
        """Return the session's usage; None if nothing is known.

        `ended`: the session has ended, so its calls are complete if it reports no total.
        """
        total = self._total
        if total is None:
            return _known(self._seen, self._cost_usd, partial=not ended)
        if total.tokens == Tokens():  # Claude Code 1.0.0 reports only the cost
            return _known(self._seen, total.cost_usd or None, partial=True)
        # 2.0.30 counts no input. Before 2.1.77, Claude Code loses the usage of a broken call that it repeats, which may
        # be less than that of side models. The cost has the same numbers, so it is a lower bound as well.
        parts = self._compared(total)
        if not (total.incomplete or any(part.short for part in parts)):
            return SessionUsage(add_all([part.larger for part in parts]), total.cost_usd)
        return SessionUsage(add_all([part.larger for part in parts]), total.cost_usd or None, partial=True)

    def _compared(self, total: SessionTotal) -> list[_Compared]:
        """Return calls and total of each model; those of models that have only one of them, together.

        They may be the same by other names: a gateway may answer for a model by another one.
        """
        calls, totals = self._calls_by_model(), _by_base_name(total.by_model)
        if not totals:
            return [_Compared(self._seen, total.tokens)]
        both = [_Compared(calls.pop(name), totals.pop(name)) for name in sorted(calls.keys() & totals.keys())]
        return [*both, _Compared(add_all(list(calls.values())), add_all(list(totals.values())))]

    def _calls_by_model(self) -> dict[str, Tokens]:
        calls = [*((call.model, call.tokens) for call in self._calls.values()), *self._calls_without_id.items()]
        sums: dict[str, Tokens] = {}
        for model, tokens in calls:
            name = base_model(model or "")
            sums[name] = add_all([sums.get(name, Tokens()), tokens])
        return sums


def total_tokens(tokens: Tokens) -> int | None:
    """Add input, output, cache reads and cache writes together, as in the original Thunderdome.

    None if input or output is unknown. Agents without a cache report no tokens of one.
    """
    if tokens.input is None or tokens.output is None:
        return None
    return sum(number or 0 for number in tokens)


def add_all(parts: Sequence[Tokens]) -> Tokens:
    """Return the sum of the known values in each column; None where none is known."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*parts, strict=True) if parts else ((),) * 4
    known = ([value for value in column if value is not None] for column in columns)
    return Tokens(*(sum(values) if values else None for values in known))


def base_model(name: str) -> str:
    """Return `claude-opus-4-8` for `claude-opus-4-8[1m]`: Claude Code reports a variant that answers do not name."""
    return name.split("[", 1)[0]


def _by_base_name(totals: Mapping[str, Tokens]) -> dict[str, Tokens]:
    sums: dict[str, Tokens] = {}
    for model, tokens in totals.items():
        sums[base_model(model)] = add_all([sums.get(base_model(model), Tokens()), tokens])
    return sums


def is_less(one: Tokens, other: Tokens) -> bool:
    """Return whether any number is less, or unknown while the other is more than 0."""
    return any((mine or 0) < (theirs or 0) for mine, theirs in zip(one, other, strict=True))


def larger(one: Tokens, other: Tokens) -> Tokens:
    """Return the larger number in each column."""
    return Tokens(*map(_larger, one, other))


def _larger(one: _N | None, other: _N | None) -> _N | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _increased(total: _N | None, before: _N | None, now: _N | None) -> _N | None:
    """Return the total after one of its parts has grown from `before` to `now`."""
    return total if now is None else (total or 0) + now - (before or 0)


def _known(tokens: Tokens, cost_usd: float | None, *, partial: bool) -> SessionUsage | None:
    return None if tokens == Tokens() and cost_usd is None else SessionUsage(tokens, cost_usd, partial)
