"""The keys of a trial at the gateway of a driver, which is on another machine. The other end is `lending.py`."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
import orjson

from youbencha.errors import YouBenchaError
from youbencha.gateway.access import GatewayAccess
from youbencha.gateway.cassette.matching import Places
from youbencha.gateway.keys import EndedKey, KeyRole, KeyWarning
from youbencha.gateway.lending import CONTROL_PREFIX
from youbencha.store.bundle import GatewayReport

_GONE_AFTER_S = 60.0
"""Without a sign of the driver. A trial is worth more than a minute of a network that fails."""

_REACHABLE = "Nodes must be able to reach this address, as long as the run takes."

_SILENCE_S = 10.0
"""How long a connection may be silent, on which a line arrives every second."""

_ANSWER_WITHIN_S = 30.0
_RETRY_AFTER_S = 0.5
_MAX_CONNECTIONS = 256
"""Maximum number at one socket of a sandbox. Each uses two file descriptors."""
_PIECE = 64 * 1024

Result = TypeVar("Result")


class RemoteKeys:
    """Keys at the gateway of a driver. Implements `TrialKeys` during its `async with` block.

    The driver decides their caps, scope and account, and writes the ledger. A key is valid only for this machine, at
    any of its sockets, because the driver cannot see which sandbox a request comes from.
    """

    def __init__(self, url: str, token: str) -> None:
        """`token` is for the control routes of the gateway at `url`."""
        self.stop = asyncio.Event()
        self._gateway_url = url
        self._token = token
        self._client: aiohttp.ClientSession
        self._watching: asyncio.Task[None]
        self._relays: list[_Relay] = []
        self._seen_at = 0.0
        """When the driver was last heard of."""
        self._agent_is_busy = False
        self._failure: YouBenchaError | None = None

    async def __aenter__(self) -> Self:
        self._seen_at = time.monotonic()
        timeout = aiohttp.ClientTimeout(total=_ANSWER_WITHIN_S, sock_read=_SILENCE_S)
        headers = {"Authorization": f"Bearer {self._token}"}
        self._client = aiohttp.ClientSession(headers=headers, timeout=timeout)
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        for relay in self._relays:
            await relay.close()
        await self._client.close()

    async def issue(
        self, role: KeyRole, name: str, *, places: Places | None = None, peers: frozenset[str] | None = None
    ) -> GatewayAccess:
        named = {name: str(path).encode("utf-8", "replace").decode() for name, path in places.named} if places else {}
        answer = await self._call("issue", {"role": role, "name": name, "places": named})
        if role == "evaluator":
            return GatewayAccess(self._gateway_url, answer["key"])
        self.stop.clear()  # it may have been set in the agent's last session
        return GatewayAccess(self._gateway_url, answer["key"], lambda: self._agent_is_busy)

    async def end(self, key: str) -> EndedKey:
        answer = await self._call("end", {"key": key})
        return EndedKey(GatewayReport.model_validate_json(orjson.dumps(answer["report"])), answer["total_exceeded"])

    async def listen_on(self, socket: Path) -> None:
        relay = _Relay(self._gateway_url)
        await relay.open(socket)
        self._relays.append(relay)

    async def close(self) -> list[KeyWarning]:
        answer = await self._call("close", {})
        return [KeyWarning(code, message) for code, message in answer["warnings"]]

    async def _call(self, action: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call a control route, again if the connection is lost. Raises YouBenchaError if the driver is gone."""

        async def call() -> Mapping[str, Any]:
            async with self._client.post(self._url(action), data=orjson.dumps(body)) as answer:
                return await self._content(answer)

        return await self._reaching(call)

    async def _watch(self) -> None:
        """Follow the state of the keys, as long as there is a driver."""

        async def follow() -> None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_SILENCE_S, sock_read=_SILENCE_S)
            async with self._client.get(self._url("state"), timeout=timeout) as answer:
                if answer.status != 200:
                    await self._content(answer)
                async for line in answer.content:
                    self._note(orjson.loads(line))

        with contextlib.suppress(YouBenchaError):
            while True:
                await self._reaching(follow)

    def _note(self, state: Mapping[str, Any]) -> None:
        self._seen_at = time.monotonic()
        self._agent_is_busy = state["busy"]
        if state["stop"]:
            self.stop.set()

    async def _reaching(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Repeat what fails because of the network, as long as the driver may still be there."""
        while self._failure is None:
            try:
                return await attempt()
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                refused = isinstance(error, OSError) and error.errno == errno.ECONNREFUSED  # nothing listens any more
                if refused or time.monotonic() - self._seen_at > _GONE_AFTER_S:
                    why = "nothing listens there" if refused else str(error) or type(error).__name__
                    message = f"The driver's gateway at {self._gateway_url} cannot be reached: {why}"
                    raise self._fail("DRIVER_GONE", message, hint=_REACHABLE) from error
            await asyncio.sleep(_RETRY_AFTER_S)
        raise self._failure

    async def _content(self, answer: aiohttp.ClientResponse) -> Mapping[str, Any]:
        """The content of an answer. Raises YouBenchaError if it is an error."""
        raw = await answer.read()
        self._seen_at = time.monotonic()
        content: Mapping[str, Any] = orjson.loads(raw) if answer.content_type == "application/json" else {}
        if answer.status == 200:
            return content
        message = content.get("error") or f"status {answer.status}"
        if answer.status == 401:
            raise self._fail("TICKET_ENDED", f"The driver has stopped this attempt: {message}")
        code = content.get("code") or "GATEWAY_CONTROL_FAILED"
        raise YouBenchaError(code, f"The driver's gateway: {message}", hint=content.get("hint"))

    def _fail(self, code: str, message: str, hint: str | None = None) -> YouBenchaError:
        """Note that nothing more can be asked: the agent has to stop, and its attempt does not measure it."""
        self._failure = YouBenchaError(code, message, hint=hint)
        self.stop.set()
        return self._failure

    def _url(self, action: str) -> str:
        return f"{self._gateway_url}{CONTROL_PREFIX}{action}"


class _Relay:
    """Passes connections at a Unix socket on to the gateway, byte for byte."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname, parts.port
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self, socket: Path) -> None:
        self._server = await asyncio.start_unix_server(self._accept, socket)

    async def close(self) -> None:
        self._server.close()
        serving = tuple(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= _MAX_CONNECTIONS:  # a sandbox's processes could open any number
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on both directions, until one end has closed the connection."""
        opened = [writer]
        try:
            from_gateway, to_gateway = await asyncio.open_connection(self._host, self._port)
            opened.append(to_gateway)
            sending = asyncio.create_task(_pass_on(reader, to_gateway))
            receiving = asyncio.create_task(_pass_on(from_gateway, writer))
            try:
                await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
                receiving.cancel()
                await asyncio.gather(sending, receiving, return_exceptions=True)
        except OSError:  # the gateway cannot be reached: the client sees that its connection is closed
            pass
        finally:
            for each in opened:
                each.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_PIECE):
        writer.write(data)
        await writer.drain()
