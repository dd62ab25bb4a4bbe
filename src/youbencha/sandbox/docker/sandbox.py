"""The sandbox of one trial: every command in a fresh container, with the harness's sockets as the only way out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.events import EventSink, Noted, Warned
from youbencha.sandbox.docker import labels
from youbencha.sandbox.docker.container import Container
from youbencha.sandbox.docker.disk import DiskWatch
from youbencha.sandbox.docker.engine import Engine, connect
from youbencha.sandbox.docker.images import Image, ensure_image
from youbencha.sandbox.docker.inside import inside_program
from youbencha.sandbox.docker.lobby import Lobby
from youbencha.sandbox.docker.mounts import HOME, TMP, Mount, Mounts
from youbencha.sandbox.docker.mounts import LOBBY as LOBBY_INSIDE
from youbencha.sandbox.docker.settings import DOORS, LIFELINE, User, container_settings, user_inside
from youbencha.sandbox.docker.system import ContainerSystem, World
from youbencha.spec.sandbox import DEFAULT_IMAGE

if TYPE_CHECKING:
    from youbencha.process import Command, Limits, LineSink, ProcessResult, Redactor, Source, Started
    from youbencha.sandbox.base import Door
    from youbencha.spec.sandbox import SandboxSpec

GATEWAY_PORT = 4000
"""Where agents in containers find the gateway. Before anything runs, it must answer there."""
_USER = "agent"
_PASSED_ON = ("LANG", "LANGUAGE", "TZ", "TERM")


class Identity(NamedTuple):
    """In what an agent ran, for the results."""

    image: str
    image_id: str
    image_digest: str | None
    """Of the registry's; None for one that was made on this computer."""
    engine: str
    """Its name and version."""


class DockerSandbox:
    kind = "docker"
    is_boundary = True

    def __init__(
        self,
        spec: SandboxSpec,
        engine: Engine,
        image: Image,
        program: Path,
        mounts: Mounts,
        lobby: Lobby,
        *,
        run_id: str,
        on_event: EventSink,
    ) -> None:
        self.identity = Identity(image.name, image.id, image.digest, f"{engine.facts.name} {engine.facts.version}")
        self.brings_agent = spec.agent == "image"
        self._spec = spec
        self._engine = engine
        self._program = program
        self._mounts = mounts
        self._lobby = lobby
        self._on_event = on_event
        self._name = f"youbencha-{uuid.uuid4().hex[:12]}"
        self._labels = labels.labels(run_id, self._name, lobby.path)
        self._containers: list[Container] = []
        self._frozen = False

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        """Language and time zone of the harness, a home of its own. The image adds its PATH and the like by itself."""
        kept = {name: value for name, value in harness.items() if name in _PASSED_ON or name.startswith("LC_")}
        return {**kept, "HOME": str(HOME), "TMPDIR": str(TMP), "USER": _USER, "LOGNAME": _USER}

    def share(self, path: Path, *, writable: bool = False) -> None:
        if self._containers:
            raise RuntimeError("whatever is shared, is shared before the first run")
        self._mounts.share(path, writable=writable)

    def inside(self, path: Path) -> str:
        return self._mounts.inside(path)

    def outside(self, path: str) -> Path | None:
        return self._mounts.outside(path)

    def door(self, port: int) -> Door | None:
        return self._lobby.door(port)

    async def run(
        self,
        command: Command,
        *,
        limits: Limits | None = None,
        redactor: Redactor | None = None,
        log_file: Path | None = None,
        on_line: LineSink | None = None,
        on_start: Callable[[Started], None] | None = None,
        stop: asyncio.Event | None = None,
        also: Sequence[Source] = (),
    ) -> ProcessResult:
        from youbencha.process import run

        container = self._new_container()
        system = ContainerSystem(self.world(), container, self._lobby.new_lifeline())
        watching = asyncio.create_task(self._watch_disk(system))
        try:
            result = await run(
                command,
                limits=limits,
                redactor=redactor,
                log_file=log_file,
                on_line=on_line,
                on_start=on_start,
                stop=stop,
                also=also,
                system=system,
            )
        finally:
            watching.cancel()
            await container.removed()
        if strain := system.has_started.result().strain:
            message = f"A program in the container was refused more than its limit of {strain}; the agent went on."
            self._on_event(Warned(code="SANDBOX_LIMIT_TOUCHED", message=message))
        return result

    async def freeze(self) -> None:
        """Whatever became of single containers: none with our label is left."""
        self._frozen = True
        for container in self._containers:
            container.remove_soon()
        for container in self._containers:
            with contextlib.suppress(YouBenchaError):
                await container.removed()
        mine = f"{labels.SANDBOX}={self._name}"
        for _ in range(2):
            left = await self._engine.labelled(mine)
            if not left:
                return
            for each in left:
                await self._engine.remove(str(each["Id"]))
        raise YouBenchaError(
            "SANDBOX_NOT_FROZEN",
            "The container engine could not remove a container.",
            hint=f"Remove it by hand: docker rm -f $(docker ps -aq --filter label={mine})",
        )

    def _new_container(self) -> Container:
        if self._frozen:
            raise RuntimeError("nothing runs in a frozen sandbox")
        if not self._containers:
            self._mounts.make_places()
        container = Container(self._engine, f"{self._name}-{len(self._containers) + 1}")
        self._containers.append(container)
        return container

    def world(self) -> World:
        """What the next container will be made of."""
        return World(
            spec=self._spec,
            settings=self._settings,
            relays=self._lobby.relays(),
            probe=GATEWAY_PORT if GATEWAY_PORT in self._lobby.ports else None,
            inside=self._mounts.inside,
        )

    def _settings(self, lifeline: Path) -> dict[str, Any]:
        ours = [
            Mount(self._program, LOBBY_INSIDE / "inside", writable=False),
            Mount(self._lobby.doors, DOORS, writable=False),
            Mount(lifeline, LOBBY_INSIDE / Path(LIFELINE).name, writable=False),
        ]
        facts = self._engine.facts
        user = user_inside(facts, User(os.getuid(), os.getgid()))
        mounts = [*self._mounts.all(), *ours]
        return container_settings(self._spec, self.identity.image_id, facts, user, mounts, self._labels)

    async def _watch_disk(self, system: ContainerSystem) -> None:
        watch = DiskWatch(self._mounts.writable(), self._spec.disk)
        running = await system.has_started
        await watch.until_exceeded(running.pid)
        running.end_for_disk()


@asynccontextmanager
async def open_docker_sandbox(
    spec: SandboxSpec, *, workspace: Path, scratch: Path, run_id: str, on_event: EventSink
) -> AsyncIterator[DockerSandbox]:
    """A sandbox around `workspace`; its home and temporary directory are made in `scratch`. All is gone at the end."""

    def progress(text: str) -> None:
        on_event(Noted(text=text))

    home, tmp = scratch / "home", scratch / "tmp"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    tmp.mkdir(exist_ok=True)
    tmp.chmod(0o1777)
    async with connect() as engine:
        image = await ensure_image(engine, spec.image or DEFAULT_IMAGE, progress)
        program = await inside_program(engine.facts.architecture, progress=progress)
        with contextlib.closing(Lobby()) as lobby:
            mounts = Mounts(workspace, home, tmp)
            sandbox = DockerSandbox(spec, engine, image, program, mounts, lobby, run_id=run_id, on_event=on_event)
            try:
                yield sandbox
            finally:
                await _surely(sandbox.freeze())


async def _surely(work: Any) -> None:
    """To its end, also if we are cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
