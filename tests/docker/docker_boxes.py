"""A workspace with sandboxes, and what tests ask the engine directly."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiodocker

from youbencha.events import Event
from youbencha.process import Command, Input, Limits, ProcessResult
from youbencha.sandbox.docker import ownership
from youbencha.sandbox.docker.engine import connect
from youbencha.sandbox.docker.sandbox import DockerSandbox, open_docker_sandbox
from youbencha.spec.sandbox import SandboxSpec

PATIENCE_S = 120.0


class Box:
    def __init__(self, root: Path, image: str) -> None:
        self.image = image
        self.workspace = root / "tree"
        self.workspace.mkdir()
        self.scratch = root / "scratch"
        self.run_id = f"test-{os.urandom(6).hex()}"
        self.events: list[Event] = []

    def spec(self, **given: Any) -> SandboxSpec:
        return SandboxSpec(type="docker", image=self.image, **given)

    @asynccontextmanager
    async def open(self, *, starts: asyncio.Semaphore | None = None, **given: Any) -> AsyncIterator[DockerSandbox]:
        async with open_docker_sandbox(
            self.spec(**given),
            workspace=self.workspace,
            scratch=self.scratch,
            run_id=self.run_id,
            on_event=self.events.append,
            starts=starts,
        ) as sandbox:
            yield sandbox

    def command(self, *argv: str, stdin: bytes | Input | None = None, terminal: bool = False, **env: str) -> Command:
        world = {"HOME": "/home/agent", "LANG": "C.UTF-8", **env}
        return Command(argv, self.workspace, world, stdin=stdin, terminal=terminal)

    async def run(self, *argv: str, **given: Any) -> ProcessResult:
        """One command in a sandbox of its own."""
        async with self.open(**given) as sandbox:
            return await sandbox.run(self.command(*argv), limits=Limits(timeout_s=PATIENCE_S))

    async def containers(self) -> list[dict[str, Any]]:
        """All of ours that the engine knows, in whatever state."""
        async with connect() as engine:
            return await engine.labelled(f"{ownership.RUN}={self.run_id}")


@asynccontextmanager
async def image_of(dockerfile: str, **files: bytes) -> AsyncIterator[str]:
    """An image for one test."""
    tag = f"youbencha-test/odd:{os.urandom(6).hex()}"
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for name, data in {"Dockerfile": dockerfile.encode(), **files}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    context.seek(0)
    async with aiodocker.Docker(os.environ.get("DOCKER_HOST")) as client:
        await client.images.build(fileobj=context, encoding="identity", tag=tag)
        try:
            yield tag
        finally:
            await client.images.delete(tag, force=True)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await asyncio.sleep(0.05)
