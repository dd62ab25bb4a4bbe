"""Budgets over HTTP: many concurrent calls, and none exceeds the budget."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from gateway_bench import (
    ANTHROPIC,
    APIS,
    CHAT,
    RESPONSES,
    START,
    STREAM_HEAD,
    Answer,
    Api,
    Connection,
    GatewayBench,
    asking,
    chunk,
    raw_client,
    raw_gateway,
    scripted_gateway,
)

from youbencha.gateway.budget import Caps
from youbencha.gateway.call import Labels
from youbencha.gateway.prices import Prices
from youbencha.spec.gateway import ModelPrice

PRICES = Prices({"*": ModelPrice(input=1, output=1, cache_read=1, cache_write=1)})
EACH = 150
"""Tokens that a call takes, of these prices a dollar for each million."""
SCRIPT = json.dumps(
    {
        "usage": {
            "input_tokens": 100,
            "output_tokens": 50,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        },
        "turns": [{"text": "hello", "times": "forever"}],
    }
)
MANY = 50
each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.wire)


def _worst(api: Api) -> int:
    return len(json.dumps(api.request()[1])) + 100


async def _ask_all(bench: GatewayBench, api: Api, *keys: str) -> list[Answer]:
    asked = (bench.ask(api, key=keys[number % len(keys)], stream=bool(number % 2)) for number in range(MANY))
    return await asyncio.gather(*asked)


def _refused(api: Api, body: Any) -> str:
    """The message of a 402, which must be as the API words it."""
    error = body["error"]
    match api.wire:
        case "anthropic-messages":
            assert set(body) == {"type", "error"}
            assert (body["type"], error["type"]) == ("error", "billing_error")
        case "gemini":
            assert (error["code"], error["status"]) == (402, "FAILED_PRECONDITION")
        case _:
            assert (error["type"], error["code"], error["param"]) == ("insufficient_quota", "insufficient_quota", None)
    return str(error["message"])


@pytest.mark.parametrize("caps", [Caps(usd=Decimal("0.001")), Caps(tokens=1000)], ids=["usd", "tokens"])
@each_api
async def test_fifty_concurrent_calls(api: Api, caps: Caps, tmp_path: Path) -> None:
    async with scripted_gateway(SCRIPT, tmp_path, prices=PRICES) as (bench, model):
        access = bench.gateway.issue(Labels("capped"), caps=caps)
        answers = await _ask_all(bench, api, access.key)
        grant = await bench.end(access)
        calls = [await bench.call() for _ in range(MANY)]
    served = [answer for answer in answers if answer.status == 200]
    refused = [answer for answer in answers if answer.status != 200]
    spent = len(served) * EACH
    assert 1000 <= spent <= 1000 + _worst(api)
    assert grant.account.spent_tokens == spent
    assert grant.account.spent_usd == Decimal(spent) / 1_000_000
    assert (grant.account.reserved_tokens, grant.account.exceeded) == (0, True)
    assert len(model.requests) == len(served)
    spent_status = 400 if api is RESPONSES else 402  # Codex would go on at 402
    for answer in refused:
        assert (answer.status, answer.headers["x-should-retry"]) == (spent_status, "false")
        assert "the budget is spent" in _refused(api, answer.json)
    assert sorted({(call.status, call.error) for call in calls}, key=str) == [
        (200, None),
        (spent_status, "budget_exceeded"),
    ]
    assert (grant.totals.refused, grant.totals.total.requests) == (len(refused), len(served))
    assert grant.totals.refusal is not None
    assert "the budget is spent" in grant.totals.refusal


async def test_a_cap_over_two_keys(tmp_path: Path) -> None:
    total = Caps(usd=Decimal("0.001"))
    async with scripted_gateway(SCRIPT, tmp_path, prices=PRICES, caps=total) as (bench, model):
        rich, poor = bench.gateway.issue(Labels("rich")), bench.gateway.issue(Labels("poor"), caps=Caps(tokens=300))
        answers = await _ask_all(bench, ANTHROPIC, rich.key, poor.key)
        grants = [await bench.end(access) for access in (rich, poor)]
    served = sum(answer.status == 200 for answer in answers)
    assert 1000 <= served * EACH <= 1000 + _worst(ANTHROPIC)
    assert bench.gateway.total.spent_tokens == served * EACH == sum(grant.account.spent_tokens for grant in grants)
    assert grants[1].account.spent_tokens <= 300 + _worst(ANTHROPIC)
    assert {answer.status for answer in answers} == {200, 402}
    assert len(model.requests) == served
    assert bench.gateway.total.exceeded


@each_api
async def test_a_cap_in_dollars_needs_a_price(api: Api, tmp_path: Path) -> None:
    async with scripted_gateway(SCRIPT, tmp_path, prices=Prices()) as (bench, model):
        access = bench.gateway.issue(Labels("capped"), caps=Caps(usd=Decimal(1)))
        changed = {**api.__dict__, "path": api.path.replace("gemini-2.5-pro", "nobody-knows-me")}
        answer = await bench.ask(
            Api(**{**changed, "stream_path": None}), key=access.key, stream=False, model="nobody-knows-me"
        )
        call = await bench.call()
        grant = await bench.end(access)
    message = answer.json["error"]["message"]
    assert (answer.status, answer.headers["x-should-retry"]) == (400, "false")
    assert "nobody-knows-me" in message
    assert "gateway.prices" in message
    assert (call.error, call.upstream_status, model.requests) == ("price_unknown", None, [])
    assert message.removeprefix("youBencha: ") == grant.totals.no_price


@pytest.mark.parametrize("per_call", [Caps(usd=Decimal("0.0001")), Caps(tokens=100)], ids=["usd", "tokens"])
async def test_a_cap_for_each_call(per_call: Caps, tmp_path: Path) -> None:
    async with scripted_gateway(SCRIPT, tmp_path, prices=PRICES) as (bench, model):
        access = bench.gateway.issue(Labels("capped"), per_call=per_call)
        answer = await bench.ask(key=access.key)
        call = await bench.call()
        grant = await bench.end(access)
    assert grant.totals.refusal is not None
    assert grant.totals.refusal in _refused(ANTHROPIC, answer.json)
    assert (answer.status, call.error, grant.totals.refused, model.requests) == (402, "call_over_cap", 1, [])


async def test_a_call_without_a_limit_has_a_large_reservation(tmp_path: Path) -> None:
    """Of a token cap, too: what a client does not limit is not small."""
    async with scripted_gateway(SCRIPT, tmp_path) as (bench, _):
        access = bench.gateway.issue(Labels("capped"), per_call=Caps(tokens=50_000))
        assert (await bench.ask(CHAT, key=access.key)).status == 200
        assert (await bench.ask(CHAT, key=access.key, max_tokens=None)).status == 402


async def test_free_requests_pass_after_the_budget_is_spent(tmp_path: Path) -> None:
    async with scripted_gateway(SCRIPT, tmp_path) as (bench, _):
        access = bench.gateway.issue(Labels("capped"), caps=Caps(tokens=0))
        key = ANTHROPIC.key(access.key)
        assert (await bench.ask(key=access.key)).status == 402
        counted = await bench.send("POST", "/v1/messages/count_tokens", json=dict(ANTHROPIC.body), headers=key)
        assert counted.status == 200
        assert (await bench.send("GET", "/v1/models", headers=key)).status == 200


async def test_errors_of_the_provider_are_free(tmp_path: Path) -> None:
    turns = "turns: [{error: {status: 429}}, {error: {status: 400}}, {error: {status: 500}}, {text: hello}]"
    async with scripted_gateway(turns, tmp_path) as (bench, _):
        access = bench.gateway.issue(Labels("capped"), caps=Caps(tokens=1))
        statuses = [(await bench.ask(key=access.key)).status for _ in range(4)]
    assert statuses == [429, 400, 500, 200]


async def test_input_outside_the_request_is_reserved(tmp_path: Path) -> None:
    """A few bytes can make a provider read a million tokens: no fifty such requests go at once."""
    usage = {"input_tokens": 200_000, "output_tokens": 16}
    script = json.dumps({"usage": usage, "turns": [{"text": "hello", "times": "forever"}]})
    async with scripted_gateway(script, tmp_path, prices=PRICES) as (bench, model):
        access = bench.gateway.issue(Labels("capped"), caps=Caps(tokens=100_000))
        asked = (bench.ask(RESPONSES, key=access.key, previous_response_id="resp_1", stream=False) for _ in range(MANY))
        answers = await asyncio.gather(*asked)
    assert [answer.status for answer in answers].count(200) == len(model.requests) == 1


async def test_a_call_cut_off_early_counts_with_its_reservation(tmp_path: Path) -> None:
    async def answer(connection: Connection) -> None:
        await connection.say(STREAM_HEAD, b"\r\n", chunk(START))
        await connection.reader.read()

    async with raw_gateway(answer, tmp_path) as (bench, _):
        access = bench.gateway.issue(Labels("capped"), caps=Caps(tokens=100))
        async with raw_client(bench, asking(access.key)) as client:
            await client.until(b"message_start")
            client.leave()
            await bench.call()
        assert (await bench.ask(key=access.key)).status == 402
        grant = await bench.end(access)
    assert (grant.account.spent_tokens, grant.account.unseen_tokens) == (12, 99)  # seen, and the rest of 100
