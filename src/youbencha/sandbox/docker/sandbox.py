"""The sandbox of one trial: every command in a fresh container, with the harness's sockets as the only way out."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from youbencha.errors import YouBenchaError
from youbencha.events import EventSink, ProgressNote, WarningRaised
from youbencha.sandbox.base import GATEWAY_PORT, ForwardedPort
from youbencha.sandbox.docker import ownership
from youbencha.sandbox.docker.channel import SocketDir, init_program
from youbencha.sandbox.docker.container import DOORS, LIFELINE, Container, container_settings, user_inside
from youbencha.sandbox.docker.disk import DiskWatch
from youbencha.sandbox.docker.engine import Engine, connect
from youbencha.sandbox.docker.image import (
    NAME,
    Image,
    account_mounts,
    ensure_image,
    keep_volumes,
    read_volumes,
    volume_holder,
)
from youbencha.sandbox.docker.launch import ContainerSystem, World
from youbencha.sandbox.docker.mounts import HOME, LOBBY, TMP, WORKSPACE, Mount, Mounts
from youbencha.sandbox.docker.mounts import LOBBY as LOBBY_INSIDE
from youbencha.sandbox.docker.ownership import labels
from youbencha.sandbox.local import write_git_identity
from youbencha.spec.sandbox import DEFAULT_IMAGE

if TYPE_CHECKING:
    from youbencha.log import SandboxReport
    from youbencha.process import Command, ProcessResult, RunOptions
    from youbencha.spec.sandbox import SandboxSpec


_PASSED_ON = ("LANG", "LANGUAGE", "TZ", "TERM")


class ImageIdentity(NamedTuple):
    """In what an agent ran, for the results."""

    image: str
    image_id: str
    image_digest: str | None
    """Of the registry's; None for one that was made on this computer."""
    engine: str
    """Its name and version."""


class Material(NamedTuple):
    """What a sandbox is made of, apart from what is shared with it."""

    image: Image
    program: Path
    account: Sequence[Mount]
    socket_dir: SocketDir
    scratch: Path
    labels: Mapping[str, str]


class DockerSandbox:
    kind = "docker"
    is_boundary = True

    def __init__(
        self, name: str, spec: SandboxSpec, engine: Engine, mounts: Mounts, material: Material, on_event: EventSink
    ) -> None:
        image, facts = material.image, engine.facts
        self.identity = ImageIdentity(image.name, image.id, image.digest, f"{facts.name} {facts.version}")
        self.brings_agent = spec.agent == "image"
        self._name = name
        self._spec = spec
        self._engine = engine
        self._mounts = mounts
        self._material = material
        self._lobby = material.socket_dir
        self._on_event = on_event
        self._containers: list[Container] = []
        self._frozen = False

    def report(self) -> SandboxReport:
        from youbencha.log import SandboxReport

        return SandboxReport(type=self.kind, network=self._spec.network, fresh_home=True, **self.identity._asdict())

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        """Language and time zone of the harness, a home of its own. The image adds its PATH and the like by itself."""
        kept = {name: value for name, value in harness.items() if name in _PASSED_ON or name.startswith("LC_")}
        return {**kept, "HOME": str(HOME), "TMPDIR": str(TMP), "USER": NAME, "LOGNAME": NAME}

    def share(self, path: Path, *, writable: bool = False) -> None:
        """From the next `run` on: a container that is there already stays as it is."""
        self._mounts.share(path, writable=writable)

    def inside(self, path: Path) -> str:
        return self._mounts.inside(path)

    def outside(self, path: str) -> Path | None:
        return self._mounts.outside(path)

    def forward_port(self, port: int) -> ForwardedPort | None:
        return self._lobby.forward_port(port)

    async def run(self, command: Command, **options: Unpack[RunOptions]) -> ProcessResult:
        from youbencha.process import run

        container = self._new_container()
        system = ContainerSystem(self.world(), container, self._lobby.new_channel())
        disk = DiskWatch(self._mounts.writable(), self._spec.disk, own=self._material.scratch)
        watching = asyncio.create_task(self._watch_disk(disk, system, container))
        try:
            result = await run(command, system=system, **options)
        finally:
            watching.cancel()
            await container.removed()
        if watching.done() and not watching.cancelled():
            watching.result()  # who watched must not have failed unnoticed
        if limit_touched := system.has_started.result().limit_touched:
            message = (
                f"A program in the container was refused more than its limit of {limit_touched}; the agent went on."
            )
            self._on_event(WarningRaised(code="SANDBOX_LIMIT_TOUCHED", message=message))
        return result

    async def freeze(self) -> None:
        """Whatever became of single containers: none with our label is left."""
        self._frozen = True
        for container in self._containers:
            container.remove_soon()
        for container in self._containers:
            with contextlib.suppress(YouBenchaError):
                await container.removed()
        mine = f"{ownership.SANDBOX}={self._name}"
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
        self._mounts.make_places()
        container = Container(self._engine, f"{self._name}-{len(self._containers) + 1}")
        self._containers.append(container)
        return container

    def world(self) -> World:
        """What the next container will be made of."""
        return World(
            spec=self._spec,
            settings=partial(self._settings, self._mounts.all()),
            relays=self._lobby.relays(),
            probe=GATEWAY_PORT if GATEWAY_PORT in self._lobby.ports else None,
            inside=self._mounts.inside,
        )

    def _settings(self, shared: Sequence[Mount], channel: Path) -> dict[str, Any]:
        ours = [
            Mount(self._material.program, LOBBY_INSIDE / "init", writable=False),
            Mount(self._lobby.doors, DOORS, writable=False),
            Mount(channel, LOBBY_INSIDE / Path(LIFELINE).name, writable=False),
        ]
        facts = self._engine.facts
        user = user_inside(facts)
        mounts = [*shared, *self._material.account, *ours]
        volumes_of = volume_holder(self._name) if self._material.image.volumes else None
        container_labels = self._material.labels
        return container_settings(self._spec, self.identity.image_id, facts, user, mounts, container_labels, volumes_of)

    async def _watch_disk(self, disk: DiskWatch, system: ContainerSystem, container: Container) -> None:
        running = await system.has_started
        watches = {asyncio.create_task(disk.until_exceeded(running.pid, running.output_files))}
        if self._spec.writable:
            watches.add(asyncio.create_task(container.until_larger_than(self._spec.disk)))
        try:
            done, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in watches:
                each.cancel()
        for each in done:
            each.result()
        running.end_for_disk()


# Everything that a sandbox needs, found or made, and cleared away at the end.


@asynccontextmanager
async def open_docker_sandbox(
    spec: SandboxSpec, *, workspace: Path, scratch: Path, run_id: str, on_event: EventSink
) -> AsyncIterator[DockerSandbox]:
    """A sandbox around `workspace`; its home and temporary directory are made in `scratch`. All is gone at the end."""

    def progress(text: str) -> None:
        on_event(ProgressNote(text=text))

    async with connect() as engine:
        for what in engine.facts.cannot():
            on_event(WarningRaised(code="SANDBOX_UNLIMITED", message=f"This container engine cannot limit {what}."))
        image = await ensure_image(engine, spec.image or DEFAULT_IMAGE, progress)
        program = init_program(engine.facts.architecture)
        with contextlib.closing(SocketDir()) as socket_dir:
            name = f"youbencha-{uuid.uuid4().hex[:12]}"
            container_labels = labels(run_id, name, socket_dir.path)
            account = await account_mounts(engine, image.id, user_inside(engine.facts), container_labels)
            material = Material(image, program, account, socket_dir, scratch, container_labels)
            sandbox = DockerSandbox(name, spec, engine, _mounts(workspace, scratch, image), material, on_event)
            try:
                if image.volumes:
                    await _surely(keep_volumes(engine, image.id, name, container_labels))
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
