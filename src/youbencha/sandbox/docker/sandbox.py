"""The sandbox of one trial: every command runs in a new container, which can reach only the harness's sockets."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Unpack

from youbencha.errors import YouBenchaError
from youbencha.events import EventSink, WarningRaised, notes_to
from youbencha.process import Command, ProcessResult, RunOptions, run
from youbencha.process.environment import LOCALE, select
from youbencha.sandbox.base import ForwardedPort
from youbencha.sandbox.docker import ownership
from youbencha.sandbox.docker.channel import SocketDir, init_program
from youbencha.sandbox.docker.container import Container, ContainerSystem, container_settings, cpu_limit, disk_limit
from youbencha.sandbox.docker.disk import DiskWatch
from youbencha.sandbox.docker.engine import Engine, EngineError, connect
from youbencha.sandbox.docker.image import (
    USER_NAME,
    Image,
    account_mounts,
    ensure_image,
    make_volume_holder,
    read_volumes,
    volume_holder,
)
from youbencha.sandbox.docker.mounts import CHANNEL, HARNESS, HOME, INIT, PORTS, TMP, WORKSPACE, Mount, Mounts
from youbencha.sandbox.local import write_git_identity
from youbencha.spec.sandbox import DEFAULT_IMAGE, SandboxSpec
from youbencha.store.bundle import SandboxReport
from youbencha.user_dirs import Cache, default_cache_dir


@asynccontextmanager
async def open_docker_sandbox(
    spec: SandboxSpec,
    *,
    workspace: Path,
    scratch: Path,
    run_id: str,
    on_event: EventSink,
    cache: Cache | None = None,
    starts: asyncio.Semaphore | None = None,
    keep_files: bool = False,
    files_of: DockerSandbox | None = None,
) -> AsyncIterator[DockerSandbox]:
    """Open a sandbox for `workspace`; its home and temporary directory are in `scratch`.

    What all sandboxes share is kept in `cache`, by default the user's. `starts` limits how many containers start at the
    same time. At the end, its containers and sockets are removed.

    `keep_files` keeps the image's files as the last container left them, as long as the sandbox is open; `files_of` is
    a sandbox whose files are used in place of the image's.
    """
    cache = cache or Cache(default_cache_dir())
    async with connect() as engine:
        for limit in engine.info.missing_limits():
            on_event(WarningRaised(code="SANDBOX_UNLIMITED", message=f"This container engine cannot limit {limit}."))
        wanted = spec.image or DEFAULT_IMAGE if files_of is None else files_of.kept_image()
        image = await ensure_image(engine, wanted, notes_to(on_event))
        mounts = _make_mounts(workspace, scratch, image)
        with contextlib.closing(SocketDir()) as socket_dir:
            name = f"youbencha-{uuid.uuid4().hex[:12]}"
            labels = ownership.labels(run_id, name, socket_dir.path)
            account = None if files_of is None else files_of.account
            init, account = await _shared_files(engine, image, labels, account, cache, socket_dir)
            sandbox = DockerSandbox(
                name=name,
                spec=spec,
                engine=engine,
                image=image,
                mounts=mounts,
                own_mounts=(
                    *account,
                    Mount(init, INIT, writable=False),
                    Mount(socket_dir.ports_dir, PORTS, writable=False),
                ),
                account=account,
                socket_dir=socket_dir,
                scratch=scratch,
                labels=labels,
                on_event=on_event,
                starts=starts,
                keep_files=keep_files,
            )
            try:
                if image.volumes:
                    await _finish(make_volume_holder(engine, image.id, name, labels))
                yield sandbox
            finally:
                with contextlib.suppress(YouBenchaError):  # what is left ends with this process, and is removed later
                    await _finish(sandbox.freeze())
                    await _finish(sandbox.forget_files())


async def _shared_files(
    engine: Engine,
    image: Image,
    labels: Mapping[str, str],
    account: Sequence[Mount] | None,
    cache: Cache,
    socket_dir: SocketDir,
) -> tuple[Path, Sequence[Mount]]:
    """Return the init program and the account files, made in the cache, or beside the sockets if it is read-only."""

    async def make(directory: Path) -> tuple[Path, Sequence[Mount]]:
        init = init_program(engine.info.architecture, cache_dir=directory)
        if account is not None:
            return init, account
        return init, await account_mounts(engine, image.id, engine.info.user, labels, cache_dir=directory)

    files = None
    with cache.writing():
        files = await make(cache.directory)
    return files or await make(socket_dir.path)


def _make_mounts(workspace: Path, scratch: Path, image: Image) -> Mounts:
    volumes = read_volumes(image.name, image.volumes, (WORKSPACE, HARNESS))
    home, tmp = scratch / "home", scratch / "tmp"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_git_identity(home)
    tmp.mkdir(exist_ok=True)
    tmp.chmod(0o1777)
    return Mounts(workspace, home, tmp, volumes)


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, even if cancelled meanwhile."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


@dataclass(kw_only=True)
class DockerSandbox:
    """An open sandbox; see `open_docker_sandbox`."""

    kind: ClassVar = "docker"
    is_boundary: ClassVar = True

    name: str
    """The prefix of its containers' names."""
    spec: SandboxSpec
    engine: Engine
    image: Image
    mounts: Mounts
    own_mounts: Sequence[Mount]
    """The harness's files, which are mounted in every container."""
    account: Sequence[Mount]
    """The files with the user's name, see `account_mounts`; they are among `own_mounts`."""
    socket_dir: SocketDir
    scratch: Path
    labels: Mapping[str, str]
    on_event: EventSink
    starts: asyncio.Semaphore | None = None
    keep_files: bool = False
    _containers: list[Container] = field(default_factory=list)
    _frozen: bool = False

    @property
    def brings_agent(self) -> bool:
        return self.spec.agent == "image"

    def kept_image(self) -> str:
        """The image with the files of the last container, if they were kept; otherwise the image that it began with."""
        if not self.keep_files or not self._containers:
            return self.image.id
        if (kept := self._containers[-1].files_image) is None:
            raise YouBenchaError("SANDBOX_FILES_LOST", "The container engine could not keep the files of a container.")
        return kept

    async def forget_files(self, *, but: Container | None = None) -> None:
        """Remove the files that were kept."""
        for container in self._containers:
            if container.files_image is not None and container is not but:
                await self.engine.remove_image(container.files_image)
                container.files_image = None

    def report(self) -> SandboxReport:
        spec, info = self.spec, self.engine.info
        return SandboxReport(
            type=self.kind,
            network=spec.network,
            allowlist=spec.allowlist,
            fresh_home=True,
            cpus=cpu_limit(spec, info),
            memory=spec.memory if info.memory_limit else None,
            image=self.image.name,
            image_id=self.image.id,
            image_digest=self.image.digest,
            engine=f"{info.name} {info.version}",
        )

    @property
    def variables(self) -> Mapping[str, str]:
        return self.image.variables

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        """Language and time zone of the harness, and the sandbox's home. PATH is the image's."""
        kept = select(harness, LOCALE | {"TERM"}, locale=True)
        path = {name: value for name, value in self.variables.items() if name == "PATH"}
        return {**kept, **path, "HOME": str(HOME), "TMPDIR": str(TMP), "USER": USER_NAME, "LOGNAME": USER_NAME}

    def share(self, path: Path, *, writable: bool = False) -> None:
        """Takes effect with the next `run`: a running container is not changed."""
        self.mounts.share(path, writable=writable)

    def protect(self, path: Path) -> None:
        """Takes effect with the next `run`."""
        self.mounts.protect(path)

    def inside(self, path: Path) -> str:
        return self.mounts.inside(path)

    def outside(self, path: str) -> Path | None:
        return self.mounts.outside(path)

    def forward_port(self, port: int) -> ForwardedPort | None:
        return self.socket_dir.forward_port(port)

    def prepare(self, container: Container, channel: Path) -> ContainerSystem:
        """Return what starts a command in a container, with the paths that are shared now.

        Paths that are shared later are for the next container: they have no mount point in this one.
        """
        mounts = [*self.mounts.all(), *self.own_mounts, Mount(channel, CHANNEL, writable=False)]
        volumes_from = volume_holder(self.name) if self.image.volumes else None
        return ContainerSystem(
            container,
            container_settings(self.spec, self.engine.info, self.image.id, mounts, self.labels, volumes_from),
            channel,
            spec=self.spec,
            mounts=self.mounts,
            relays=self.socket_dir.relays(),
        )

    async def run(self, command: Command, **options: Unpack[RunOptions]) -> ProcessResult:
        with contextlib.ExitStack() as starting:
            if (starts := self.starts) is not None:
                await starts.acquire()
                starting.callback(starts.release)
            return await self._run(self._new_container(starting.close), command, **options)

    async def _run(self, container: Container, command: Command, **options: Unpack[RunOptions]) -> ProcessResult:
        system = self.prepare(container, self.socket_dir.new_channel())
        disk = DiskWatch(self.mounts.writable(), self.spec.disk, own=self.scratch)
        watching = asyncio.create_task(self._watch_disk(disk, system, container))
        try:
            result = await run(command, system=system, writes_to=self.mounts.writable(), **options)
        finally:
            watching.cancel()
            with contextlib.suppress(EngineError):  # `freeze` tries again
                await container.removed()
                await self.forget_files(but=container)
        if watching.done() and not watching.cancelled():
            watching.result()  # a failed watch must not go unnoticed
        if result.exit.limit_hit is None and await asyncio.to_thread(disk.is_exceeded):
            result = result._replace(exit=result.exit._replace(limit_hit=disk_limit(self.spec), host_failure=None))
        if limit_touched := system.has_started.result().limit_touched:
            message = f"A program in the container reached its limit of {limit_touched}; the agent continued."
            self.on_event(WarningRaised(code="SANDBOX_LIMIT_TOUCHED", message=message))
        return result

    async def freeze(self) -> None:
        """Remove every container with this sandbox's label."""
        self._frozen = True
        for started in self._containers:
            started.remove_soon()
        for started in self._containers:
            with contextlib.suppress(YouBenchaError):
                await started.removed()
        label = f"{ownership.SANDBOX}={self.name}"
        for _ in range(2):
            left = await ownership.own_containers(self.engine, label)
            if not left:
                return
            for container in left:
                await self.engine.remove(str(container["Id"]))
        raise YouBenchaError(
            "SANDBOX_NOT_FROZEN",
            "The container engine could not remove a container.",
            hint=f"Remove it by hand: docker rm -f $(docker ps -aq --filter label={label})",
        )

    def _new_container(self, on_started: Callable[[], None]) -> Container:
        if self._frozen:
            raise RuntimeError("Nothing runs in a frozen sandbox.")
        self.mounts.forget_removed()
        self.mounts.make_mount_points()
        name = f"{self.name}-{len(self._containers) + 1}"
        container = Container(self.engine, name, on_started, keep_files=self.keep_files)
        self._containers.append(container)
        return container

    async def _watch_disk(self, disk: DiskWatch, system: ContainerSystem, container: Container) -> None:
        running = await system.has_started
        watches = {asyncio.create_task(disk.until_exceeded(running.pid, running.spools, container.paused))}
        if self.spec.writable:
            watches.add(asyncio.create_task(container.until_larger_than(self.spec.disk)))
        try:
            done, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for watch in watches:
                watch.cancel()
        for watch in done:
            watch.result()
        running.end_for_disk()
