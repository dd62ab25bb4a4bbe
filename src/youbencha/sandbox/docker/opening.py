"""Everything that a sandbox needs, found or made, and cleared away at the end."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from youbencha.events import EventSink, Noted, Warned
from youbencha.sandbox.docker.accounts import account_mounts
from youbencha.sandbox.docker.channel import SocketDir, init_program
from youbencha.sandbox.docker.engine import connect
from youbencha.sandbox.docker.images import Image, ensure_image
from youbencha.sandbox.docker.labels import labels
from youbencha.sandbox.docker.mounts import LOBBY, WORKSPACE, Mounts
from youbencha.sandbox.docker.sandbox import DockerSandbox, Material
from youbencha.sandbox.docker.settings import user_inside
from youbencha.sandbox.docker.volumes import keep_volumes, read_volumes
from youbencha.sandbox.git_identity import write_git_identity
from youbencha.spec.sandbox import DEFAULT_IMAGE

if TYPE_CHECKING:
    from youbencha.spec.sandbox import SandboxSpec


@asynccontextmanager
async def open_docker_sandbox(
    spec: SandboxSpec, *, workspace: Path, scratch: Path, run_id: str, on_event: EventSink
) -> AsyncIterator[DockerSandbox]:
    """A sandbox around `workspace`; its home and temporary directory are made in `scratch`. All is gone at the end."""

    def progress(text: str) -> None:
        on_event(Noted(text=text))

    async with connect() as engine:
        for what in engine.facts.cannot():
            on_event(Warned(code="SANDBOX_UNLIMITED", message=f"This container engine cannot limit {what}."))
        image = await ensure_image(engine, spec.image or DEFAULT_IMAGE, progress)
        program = init_program(engine.facts.architecture)
        with contextlib.closing(SocketDir()) as lobby:
            name = f"youbencha-{uuid.uuid4().hex[:12]}"
            worn = labels(run_id, name, lobby.path)
            account = await account_mounts(engine, image.id, user_inside(engine.facts), worn)
            material = Material(image, program, account, lobby, scratch, worn)
            sandbox = DockerSandbox(name, spec, engine, _mounts(workspace, scratch, image), material, on_event)
            try:
                if image.volumes:
                    await _surely(keep_volumes(engine, image.id, name, worn))
                yield sandbox
            finally:
                await _surely(sandbox.freeze())


def _mounts(workspace: Path, scratch: Path, image: Image) -> Mounts:
    volumes = read_volumes(image.name, image.volumes, (WORKSPACE, LOBBY))
    home, tmp = scratch / "home", scratch / "tmp"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_git_identity(home)
    tmp.mkdir(exist_ok=True)
    tmp.chmod(0o1777)
    return Mounts(workspace, home, tmp, volumes)


async def _surely(work: Coroutine[Any, Any, None]) -> None:
    """To its end, also if we are cancelled meanwhile."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
