"""A socket in front of a container engine, which a test can take away and give back."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path


class EngineProxy:
    """Forwards connections at `path` to the engine at `target`."""

    def __init__(self, path: Path, target: str) -> None:
        self.path = path
        self._target = target
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def cut(self) -> None:
        """From now on nothing listens, and every open connection is lost: as if the engine had stopped."""
        assert self._server is not None
        self._server.close()
        self.path.unlink(missing_ok=True)
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_engine: asyncio.StreamWriter
        from_engine, to_engine = await asyncio.open_unix_connection(self._target)
        self._open |= {writer, to_engine}
        await asyncio.gather(_pump(reader, to_engine), _pump(from_engine, writer))
        self._open -= {writer, to_engine}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
