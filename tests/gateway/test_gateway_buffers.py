"""An agent that sends too much or opens too many connections exhausts neither memory nor descriptors."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from gateway_bench import HELLO, asking, scripted_gateway, soon

from youbencha.gateway.keys import MAX_CONNECTIONS, BodyMemory

KIB = 1024


async def _answer(reader: asyncio.StreamReader) -> bytes:
    return (await soon(reader.readline())).split(b" ")[1]


async def test_buffered_bytes_are_bounded(tmp_path: Path) -> None:
    forwarded = tmp_path / "door.sock"
    async with scripted_gateway(HELLO, tmp_path / "bench") as (bench, _):
        await bench.gateway.listen_on(forwarded)
        grant = bench.gateway.keys.find(bench.access.key, None)
        assert grant is not None
        grant.memory = held = BodyMemory(1024 * KIB)
        waiting = []
        for _number in range(3):  # each says that more is to come, and then says nothing
            reader, writer = await asyncio.open_unix_connection(forwarded)
            head = asking(bench.access.key, bytes(500 * KIB))
            writer.write(head[: -10 * KIB])
            await writer.drain()
            waiting.append((reader, writer))
            expected = len(waiting) * 490 * KIB
            if len(waiting) < 3:
                await soon(_until(lambda: held.bytes == expected))  # noqa: B023 - waited for at once
        assert await _answer(waiting[2][0]) == b"413"
        for _, writer in waiting:
            writer.close()
        await soon(_until(lambda: held.bytes == 0))
        assert (await bench.ask(key=bench.access.key)).status == 200
        assert held.bytes == 0


async def test_connections_on_a_socket_are_bounded(tmp_path: Path) -> None:
    forwarded = tmp_path / "door.sock"
    async with scripted_gateway(HELLO, tmp_path / "bench") as (bench, _):
        await bench.gateway.listen_on(forwarded)
        held = [await asyncio.open_unix_connection(forwarded) for _ in range(MAX_CONNECTIONS + 5)]
        refused = 0
        for reader, _ in held[-5:]:
            with suppress(ConnectionError):
                assert await soon(reader.read()) == b""
            refused += 1
        assert refused == 5
        await bench.gateway.listen_on(tmp_path / "other.sock")
        await soon(_served_again(tmp_path / "other.sock"))  # another sandbox's
        for _, writer in held:
            writer.close()
        await soon(_served_again(forwarded))


async def _served_again(forwarded: Path) -> None:
    while True:
        reader, writer = await asyncio.open_unix_connection(forwarded)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n")
        with suppress(ConnectionError):
            if b" 200 " in await reader.readline():
                writer.close()
                return


async def _until(is_so: object) -> None:
    assert callable(is_so)
    while not is_so():
        await asyncio.sleep(0.005)
