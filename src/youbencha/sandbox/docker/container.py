"""One container: its settings, creation, start and guaranteed removal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker.channel import SocketDir
from youbencha.sandbox.docker.engine import Engine, EngineError, EngineInfo
from youbencha.sandbox.docker.image import Image, volume_holder
from youbencha.sandbox.docker.mounts import CHANNEL, INIT, PORTS, WORKSPACE, Mount, Mounts
from youbencha.sandbox.docker.ownership import state_image, state_labels
from youbencha.spec.sandbox import SandboxSpec

_CHECK_EVERY_S = 0.1
_STOP_CHECKS = 100
"""Removing a killed container takes a while if it was large."""
_SIZE_EVERY_S = 3.0
_SHARED_MEMORY = 256 * 1024**2
_OPEN_FILES = 65536
_PID_MAX = Path("/proc/sys/kernel/pid_max")


class ContainerContext(NamedTuple):
    """What all containers of one sandbox have in common."""

    sandbox: str
    """The sandbox's name, a prefix of its containers' names."""
    spec: SandboxSpec
    engine: Engine
    image: Image
    init: Path
    """The path of the init program on the host."""
    account: Sequence[Mount]
    """The files with the user's name, see `account_mounts`."""
    mounts: Mounts
    socket_dir: SocketDir
    scratch: Path
    labels: Mapping[str, str]
    starts: asyncio.Semaphore | None = None
    """Limits how many containers of all sandboxes start at the same time."""

    def settings(self, channel: Path) -> dict[str, Any]:
        """The settings of a container whose init program connects to this socket."""
        mounts = [
            *self.mounts.all(),
            *self.account,
            Mount(self.init, INIT, writable=False),
            Mount(self.socket_dir.ports_dir, PORTS, writable=False),
            Mount(channel, CHANNEL, writable=False),
        ]
        volumes_from = volume_holder(self.sandbox) if self.image.volumes else None
        return container_settings(self.spec, self.engine.info, self.image.id, mounts, self.labels, volumes_from)


def container_settings(
    spec: SandboxSpec,
    info: EngineInfo,
    image: str,
    mounts: Sequence[Mount],
    labels: Mapping[str, str],
    volumes_from: str | None = None,
) -> dict[str, Any]:
    """The engine's settings of a new container: no credentials, no capabilities, no network unless requested.

    `volumes_from`: a container with the image's volumes, which are read-only in this one.
    """
    is_open = spec.network == "open"
    return {
        "Image": image,
        "Entrypoint": [str(INIT)],
        "Cmd": [str(CHANNEL)],
        "User": str(info.user),
        "WorkingDir": str(WORKSPACE),
        "Labels": dict(labels),
        "Healthcheck": {"Test": ["NONE"]},  # the image's own would run programs in the container
        "HostConfig": {
            "Mounts": [mount.as_docker() for mount in mounts],
            "VolumesFrom": [f"{volumes_from}:ro"] if volumes_from else [],
            "Init": False,  # ours is used
            "CapDrop": ["ALL"],
            "SecurityOpt": _security(info),
            "ReadonlyRootfs": not spec.writable,
            "NetworkMode": "bridge" if is_open else "none",
            "ExtraHosts": [f"host.docker.internal:{'host-gateway' if is_open else '127.0.0.1'}"],
            "IpcMode": "private",
            "ShmSize": min(_SHARED_MEMORY, spec.memory),
            "LogConfig": {"Type": "none"},
            "RestartPolicy": {"Name": "no"},
            "Ulimits": _ulimits(info),
            **_limits(spec, info),
            **({"UsernsMode": "host"} if info.remaps_users else {}),
        },
    }


def _security(info: EngineInfo) -> list[str]:
    """The security options. Without a seccomp option, the engine's default profile applies.

    With SELinux, labels would block the mounted files and our sockets.
    """
    return ["no-new-privileges", *(["label=disable"] if info.selinux else [])]


def _ulimits(info: EngineInfo) -> list[dict[str, Any]]:
    """No core files, and the same number of open files with every engine: defaults vary from a thousand to a billion.

    Never more than our own limit, because an engine without the capability could not raise it. For the same reason, the
    number of processes is set too: Podman as root would raise it to a million (it lowers that to the number of process
    ids). The agent's actual limit is PidsLimit.
    """
    limits = {"core": 0, "nofile": _at_most(_OPEN_FILES, "RLIMIT_NOFILE")}
    if info.name == "Podman" and not info.rootless:
        limits["nproc"] = _at_most(int(_PID_MAX.read_text()), "RLIMIT_NPROC")
    return [{"Name": name, "Soft": limit, "Hard": limit} for name, limit in limits.items()]


def _at_most(wanted: int, name: str) -> int:
    import resource

    ours = resource.getrlimit(getattr(resource, name))[1]
    return wanted if ours == resource.RLIM_INFINITY else min(ours, wanted)


def _limits(spec: SandboxSpec, info: EngineInfo) -> dict[str, Any]:
    """The limits that this engine can enforce."""
    limits: dict[str, Any] = {}
    if info.memory_limit:
        limits |= {"Memory": spec.memory, "MemorySwap": spec.memory}  # the same number, so no swap
    if info.pids_limit:
        limits["PidsLimit"] = spec.pids
    if (cpus := cpu_limit(spec, info)) is not None:
        limits["NanoCpus"] = round(cpus * 1e9)
    return limits


def cpu_limit(spec: SandboxSpec, info: EngineInfo) -> float | None:
    """The limit that applies, which may not be more than there are."""
    return min(spec.cpus, info.cpus or spec.cpus) if info.cpu_limit and spec.cpus is not None else None


class Container:
    """A container with a name that we choose, so that it can be removed even if the engine never answered."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        on_started: Callable[[], None] = lambda: None,
        *,
        keep_files: bool = False,
    ) -> None:
        """`on_started` is called when the engine has started it, or failed to.

        `keep_files` makes an image of its files when it is removed.
        """
        self.name = name
        self.files_image: str | None = None
        """The image with its files, if they were kept."""
        self._engine = engine
        self._on_started = on_started
        self._keep_files = keep_files
        self._starting: asyncio.Task[None] | None = None
        self._removal: asyncio.Task[None] | None = None

    async def start(self, settings: dict[str, Any]) -> None:
        """Create and start it in a task that is never cancelled, because it is removed only after that has finished."""
        self._starting = asyncio.create_task(self._start(settings))
        await asyncio.shield(self._starting)

    async def _start(self, settings: dict[str, Any]) -> None:
        try:
            await self._engine.create(self.name, settings)
            await self._engine.start(self.name)
        finally:
            self._on_started()

    async def state(self) -> dict[str, Any] | None:
        """The state reported by the engine; None if the container does not exist."""
        answer = await self._engine.inspect(self.name)
        return answer["State"] if answer else None

    async def is_running(self) -> bool:
        return bool((await self.state() or {}).get("Running"))

    async def state_when_stopped(self) -> dict[str, Any] | None:
        """Wait until it stops; return its state, or None if it does not exist or does not stop."""
        for _ in range(_STOP_CHECKS):
            state = await self.state()
            if not state or not state.get("Running"):
                return state
            await asyncio.sleep(_CHECK_EVERY_S)
        return None

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Stop its processes for a while, if the engine can. A container that is removed meanwhile need not go on."""
        with contextlib.suppress(EngineError):
            await self._engine.pause(self.name)
        try:
            yield
        finally:
            with contextlib.suppress(EngineError):
                await self._engine.unpause(self.name)

    async def until_larger_than(self, limit: int) -> None:
        """Return when more than this was written to the image's files. Polled rarely, because counting is expensive."""
        while True:
            await asyncio.sleep(_SIZE_EVERY_S)
            with contextlib.suppress(EngineError):  # it may come back; if not, the run ends as a failure of the host
                answer = await self._engine.inspect(self.name, size=True)
                if int((answer or {}).get("SizeRw") or 0) > limit:
                    return

    def remove_soon(self) -> None:
        """Begin to remove it, without waiting. May be called again."""
        if self._removal is None:
            self._removal = asyncio.create_task(self._remove())

    async def removed(self) -> None:
        """Remove it and wait until it is gone. Cancelling this call does not stop the removal."""
        self.remove_soon()
        assert self._removal is not None
        await asyncio.shield(self._removal)

    async def _remove(self) -> None:
        if self._starting is not None:
            with contextlib.suppress(YouBenchaError):
                await self._starting
        if self._keep_files:
            image = state_image(self.name)
            with contextlib.suppress(YouBenchaError):  # who needs it finds that there is none
                await self._engine.commit(self.name, image, state_labels())
                self.files_image = image
        await self._engine.remove(self.name)
