"""The container engine: a thin layer over aiodocker that speaks in our words and our errors."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker.engine_errors import explained, failed, no_name, not_there, reason_of
from youbencha.sandbox.docker.facts import Facts, check_same_computer, read_facts
from youbencha.sandbox.docker.where import UNIX, find_engine

if TYPE_CHECKING:
    import aiodocker

_BAD_REQUEST, _NOT_FOUND, _CONFLICT = 400, 404, 409
_BUSY_AGAIN_S = 0.05
_BUSY_FOR_S = 30.0
_FIRST_ANSWER_S = 10.0
"""An engine that is asked who it is has nothing to do for that. One that hangs is told from one that works."""
_PATIENCE_S = 120.0
"""For any one answer of the engine, pulling apart: on a loaded machine, starting a container has taken ten seconds."""


_facts: dict[Path, Facts] = {}
"""Of each engine, asked once per process."""


class Engine:
    def __init__(self, client: aiodocker.Docker, facts: Facts) -> None:
        self._client = client
        self.facts = facts

    async def create(self, name: str, config: Mapping[str, Any]) -> None:
        with explained("create a container"):
            await self._client.containers.create(dict(config), name=name)

    async def start(self, name: str) -> None:
        with explained("start a container"):
            await self._client.containers.container(name).start()

    async def inspect(self, name: str, *, size: bool = False) -> dict[str, Any] | None:
        """None if there is no such container."""
        return await self._found("look at a container", self._show(name, size=size))

    async def remove(self, name: str) -> None:
        """Kill it if it runs, and remove it. Returns when it is gone; it need not be there."""
        import asyncio
        import time

        from aiodocker import DockerError

        give_up = time.monotonic() + _BUSY_FOR_S
        while True:
            try:
                await self._client.containers.container(name).delete(force=True, v=True)
                return
            except DockerError as error:
                if error.status == _NOT_FOUND:
                    return
                # It is being removed already, or ended in this very moment and cannot be killed any more.
                if error.status not in (_CONFLICT, 500) or time.monotonic() > give_up:
                    raise failed("remove a container", error.message) from error
            except OSError as error:
                raise failed("remove a container", str(error)) from error
            await asyncio.sleep(_BUSY_AGAIN_S)

    async def labelled(self, *labels: str) -> list[dict[str, Any]]:
        """Every container, running or not, that carries all of these labels."""
        import json

        with explained("list containers"):
            found = await self._client.containers.list(all=True, filters=json.dumps({"label": list(labels)}))
        return [container._container for container in found]

    async def read_file(self, name: str, path: str) -> bytes | None:
        """A file of a container, which need not run; None if there is no such file."""
        from aiodocker import DockerError

        with explained("read a file of an image"):
            try:
                archive = await self._client.containers.container(name).get_archive(path)
            except DockerError as error:
                if error.status == _NOT_FOUND:
                    return None
                raise
        with archive:
            files = [archive.extractfile(member) for member in archive.getmembers() if member.isfile()]
            return files[0].read() if files and files[0] else None

    async def image(self, name: str) -> dict[str, Any] | None:
        from aiodocker import DockerError

        try:
            return await self._found("look at an image", self._client.images.inspect(name))
        except YouBenchaError as error:
            if isinstance(error.__cause__, DockerError) and error.__cause__.status == _BAD_REQUEST:
                raise no_name(name, reason_of(error.__cause__)) from error
            raise

    async def pull(self, image: str, progress: Callable[[str], None]) -> None:
        from aiodocker import DockerError

        try:
            async for step in self._client.images.pull(image, stream=True, timeout=None):
                if said := step.get("error"):
                    raise DockerError(500, str(said))
                progress(str(step.get("status", "")))
        except (DockerError, OSError) as error:
            raise YouBenchaError(
                "SANDBOX_IMAGE_NOT_FOUND",
                f"The engine does not have the image {image}, and cannot fetch it: {reason_of(error)}",
                hint="Check its name and the network, or build or load it (`docker build -t NAME .`, `docker load`).",
            ) from error

    async def _show(self, name: str, *, size: bool) -> dict[str, Any]:
        return await self._client.containers.container(name).show(**({"size": 1} if size else {}))

    async def _found(self, what: str, asking: Any) -> dict[str, Any] | None:
        from aiodocker import DockerError

        with explained(what):
            try:
                answer: dict[str, Any] = await asking
            except DockerError as error:
                if error.status == _NOT_FOUND:
                    return None
                raise
        return answer


@asynccontextmanager
async def connect(env: Mapping[str, str] = os.environ) -> AsyncIterator[Engine]:
    """The engine of this computer, for as long as it is needed."""
    import aiodocker
    import aiohttp

    socket = find_engine(env)
    timeout = aiohttp.ClientTimeout(total=_PATIENCE_S)
    async with aiodocker.Docker(f"{UNIX}{socket}", timeout=timeout, connector=None) as client:
        if socket not in _facts:
            _facts[socket] = await _ask(client, socket)
        yield Engine(client, _facts[socket])


async def _ask(client: aiodocker.Docker, socket: Path) -> Facts:
    import asyncio

    from aiodocker import DockerError

    try:
        async with asyncio.timeout(_FIRST_ANSWER_S):
            told = await client.system.info()
    except (OSError, DockerError, TimeoutError) as error:
        raise not_there(socket, error, _FIRST_ANSWER_S) from error
    facts = read_facts(told)
    check_same_computer(facts)
    return facts
