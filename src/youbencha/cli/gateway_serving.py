"""Serve `yb gateway`: issue its keys, print a line for each request, and a summary at the end."""

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
from youbencha.text import count, plural, usd

if TYPE_CHECKING:
    from youbencha.gateway.budget import Account
    from youbencha.gateway.cassette.cassette import Cassette
    from youbencha.gateway.keys import KeyTotals, ModelTotals, VirtualKey
    from youbencha.gateway.upstreams import Upstream
    from youbencha.process import Redactor
    from youbencha.usage import Tokens


_INVALID_KEY = frozenset({"key_missing", "key_unknown", "key_expired", "key_foreign"})
_KINDS = ("in", "out", "cache read", "cache write")


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


async def serve(options: ServeOptions, stop: asyncio.Event) -> None:
    """Serve until `stop` is set."""
    with StderrWriter() as lines, Ledger(options.ledger) as ledger:
        printer = _CallPrinter(options, lines)
        gateway = Gateway(
            upstreams=options.upstreams,
            prices=options.prices,
            ledger=ledger,
            cassette=options.cassette,
            caps=options.total,
            host=options.address.host,
            port=options.address.port,
            on_call=printer.print_call,
            with_metrics=True,
        )
        async with gateway:
            await gateway.ready()
            secrets = {name: gateway.issue(Labels(name), caps=caps).key for name, caps in options.keys.items()}
            printer.keys = {name: key for name, each in secrets.items() if (key := gateway.keys.find(each, None))}
            if not options.address.is_local:
                lines.say(f"warning: {gateway.url} can be reached from other machines; its keys spend your money")
            print(json.dumps({"url": gateway.url, "keys": secrets}), flush=True)
            try:
                await stop.wait()
            finally:
                for each in secrets.values():
                    gateway.end(each)
                for key in printer.keys.values():
                    await gateway.settled(key)
                if not options.quiet:
                    _print_summary(options, printer.keys, gateway, lines)


def _print_summary(
    options: ServeOptions, keys: Mapping[str, VirtualKey], gateway: Gateway, lines: StderrWriter
) -> None:
    for line in summary(keys, gateway.total, gateway.keys.refused):
        lines.say(line)
    if options.cassette is not None:
        lines.say(f"cassette {options.cassette.directory} · {options.cassette.recorded} recorded")
    for name, key in keys.items():
        if key.cassette and (why := key.cassette.doubts()):
            lines.say(f"warning: a replay of {name} may fail: {why}")
    if gateway.ledger.failure is not None:
        lines.say(f"warning: the ledger is incomplete: {gateway.ledger.failure}")


class _CallPrinter:
    """Prints a line for each request when it has ended."""

    def __init__(self, options: ServeOptions, lines: StderrWriter) -> None:
        self.keys: dict[str, VirtualKey] = {}
        self._options = options
        self._lines = lines

    def print_call(self, call: Call) -> None:
        if self._options.quiet:
            return
        key = self.keys.get(call.labels.key)
        spent = key.totals.total.cost_usd if key and call.error not in _INVALID_KEY else None
        text = line_of(call, spent)
        if key and call.error == "not_recorded" and key.mismatches:
            text += "\n" + key.mismatches[-1].text
        self._lines.say(self._options.redactor.text(printable(text)))


def line_of(call: Call, spent: Decimal | None) -> str:
    """The line for a request. `spent` is the cost of all calls of the key so far; None if that is unknown."""
    parts = [time.strftime("%H:%M:%S", time.localtime(call.at)), call.labels.key, call.model or "–"]
    if not call.billed or call.wire is None:
        parts.append(f"{call.method} {call.path}")
    parts.append("no answer" if call.status is None else str(call.status))
    if counts := _tokens(call.tokens):
        parts += [counts, "cost unknown" if call.cost_usd is None else _usd(call.cost_usd)]
    if spent is not None:
        parts.append(f"total {_usd(spent)}")
    parts += [word for word, is_so in (("partial", call.partial), ("replayed", call.replayed)) if is_so]
    return " · ".join([*parts, *([call.error] if call.error else [])])


def summary(keys: Mapping[str, VirtualKey], total: Account, without_valid_key: int) -> Iterator[str]:
    """Yield a line for each key, in the order of the command line, and one for the total."""
    for name, key in keys.items():
        yield " · ".join([name, *_figures(key.totals), *_left(key.account)])
    if left := _left(total):
        yield " · ".join(["all together", *left])
    if without_valid_key:
        verb = "was" if without_valid_key == 1 else "were"
        yield f"{plural(without_valid_key, 'request')} without a valid key {verb} refused"


def printable(text: str) -> str:
    """Replace control characters: clients choose models and paths, which must not send escapes to a terminal."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character == "\n" else "·" for character in text)


def _figures(totals: KeyTotals) -> list[str]:
    figures = [plural(totals.requests, "request")]
    if counts := _tokens(totals.total.tokens):
        figures += [f"at least {counts}" if totals.total.partial else counts, _cost(totals.total)]
    numbers = {"refused": totals.refused, "rate limited": totals.rate_limited, "not recorded": totals.unmatched}
    return figures + [f"{count(number)} {what}" for what, number in numbers.items() if number]


def _cost(total: ModelTotals) -> str:
    if total.cost_usd is None:
        return "cost unknown"
    known = _usd(total.cost_usd)
    return f"{known} and {plural(total.unpriced, 'request')} without a known price" if total.unpriced else known


def _left(account: Account) -> list[str]:
    """Return what is left of each cap. Cost that could not be measured counts as spent, as it does for the cap."""
    left = []
    if (most_usd := account.caps.usd) is not None:
        usd_left = most_usd - account.spent_usd - account.unseen_usd
        most = _usd(most_usd)
        left.append(f"{_usd(-usd_left)} over {most}" if usd_left < 0 else f"{_usd(usd_left)} of {most} left")
    if (most_tokens := account.caps.tokens) is not None:
        tokens_left = most_tokens - account.spent_tokens - account.unseen_tokens
        over = f"{count(-tokens_left)} tokens over {count(most_tokens)}"
        left.append(over if tokens_left < 0 else f"{count(tokens_left)} of {count(most_tokens)} tokens left")
    return left


def _tokens(tokens: Tokens) -> str:
    """Return the known counts as text; empty if none is known."""
    known = ((kind, number) for kind, number in zip(_KINDS, tokens, strict=True) if number is not None)
    return ", ".join(f"{count(number)} {kind}" for kind, number in known)


def _usd(amount: Decimal) -> str:
    return usd(float(amount))
