"""A provider that is busy, failing or unreachable."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from gateway_bench import APIS, CHAT, HELLO, Api, Connection, gateway_at, raw_gateway, scripted_gateway, soon, whole

from talking import parse_events
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.cassette.cassette import Cassette
from youbencha.gateway.circuit import FAILURES, Circuit
from youbencha.gateway.keys import KeyTotals
from youbencha.spec.gateway import CassetteMode
from youbencha.usage import Tokens

_OWN = {"date", "server", "connection", "content-length", "transfer-encoding"}
"""Headers of one connection."""


@pytest.mark.parametrize("status", [429, 529])
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.wire)
async def test_a_busy_provider_is_passed_on_untouched(api: Api, status: int, tmp_path: Path) -> None:
    body = b'{"error": {"type": "overloaded_error", "message": "busy"},  "n": 1.0}'
    headers = "Retry-After: 17\r\nx-RateLimit-Left: 0\r\nx-should-retry: true\r\nRequest-Id: req_1\r\n"

    async def answer(connection: Connection) -> None:
        await connection.say(whole(body, f"{status} Busy", headers=headers))

    async with raw_gateway(answer, tmp_path) as (bench, _):
        heard = await bench.ask(api)
        call = await bench.call()
        grant = await bench.end()
    assert (heard.status, heard.raw, heard.headers["content-length"]) == (status, body, str(len(body)))
    assert {name: value for name, value in heard.headers.items() if name not in _OWN} == {
        "content-type": "application/json",
        "retry-after": "17",
        "x-ratelimit-left": "0",
        "x-should-retry": "true",
        "request-id": "req_1",
    }
    assert (call.error, call.retry_after_s, call.upstream_status) == ("rate_limited", 17.0, status)
    assert (call.partial, call.tokens, call.cost_usd) == (False, Tokens(), None)
    assert (grant.totals.rate_limited, grant.totals.total.requests, grant.account.spent_tokens) == (1, 0, 0)


async def test_the_wait_for_a_busy_provider_ends_with_the_next_request(tmp_path: Path) -> None:
    turns = "turns: [{error: {status: 429, headers: {retry-after: 1}}}, {text: hello}]"
    async with scripted_gateway(turns, tmp_path) as (bench, _):
        await bench.ask()
        await bench.call()
        waited = bench.gateway.keys.find(bench.access.key, "127.0.0.1")
        assert waited is not None
        assert waited.totals.provider_wait_s == 0.0
        await bench.ask()
        await bench.call()
        assert waited.totals.provider_wait_s > 0.0


def test_provider_wait_is_the_time_until_the_next_request() -> None:
    totals, busy = KeyTotals(), _call(429, "rate_limited")
    totals.arrived(100.0)
    totals.ended(busy, 101.0)
    totals.arrived(111.5)
    totals.arrived(112.0)  # in parallel: no longer waiting
    totals.ended(_call(200, None), 120.0)
    totals.arrived(150.0)
    totals.ended(busy, 151.0)
    totals.arrived(152.0)
    assert (totals.provider_wait_s, totals.rate_limited, totals.requests) == (11.5, 2, 3)


def _call(status: int, error: str | None) -> Call:
    return Call("1", 0.0, Labels("k"), "POST", "/", None, None, None, status, Tokens(), None, False, error=error,
                upstream_status=status)  # fmt: skip


async def test_a_provider_that_fails_for_one_key_is_asked_for_another(tmp_path: Path) -> None:
    """Also for one with the same name: that of an agent, in every trial."""
    turns = f"turns: [{{error: {{status: 500}}, times: {FAILURES}}}, {{text: hello, times: forever}}]"
    async with scripted_gateway(f"across_sessions: true\n{turns}", tmp_path) as (bench, _):
        other = bench.gateway.issue(Labels("trial-1"))
        for _ in range(FAILURES):
            assert (await bench.ask()).status == 500
        assert [(await bench.ask()).status, (await bench.ask(key=other.key)).status] == [503, 200]


async def test_a_failing_provider_opens_the_circuit(tmp_path: Path) -> None:
    turns = "turns: [{error: {status: 500, message: sorry}, times: forever}]"
    async with scripted_gateway(turns, tmp_path) as (bench, model):
        failed = [await bench.ask() for _ in range(FAILURES)]
        refused = [await bench.ask(api) for api in APIS]
        calls = [await bench.call() for _ in range(FAILURES + len(APIS))]
        grant = await bench.end()
    assert [answer.status for answer in failed] == [500] * FAILURES
    assert all(b"sorry" in answer.raw for answer in failed)
    assert (refused[0].status, refused[0].headers["x-should-retry"]) == (503, "false")
    assert refused[0].json["error"]["type"] == "api_error"
    assert [answer.status for answer in refused[1:]] == [500] * 3  # the others' circuits are their own
    assert len(model.requests) == FAILURES + 3
    assert [call.error for call in calls[:7]] == ["provider_failed"] * FAILURES + ["circuit_open"]
    assert (calls[6].upstream_status, calls[6].partial, grant.totals.circuit_refusals) == (None, False, 1)


async def test_a_success_in_between_keeps_the_circuit_closed(tmp_path: Path) -> None:
    turns = "turns: [{error: {status: 503}, times: 5}, {text: a}, {error: {status: 500}, times: 5}, {text: b}]"
    async with scripted_gateway(turns, tmp_path) as (bench, _):
        statuses = [(await bench.ask()).status for _ in range(12)]
    assert statuses == [503] * 5 + [200] + [500] * 5 + [200]


async def test_client_errors_do_not_open_the_circuit(tmp_path: Path) -> None:
    turns = "turns: [{error: {status: 400}, times: 8}, {error: {status: 429}, times: 8}, {text: hello}]"
    async with scripted_gateway(turns, tmp_path) as (bench, _):
        statuses = [(await bench.ask()).status for _ in range(17)]
        calls = [await bench.call() for _ in range(17)]
    assert statuses[-1] == 200
    assert [calls[0].error, calls[8].error, calls[16].error] == ["provider_refused", "rate_limited", None]


async def test_an_unreachable_upstream(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    async with gateway_at(url, tmp_path) as bench:
        answers = [await bench.ask() for _ in range(FAILURES + 1)]
        call = await bench.call()
        other = await bench.ask(CHAT)
        grant = await bench.end()
    assert [answer.status for answer in answers] == [502] * FAILURES + [503]
    assert "anthropic does not answer" in answers[0].json["error"]["message"]
    assert "x-should-retry" not in answers[0].headers  # one lost connection must not end a trial
    assert answers[-1].headers["x-should-retry"] == "false"
    assert (call.error, call.partial, call.upstream_status) == ("upstream_unreachable", False, None)
    assert (other.json["error"]["type"], grant.account.unseen_tokens) == ("server_error", 0)


async def test_a_rejected_key_is_not_tried_for_minutes(tmp_path: Path) -> None:
    async with scripted_gateway("turns: [{error: {status: 401}}]", tmp_path) as (bench, _):
        heard = await bench.ask()
    assert (heard.status, heard.headers["x-should-retry"]) == (401, "false")


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async def answer(connection: Connection) -> None:
        await connection.say(whole(b"", "307 Temporary Redirect", headers="Location: /v1/elsewhere\r\n"))

    async with raw_gateway(answer, tmp_path) as (bench, upstream):
        heard = await bench.ask()
        call = await bench.call()
    assert (heard.status, heard.headers["location"], len(upstream.seen)) == (307, "/v1/elsewhere", 1)
    assert call.partial is False


async def test_a_provider_without_a_key(tmp_path: Path) -> None:
    async with scripted_gateway(HELLO, tmp_path, upstreams={}) as (bench, _):
        answers = [await bench.ask(api) for api in APIS]
        call = await bench.call()
    assert {answer.status for answer in answers} == {400}
    assert (call.error, call.partial) == ("no_upstream", False)


async def test_a_client_that_disconnects_does_not_keep_the_circuit_open(tmp_path: Path) -> None:
    """The one request that is let through to see must not be lost."""
    asked = asyncio.Event()

    async def answer(connection: Connection) -> None:
        asked.set()
        await connection.reader.read()

    async with raw_gateway(answer, tmp_path) as (bench, _):
        await bench.gateway.ready()
        key = bench.gateway.keys.find(bench.access.key, None)
        assert key is not None
        circuit = key.circuits["anthropic"] = Circuit(failures=1, open_s=0.0)
        circuit.failed(0.0)
        leaving = asyncio.create_task(bench.ask())
        await soon(asked.wait())
        leaving.cancel()
        assert (await bench.call()).error == "client_gone"
        assert circuit.wait_s(1.0) == 0.0


def test_circuit_timing() -> None:
    circuit = Circuit(failures=3, open_s=30.0)
    for now in (1.0, 2.0):
        circuit.failed(now)
    assert (circuit.wait_s(2.0), circuit.is_open) == (0.0, False)
    circuit.failed(3.0)
    assert (circuit.wait_s(3.0), circuit.wait_s(13.0), circuit.is_open) == (30.0, 20.0, True)
    assert circuit.wait_s(33.0) == 0.0  # one goes through,
    assert circuit.wait_s(33.0) > 0.0  # the others do not
    circuit.failed(34.0)
    assert circuit.wait_s(34.0) == 30.0
    assert circuit.wait_s(64.0) == 0.0
    circuit.succeeded()
    assert (circuit.wait_s(64.0), circuit.is_open) == (0.0, False)
    circuit.failed(65.0)
    assert circuit.wait_s(65.0) == 0.0  # counted from the start again


def test_an_undecided_probe_allows_another() -> None:
    circuit = Circuit(failures=1, open_s=30.0)
    circuit.failed(0.0)
    assert circuit.wait_s(30.0) == 0.0
    circuit.undecided()
    assert circuit.wait_s(30.0) == 0.0


RECORDED = {
    "rate limit": ("turns: [{error: {status: 429}, times: forever}]", 1),
    "rate limit, then an answer": ("turns: [{error: {status: 429}}, {text: hello}]", 2),
    "wrong key": ("turns: [{error: {status: 401}, times: forever}]", 1),
    "server error": ("turns: [{error: {status: 500}, times: forever}]", 1),
    "error in a stream": ("turns: [{text: hello, error_mid_stream: {status: 529}}]", 1),
    "cut": ("turns: [{text: hello, drop: {after_events: 4}}]", 1),
}


@pytest.mark.parametrize(("script", "asked"), RECORDED.values(), ids=RECORDED)
async def test_a_client_gets_recorded_trouble_again(tmp_path: Path, script: str, asked: int) -> None:
    """As the client and the ledger saw it; but a rate limit that has passed is not waited for again."""

    async def last(mode: CassetteMode, times: int) -> list[Any]:
        """What the client gets in the end: an answer, or a connection that is cut off."""
        seen: list[Any] = []
        cassette = Cassette(tmp_path / "tape", mode)
        async with scripted_gateway(script, tmp_path / mode, cassette=cassette) as (bench, _):
            for _ in range(times):
                try:
                    answer = await bench.ask()
                    content = parse_events(answer.raw) if answer.raw.startswith(b"event:") else json.loads(answer.raw)
                    seen = [answer.status, answer.headers.get("x-should-retry"), content]
                except aiohttp.ClientPayloadError:
                    seen = ["cut"]
                call = await bench.call()
            return [*seen, call.error, call.partial, call.tokens, call.upstream_status in (429, 529)]

    assert await last("record", asked) == await last("replay", 1)
