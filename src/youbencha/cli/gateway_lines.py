"""What `yb gateway` tells of each request, and of each key at the end. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from youbencha.report.formatting import plural, usd

if TYPE_CHECKING:
    from youbencha.gateway.budget import Account
    from youbencha.gateway.keys import Grant
    from youbencha.gateway.model import Call
    from youbencha.gateway.tally import ModelTally, Tally
    from youbencha.log.tokens import Tokens

_KINDS = ("in", "out", "cache read", "cache write")


def line_of(call: Call, spent: Decimal | None) -> str:
    """`spent` is what all calls of its key have cost so far; None if there is no such key, or nobody knows."""
    parts = [time.strftime("%H:%M:%S", time.localtime(call.at)), call.labels.key, call.model or "–"]
    if not call.billed or call.wire is None:
        parts.append(f"{call.method} {call.path}")
    parts.append("no answer" if call.status is None else str(call.status))
    if told := _tokens(call.tokens):
        parts += [told, "cost unknown" if call.cost_usd is None else _usd(call.cost_usd)]
    if spent is not None:
        parts.append(f"total {_usd(spent)}")
    parts += [word for word, holds in (("partial", call.partial), ("replayed", call.replayed)) if holds]
    return " · ".join([*parts, *([call.error] if call.error else [])])


def summary(grants: Mapping[str, Grant], total: Account, turned_away: int) -> Iterator[str]:
    """A line for each key, in the order in which they were given."""
    for name, grant in grants.items():
        yield " · ".join([name, *_figures(grant.tally), *_left(grant.account)])
    if left := _left(total):
        yield " · ".join(["all together", *left])
    if turned_away:
        yield f"{plural(turned_away, 'request')} turned away for want of a good key"


def printable(text: str) -> str:
    """Models and paths are other people's words: no escape sequence of theirs reaches a terminal."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character == "\n" else "·" for character in text)


def _figures(tally: Tally) -> list[str]:
    figures = [plural(tally.requests, "request")]
    if told := _tokens(tally.total.tokens):
        figures += [f"at least {told}" if tally.total.partial else told, _cost(tally.total)]
    numbers = {"refused": tally.refused, "rate limited": tally.rate_limited, "not recorded": tally.unmatched}
    return figures + [f"{number} {what}" for what, number in numbers.items() if number]


def _cost(total: ModelTally) -> str:
    if total.cost_usd is None:
        return "cost unknown"
    known = _usd(total.cost_usd)
    return f"{known} and {plural(total.unpriced, 'request')} without a known price" if total.unpriced else known


def _left(account: Account) -> list[str]:
    """What may have been spent unseen counts as spent, as it does for the cap."""
    left = []
    if (most_usd := account.caps.usd) is not None:
        usd_left = max(Decimal(0), most_usd - account.spent_usd - account.unsure_usd)
        left.append(f"{_usd(usd_left)} of {_usd(most_usd)} left")
    if (most_tokens := account.caps.tokens) is not None:
        tokens_left = max(0, most_tokens - account.spent_tokens - account.unsure_tokens)
        left.append(f"{tokens_left} of {most_tokens} tokens left")
    return left


def _tokens(tokens: Tokens) -> str:
    """Empty if nobody counted any."""
    return ", ".join(f"{count} {kind}" for kind, count in zip(_KINDS, tokens, strict=True) if count is not None)


def _usd(amount: Decimal) -> str:
    return usd(float(amount))
