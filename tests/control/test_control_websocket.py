"""The WebSocket server: who may connect, which messages arrive, and how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSServerHandshakeError

from systems import posix_only
from youbencha.adapters.claude_code.control import ControlProtocol, Timeouts
from youbencha.adapters.claude_code.transports import ControlServer, Driver, Frames, WebSocketTransport
from youbencha.sandbox.base import ForwardedPort

PATIENCE_S = 30.0
RESULT = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}
WELCOME = {
    "type": "control_response",
    "response": {"subtype": "success", "request_id": "youbencha-initialize", "response": {}},
}


class Ears:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.send: Callable[[str], None] | None = None
        self.opened_times = 0
        self.is_gone = asyncio.Event()
        self._news = asyncio.Event()

    def connected(self, send: Callable[[str], None]) -> None:
        self.send = send
        self.opened_times += 1

    def received(self, line: str) -> None:
        self.lines.append(line)
        self._news.set()

    def disconnected(self) -> None:
        self.is_gone.set()

    async def lines_are(self, expected: list[str]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.lines) < len(expected):
                self._news.clear()
                await self._news.wait()
        assert self.lines == expected


@pytest.fixture
async def client() -> AsyncIterator[ClientSession]:
    async with ClientSession() as session:
        yield session


@pytest.fixture
async def ears() -> Ears:
    return Ears()


@pytest.fixture
async def server(ears: Ears) -> AsyncIterator[ControlServer]:
    found = ControlServer(ears, token="the-token")
    yield found
    await found.close()


async def refused(client: ClientSession, url: str, **more: Any) -> int:
    with pytest.raises(WSServerHandshakeError) as error:
        await client.ws_connect(url, **more)
    return error.value.status


async def test_only_clients_with_the_token_that_are_not_browsers(
    client: ClientSession, server: ControlServer, ears: Ears
) -> None:
    address = f"http://127.0.0.1:{await server.listen_on_port()}"
    for path in ("/", "/another", "/the-token/", "/the-token%2f", "/?the-token"):
        assert await refused(client, address + path) == 403, path
    assert await refused(client, address + "/the-token", origin="http://127.0.0.1") == 403
    assert ears.opened_times == 0
    async with client.ws_connect(address + "/the-token"):
        assert await refused(client, address + "/the-token") == 409
    assert ears.opened_times == 1


async def test_it_listens_on_loopback_only(server: ControlServer) -> None:
    port = await server.listen_on_port()
    assert [address[0] for address in server._runner.addresses] == ["127.0.0.1"]  # type: ignore[union-attr]
    assert port > 0


async def test_messages_both_ways(client: ClientSession, server: ControlServer, ears: Ears) -> None:
    """Several in a frame, one in two frames, one without its line feed, one of 20 MB, one that is binary."""
    port = await server.listen_on_port()
    large = json.dumps({"type": "assistant", "text": "x" * 20_000_000})
    async with client.ws_connect(f"http://127.0.0.1:{port}/the-token", max_msg_size=0) as connection:
        await connection.send_str('{"a": 1}\n{"b": 2}\n')
        await connection.send_str('{"c": ')
        await connection.send_str("3}\n")
        await connection.send_str('{"d": 4}')
        await connection.send_str("not json")
        await connection.send_str('{"e": 5}\n')
        await connection.send_str(large + "\n")
        await connection.send_bytes('{"f": "ü"}\n'.encode())
        expected = ['{"a": 1}', '{"b": 2}', '{"c": 3}', '{"d": 4}', "not json", '{"e": 5}', large, '{"f": "ü"}']
        await ears.lines_are(expected)
        assert ears.send is not None
        ears.send("one\n")
        ears.send("two\n")
        assert [await said(connection), await said(connection)] == ["one\n", "two\n"]


async def said(connection: ClientWebSocketResponse) -> str:
    message = await connection.receive(PATIENCE_S)
    assert message.type is aiohttp.WSMsgType.TEXT, message
    return str(message.data)


async def test_a_broken_connection_may_reconnect(client: ClientSession, server: ControlServer, ears: Ears) -> None:
    """What was said in between is not lost."""
    url = f"http://127.0.0.1:{await server.listen_on_port()}/the-token"
    async with client.ws_connect(url) as connection:
        await connection.send_str('{"a": 1}\n')
        await ears.lines_are(['{"a": 1}'])
    async with asyncio.timeout(PATIENCE_S):
        while server._connection is not None:
            await asyncio.sleep(0.01)
    assert ears.send is not None
    ears.send("meanwhile\n")
    async with client.ws_connect(url) as connection:
        assert await said(connection) == "meanwhile\n"
        await connection.send_str('{"b": 2}\n')
        await ears.lines_are(['{"a": 1}', '{"b": 2}'])
    assert (ears.opened_times, ears.is_gone.is_set()) == (1, False)


async def test_a_client_that_does_not_reconnect_is_gone(
    client: ClientSession, server: ControlServer, ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("youbencha.adapters.claude_code.transports._RECONNECT_TIMEOUT_S", 0.05)
    url = f"http://127.0.0.1:{await server.listen_on_port()}/the-token"
    async with client.ws_connect(url):
        pass
    async with asyncio.timeout(PATIENCE_S):
        await ears.is_gone.wait()


async def test_closing_the_connection(client: ClientSession, server: ControlServer, ears: Ears) -> None:
    """With the one close code that makes an agent leave; and who comes again is sent away."""
    url = f"http://127.0.0.1:{await server.listen_on_port()}/the-token"
    async with client.ws_connect(url) as connection:
        waiting = asyncio.create_task(connection.receive(PATIENCE_S))
        await server.hang_up("goodbye\n")
        assert (await waiting).data == "goodbye\n"
        assert (await connection.receive(PATIENCE_S)).type is aiohttp.WSMsgType.CLOSE
        assert connection.close_code == 1002
    assert await refused(client, url) == 410
    assert not ears.is_gone.is_set()


@posix_only("there are no Unix sockets for asyncio")
async def test_a_session_over_a_unix_socket(tmp_path: Path) -> None:
    """As in a sandbox, whose door leads to it. What was said is there as output, too."""
    forwarded = ForwardedPort(tmp_path / "control.sock", "127.0.0.1:9876")
    loop = asyncio.get_running_loop()
    driver = Driver(ControlProtocol("Do it.", timeouts=Timeouts(), now=loop.time()))
    async with WebSocketTransport(driver, forwarded=forwarded) as line:
        assert line.flags[0] == "--sdk-url"
        assert line.flags[1].startswith("ws://127.0.0.1:9876/")
        connector = aiohttp.UnixConnector(path=str(forwarded.socket))
        async with (
            ClientSession(connector=connector) as session,
            session.ws_connect(line.flags[1].replace("ws:", "http:")) as connection,
        ):
            assert json.loads(await said(connection))["request"]["subtype"] == "initialize"
            await connection.send_str(json.dumps(WELCOME) + "\n")
            assert json.loads(await said(connection))["message"]["content"][0]["text"] == "Do it."
            await connection.send_str(json.dumps(RESULT) + "\n")
            async with asyncio.timeout(PATIENCE_S):
                await line.stop.wait()
        output = b"".join(source.read() for source in line.sources)
    assert [json.loads(splitline) for splitline in output.splitlines()] == [WELCOME, RESULT]
    assert driver.ended is not None
    assert driver.ended.ok


def test_frames_of_any_cut() -> None:
    """However a stream of lines is cut, the messages are the same."""
    text = '{"a": "x\\ny"}\n\n{"b": {"c": 2}}\n{"d": 3}'
    for first in range(len(text)):
        for second in range(first, len(text)):
            frames = Frames()
            pieces = (text[:first], text[first:second], text[second:])
            found = [line for piece in pieces for line in frames.feed(piece)] + frames.finish()
            assert found == ['{"a": "x\\ny"}', '{"b": {"c": 2}}', '{"d": 3}'], pieces
