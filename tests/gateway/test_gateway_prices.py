"""When the gateway loads the price list: with the first call that costs something, and beside its event loop."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any

from gateway_bench import ANTHROPIC, HELLO, PATIENCE_S, scripted_gateway, soon

from youbencha.gateway.budget import Caps
from youbencha.gateway.call import Labels
from youbencha.gateway.prices import PriceList, Prices


class SlowList(PriceList):
    """Loads only when the test says so. LoadedCase in the event loop, it would block everything."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = Event(), Event()

    def load(self) -> Any:
        self.begun.set()
        assert self.go_on.wait(PATIENCE_S), "nothing else was served meanwhile"
        return super().load()


async def test_free_requests_need_no_prices(tmp_path: Path) -> None:
    prices = PriceList()
    async with scripted_gateway(HELLO, tmp_path, prices=Prices(price_list=prices)) as (bench, _):
        await bench.send("GET", "/v1/models", headers=ANTHROPIC.key(bench.access.key))
        await bench.send(
            "POST", "/v1/messages/count_tokens", json=ANTHROPIC.body, headers=ANTHROPIC.key(bench.access.key)
        )
        assert (await bench.ask(key="wrong")).status == 401
        assert not prices.is_loaded
        assert (await bench.ask()).status == 200
        assert prices.is_loaded
        calls = [await bench.call() for _ in range(4)]
    assert [call.cost_usd is None for call in calls] == [True, True, True, False]


async def test_the_event_loop_does_not_wait_for_the_list(tmp_path: Path) -> None:
    prices = SlowList()
    async with scripted_gateway(HELLO, tmp_path, prices=Prices(price_list=prices)) as (bench, _):
        capped = bench.gateway.issue(Labels("capped"), caps=Caps(usd=Decimal(1)))
        asking = [asyncio.create_task(bench.ask(key=key)) for key in (bench.access.key, capped.key)]
        assert await asyncio.to_thread(prices.begun.wait, PATIENCE_S)
        assert (await soon(bench.send("GET", "/healthz"))).status == 200
        assert not any(task.done() for task in asking)
        prices.go_on.set()
        assert [(await soon(task)).status for task in asking] == [200, 200]
        assert all([(await bench.call()).cost_usd for _ in asking])


async def test_a_client_that_disconnects_while_the_list_is_loaded(tmp_path: Path) -> None:
    prices = SlowList()
    async with scripted_gateway(HELLO, tmp_path, prices=Prices(price_list=prices)) as (bench, model):
        capped = bench.gateway.issue(Labels("capped"), caps=Caps(usd=Decimal(1)))
        asking = asyncio.create_task(bench.ask(key=capped.key))
        assert await asyncio.to_thread(prices.begun.wait, PATIENCE_S)
        asking.cancel()
        call = await bench.call()
        prices.go_on.set()
        assert (call.error, call.cost_usd) == ("client_gone", None)
        assert (await bench.ask(key=capped.key)).status == 200
        assert len(model.requests) == 1
