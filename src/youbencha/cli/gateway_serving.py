"""Serve `yb gateway`: its keys, a line for each request, totals at the end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from youbencha.cli.serving import Address, StderrWriter
from youbencha.gateway.api import Provider
from youbencha.gateway.budget import Caps
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.ledger import Ledger
from youbencha.gateway.prices import Prices
from youbencha.text import plural, usd

if TYPE_CHECKING:
    from youbencha.gateway.budget import Account
    from youbencha.gateway.cassette.cassette import Cassette
    from youbencha.gateway.keys import KeyTotals, ModelTotals, VirtualKey
    from youbencha.gateway.upstreams import Upstream
    from youbencha.process import Redactor
    from youbencha.usage import Tokens


class ServeOptions(NamedTuple):
    address: Address
    upstreams: Mapping[Provider, Upstream]
    keys: Mapping[str, Caps]
    total: Caps
    prices: Prices
    ledger: Path | None
    cassette: Cassette | None
    redactor: Redactor
    quiet: bool


async def serve(plan: ServeOptions, stop: asyncio.Event) -> None:
    with StderrWriter() as lines, Ledger(plan.ledger) as ledger:
        watch = _Watch(plan, lines)
        served = Gateway(
            upstreams=plan.upstreams,
            prices=plan.prices,
            ledger=ledger,
            cassette=plan.cassette,
            caps=plan.total,
            host=plan.address.host,
            port=plan.address.port,
            on_call=watch.ended,
            with_metrics=True,
        )
        async with served:
            await served.ready()
            keys = {name: served.issue(Labels(name), caps=caps).key for name, caps in plan.keys.items()}
            watch.issued = {name: used for name, key in keys.items() if (used := served.keys.find(key, None))}
            if not plan.address.is_local:
                lines.say(f"warning: others can reach {served.url}; whoever has one of its keys spends your money")
            print(json.dumps({"url": served.url, "keys": keys}), flush=True)
            try:
                await stop.wait()
            finally:
                for key in keys.values():
                    served.end(key)
                for used in watch.issued.values():
                    await served.settled(used)
                if not plan.quiet:
                    _print_totals(plan, watch, served, lines)


def _print_totals(plan: ServeOptions, watch: _Watch, served: Gateway, lines: StderrWriter) -> None:
    for line in summary(watch.issued, served.total, served.keys.refused):
        lines.say(line)
    if plan.cassette is not None:
        lines.say(f"cassette {plan.cassette.directory} · {plan.cassette.recorded} recorded")
    for name, used in watch.issued.items():
        if used.not_recorded is not None:
            lines.say(f"warning: not all answers to {name} are on the cassette: {used.not_recorded}")
    if served.ledger.failure is not None:
        lines.say(f"warning: the ledger could not be written in full: {served.ledger.failure}")


_INVALID_KEY = frozenset({"key_missing", "key_unknown", "key_expired", "key_foreign"})


class _Watch:
    """Prints a line for each request when it has ended."""

    def __init__(self, plan: ServeOptions, lines: StderrWriter) -> None:
        self.issued: dict[str, VirtualKey] = {}
        self._plan = plan
        self._lines = lines

    def ended(self, call: Call) -> None:
        used = self.issued.get(call.labels.key)
        invalid_key = call.error in _INVALID_KEY
        if self._plan.quiet:
            return
        spent = used.totals.total.cost_usd if used and not invalid_key else None
        text = line_of(call, spent)
        if used and call.error == "not_recorded" and used.mismatches:
            text += "\n" + used.mismatches[-1].text
        self._lines.say(self._plan.redactor.text(printable(text)))


# -- the lines for each request, and for each key at the end -------------------------------------------------

_KINDS = ("in", "out", "cache read", "cache write")


def line_of(call: Call, spent: Decimal | None) -> str:
    """`spent` is what all calls of its key have cost so far; None if there is no such key, or it is unknown."""
    parts = [time.strftime("%H:%M:%S", time.localtime(call.at)), call.labels.key, call.model or "–"]
    if not call.billed or call.wire is None:
        parts.append(f"{call.method} {call.path}")
    parts.append("no answer" if call.status is None else str(call.status))
    if counted := _tokens(call.tokens):
        parts += [counted, "cost unknown" if call.cost_usd is None else _usd(call.cost_usd)]
    if spent is not None:
        parts.append(f"total {_usd(spent)}")
    parts += [word for word, holds in (("partial", call.partial), ("replayed", call.replayed)) if holds]
    return " · ".join([*parts, *([call.error] if call.error else [])])


def summary(issued: Mapping[str, VirtualKey], total: Account, turned_away: int) -> Iterator[str]:
    """A line for each key, in the order in which they were given."""
    for name, used in issued.items():
        yield " · ".join([name, *_figures(used.totals), *_left(used.account)])
    if left := _left(total):
        yield " · ".join(["all together", *left])
    if turned_away:
        yield f"{plural(turned_away, 'request')} turned away for want of a good key"


def printable(text: str) -> str:
    """Models and paths come from clients: no escape sequence of theirs reaches a terminal."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character == "\n" else "·" for character in text)


def _figures(totals: KeyTotals) -> list[str]:
    figures = [plural(totals.requests, "request")]
    if counted := _tokens(totals.total.tokens):
        figures += [f"at least {counted}" if totals.total.partial else counted, _cost(totals.total)]
    numbers = {"refused": totals.refused, "rate limited": totals.rate_limited, "not recorded": totals.unmatched}
    return figures + [f"{number} {what}" for what, number in numbers.items() if number]


def _cost(total: ModelTotals) -> str:
    if total.cost_usd is None:
        return "cost unknown"
    known = _usd(total.cost_usd)
    return f"{known} and {plural(total.unpriced, 'request')} without a known price" if total.unpriced else known


def _left(account: Account) -> list[str]:
    """What may have been spent unseen counts as spent, as for the cap."""
    left = []
    if (most_usd := account.caps.usd) is not None:
        usd_left = max(Decimal(0), most_usd - account.spent_usd - account.unseen_usd)
        left.append(f"{_usd(usd_left)} of {_usd(most_usd)} left")
    if (most_tokens := account.caps.tokens) is not None:
        tokens_left = max(0, most_tokens - account.spent_tokens - account.unseen_tokens)
        left.append(f"{tokens_left} of {most_tokens} tokens left")
    return left


def _tokens(tokens: Tokens) -> str:
    """Empty if none are known."""
    return ", ".join(f"{count} {kind}" for kind, count in zip(_KINDS, tokens, strict=True) if count is not None)


def _usd(amount: Decimal) -> str:
    return usd(float(amount))
