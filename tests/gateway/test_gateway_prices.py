"""When the gateway loads the price list: with the first call that costs something, and beside its event loop."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any

from gateway_lab import ANTHROPIC, HELLO, PATIENCE_S, scripted_lab, soon

from youbencha.gateway.budget import Caps
from youbencha.gateway.call import Labels
from youbencha.gateway.price_list import PriceList
from youbencha.gateway.prices import Prices


class SlowList(PriceList):
    """Loads only when the test says so. Loaded in the event loop, it would block everything."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = Event(), Event()

    def load(self) -> Any:
        self.begun.set()
        assert self.go_on.wait(PATIENCE_S), "nothing else was served meanwhile"
        return super().load()


async def test_what_costs_nothing_needs_no_prices(tmp_path: Path) -> None:
    prices = PriceList(tmp_path)
    async with scripted_lab(HELLO, tmp_path, prices=Prices(price_list=prices)) as (lab, _):
        await lab.send("GET", "/v1/models", headers=ANTHROPIC.key(lab.access.key))
        await lab.send("POST", "/v1/messages/count_tokens", json=ANTHROPIC.body, headers=ANTHROPIC.key(lab.access.key))
        assert (await lab.ask(key="wrong")).status == 401
        assert not prices.is_loaded
        assert (await lab.ask()).status == 200
        assert prices.is_loaded
        calls = [await lab.call() for _ in range(4)]
    assert [call.cost_usd is None for call in calls] == [True, True, True, False]


async def test_the_event_loop_does_not_wait_for_the_list(tmp_path: Path) -> None:
    prices = SlowList()
    async with scripted_lab(HELLO, tmp_path, prices=Prices(price_list=prices)) as (lab, _):
        capped = lab.gateway.issue(Labels("capped"), caps=Caps(usd=Decimal(1)))
        asking = [asyncio.create_task(lab.ask(key=key)) for key in (lab.access.key, capped.key)]
        assert await asyncio.to_thread(prices.begun.wait, PATIENCE_S)
        assert (await soon(lab.send("GET", "/healthz"))).status == 200
        assert not any(task.done() for task in asking)
        prices.go_on.set()
        assert [(await soon(task)).status for task in asking] == [200, 200]
        assert all([(await lab.call()).cost_usd for _ in asking])


async def test_a_client_that_leaves_while_the_list_is_loaded(tmp_path: Path) -> None:
    prices = SlowList()
    async with scripted_lab(HELLO, tmp_path, prices=Prices(price_list=prices)) as (lab, model):
        capped = lab.gateway.issue(Labels("capped"), caps=Caps(usd=Decimal(1)))
        asking = asyncio.create_task(lab.ask(key=capped.key))
        assert await asyncio.to_thread(prices.begun.wait, PATIENCE_S)
        asking.cancel()
        call = await lab.call()
        prices.go_on.set()
        assert (call.error, call.cost_usd) == ("client_gone", None)
        assert (await lab.ask(key=capped.key)).status == 200
        assert len(model.requests) == 1
