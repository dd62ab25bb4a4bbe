"""Clients may connect before the server is loaded, and get an error at once if it cannot be loaded."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from gateway_bench import HELLO, asking, gateway_at, scripted_gateway, soon

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.gateway import gateway as gateway_module
from youbencha.gateway.call import Labels
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.ledger import Ledger, read_ledger
from youbencha.gateway.server import GatewayServer

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n"


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The server is loaded when this is set."""
    may_load = threading.Event()

    def load(gateway: Gateway) -> GatewayServer:
        assert may_load.wait(30)
        return GatewayServer(gateway)

    monkeypatch.setattr(gateway_module, "_load_server", load)
    return may_load


async def test_a_request_waits_for_the_server(loading: threading.Event, tmp_path: Path) -> None:
    async with scripted_gateway(HELLO, tmp_path) as (bench, _):
        waiting = asyncio.create_task(bench.ask())
        reader, writer = await asyncio.open_connection(*bench.gateway.url.removeprefix("http://").split(":"))
        writer.write(HEALTH)
        loading.set()
        assert b" 200 " in await soon(reader.readline())
        writer.close()
        assert (await soon(waiting)).status == 200
        await bench.gateway.ready()


@posix_only("Unix sockets")
async def test_a_unix_socket_waits_for_the_server_too(loading: threading.Event, tmp_path: Path) -> None:
    early, late = tmp_path / "early.sock", tmp_path / "late.sock"
    async with scripted_gateway(HELLO, tmp_path / "bench") as (bench, _):
        await bench.gateway.listen_on(early)
        early_reader, early_writer = await asyncio.open_unix_connection(early)
        early_writer.write(asking(bench.access.key))
        loading.set()
        assert b" 200 " in await soon(early_reader.readline())
        await bench.gateway.listen_on(late)
        late_reader, late_writer = await asyncio.open_unix_connection(late)
        late_writer.write(HEALTH)
        assert b" 200 " in await soon(late_reader.readline())
        early_writer.close()
        late_writer.close()
        for path in (early, late):
            bench.gateway.stop_listening(path)
            with pytest.raises(OSError):
                await asyncio.open_unix_connection(path)


@posix_only("Unix sockets")
async def test_a_server_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    may_fail, failed = threading.Event(), asyncio.Event()

    def load(gateway: Gateway) -> GatewayServer:
        assert may_fail.wait(30)
        raise ImportError("no module named aiohttp")

    monkeypatch.setattr(gateway_module, "_load_server", load)
    async with gateway_at("http://127.0.0.1:9", tmp_path / "bench") as bench:
        gateway = bench.gateway
        gateway.on_failure(failed.set)
        await gateway.listen_on(tmp_path / "door.sock")
        waiting = [
            await asyncio.open_connection(*gateway.url.removeprefix("http://").split(":")),
            await asyncio.open_unix_connection(tmp_path / "door.sock"),
        ]
        may_fail.set()
        await soon(failed.wait())
        for reader, writer in waiting:  # no connection is left in the backlog
            with suppress(ConnectionError):
                assert await soon(reader.read()) == b""
            writer.close()
        with pytest.raises(YouBenchaError, match="no module named aiohttp") as caught:
            await gateway.ready()
        assert caught.value.code == "GATEWAY_START_FAILED"
        notified = []
        gateway.on_failure(lambda: notified.append(True))
        assert notified == [True]
        gateway.stop_listening(tmp_path / "door.sock")  # as a trial does when it ends, whose error is the one above


async def test_closing_a_gateway_while_its_server_loads(loading: threading.Event) -> None:
    async with Gateway(upstreams={}) as gateway:
        port = int(gateway.url.rpartition(":")[2])
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)
    loading.set()


async def test_trials_on_one_gateway_have_separate_ledgers(tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.jsonl" for name in ("one", "two")}
    async with scripted_gateway(HELLO, tmp_path) as (bench, _):
        with Ledger(paths["one"]) as one, Ledger(paths["two"]) as two:
            first = bench.gateway.issue(Labels("one"), ledger=one)
            second = bench.gateway.issue(Labels("two"), ledger=two)
            for key in (first.key, second.key, second.key, "sk-yb-unknown"):
                await bench.ask(key=key)
                await bench.call()
            await bench.end(first)
            await bench.ask(key=first.key)
            await bench.call()
        assert (await bench.ask(key=first.key)).status == 401  # its ledger is closed
        await bench.call()
    lines = {name: [(line["key"], line["error"]) for line in read_ledger(path)] for name, path in paths.items()}
    assert lines == {"one": [("one", None), ("one", "key_expired")], "two": [("two", None)] * 2}
    assert [line["error"] for line in bench.lines()] == ["key_unknown"]
