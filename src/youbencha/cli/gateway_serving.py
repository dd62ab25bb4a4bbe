"""`yb gateway` while it serves: its keys, a line for each request, the sums at the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from youbencha.cli.gateway_lines import line_of, printable, summary
from youbencha.cli.serving import Address, LiveLines
from youbencha.gateway.model import Call, Caps, Labels
from youbencha.gateway.prices import Prices
from youbencha.gateway.routes import Provider
from youbencha.gateway.server import Gateway

if TYPE_CHECKING:
    from youbencha.gateway.cassette import Cassette
    from youbencha.gateway.keys import Grant
    from youbencha.gateway.upstreams import Upstream
    from youbencha.process import Redactor


class Plan(NamedTuple):
    address: Address
    upstreams: Mapping[Provider, Upstream]
    keys: Mapping[str, Caps]
    total: Caps
    prices: Prices
    ledger: Path | None
    cassette: Cassette | None
    redactor: Redactor
    quiet: bool


async def serve(plan: Plan, stop: asyncio.Event) -> None:
    with LiveLines() as lines:
        watch = _Watch(plan, lines)
        served = Gateway(
            upstreams=plan.upstreams,
            prices=plan.prices,
            ledger=plan.ledger,
            cassette=plan.cassette,
            caps=plan.total,
            host=plan.address.host,
            port=plan.address.port,
            on_call=watch.ended,
            with_metrics=True,
        )
        async with served:
            keys = {name: served.issue(Labels(name), caps=caps).key for name, caps in plan.keys.items()}
            watch.grants = {name: grant for name, key in keys.items() if (grant := served.keys.find(key, None))}
            if not plan.address.is_local:
                lines.say(f"warning: others can reach {served.url}; whoever has one of its keys spends your money")
            print(json.dumps({"url": served.url, "keys": keys}), flush=True)
            try:
                await stop.wait()
            finally:
                for key in keys.values():
                    served.end(key)
                for grant in watch.grants.values():
                    await served.settled(grant)
                if not plan.quiet:
                    _conclude(plan, watch, served, lines)


def _conclude(plan: Plan, watch: _Watch, served: Gateway, lines: LiveLines) -> None:
    for line in summary(watch.grants, served.total, served.refused_keys):
        lines.say(line)
    if plan.cassette is not None:
        lines.say(f"cassette {plan.cassette.directory} · {plan.cassette.recorded} recorded")
    for name, grant in watch.grants.items():
        if grant.not_recorded is not None:
            lines.say(f"warning: not all answers to {name} are on the cassette: {grant.not_recorded}")
    if served.ledger_failure is not None:
        lines.say(f"warning: the ledger could not be written in full: {served.ledger_failure}")


_TURNED_AWAY = frozenset({"key_missing", "key_unknown", "key_expired", "key_foreign"})


class _Watch:
    """Tells of each request, when it has ended."""

    def __init__(self, plan: Plan, lines: LiveLines) -> None:
        self.grants: dict[str, Grant] = {}
        self._plan = plan
        self._lines = lines

    def ended(self, call: Call) -> None:
        grant = self.grants.get(call.labels.key)
        turned_away = call.error in _TURNED_AWAY
        if self._plan.quiet:
            return
        spent = grant.tally.total.cost_usd if grant and not turned_away else None
        text = line_of(call, spent)
        if grant and call.error == "not_recorded" and grant.mismatches:
            text += "\n" + grant.mismatches[-1].text
        self._lines.say(self._plan.redactor.text(printable(text)))
