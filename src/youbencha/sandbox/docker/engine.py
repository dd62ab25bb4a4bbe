"""The container engine: its socket, its capabilities, and calls to it.

A thin layer over aiodocker. Every failure is an `EngineError` with a cause.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    import aiodocker


_BAD_REQUEST, _NOT_FOUND, _CONFLICT, _SERVER_ERROR = 400, 404, 409, 500
_REMOVE_RETRY_S = 0.05
_REMOVE_TIMEOUT_S = 30.0
_FIRST_TIMEOUT_S = 10.0
"""For the first request, which is cheap: an engine that does not answer it hangs."""
_TIMEOUT_S = 120.0
"""For any other answer except pulling and building. On a loaded machine, starting a container took ten seconds."""
_READ_BYTES = 1 << 20
_UNIX = "unix://"
_LISTED_KEYS = ("Id", "Names", "Labels", "State", "ImageID")
"""The fields of a listed container that are used."""


class EngineCause(Enum):
    """Why the engine could not be used, or what made a call fail."""

    UNREACHABLE = "unreachable"
    PERMISSION = "permission"
    REMOTE = "remote"
    """It runs on another host or in a virtual machine."""
    IMAGE_MISSING = "image_missing"
    IMAGE_NAME = "image_name"
    SOURCE_MISSING = "source_missing"
    """The engine does not see a path that is to be mounted."""
    READ_ONLY = "read_only"
    """A mount point cannot be created."""
    OUT_OF_DISK = "out_of_disk"
    OTHER = "other"


CONNECTION_CAUSES = frozenset({EngineCause.UNREACHABLE, EngineCause.PERMISSION, EngineCause.REMOTE})
"""No engine can be used."""

_CODES = {
    EngineCause.UNREACHABLE: "SANDBOX_NO_ENGINE",
    EngineCause.PERMISSION: "SANDBOX_ENGINE_DENIED",
    EngineCause.REMOTE: "SANDBOX_ENGINE_REMOTE",
    EngineCause.IMAGE_MISSING: "SANDBOX_IMAGE_NOT_FOUND",
    EngineCause.IMAGE_NAME: "SANDBOX_IMAGE_INVALID",
}
_FAILED = "SANDBOX_ENGINE_FAILED"

# Engines have no error codes for these: only this table depends on their messages.
_REASONS = {
    "bind source path does not exist": EngineCause.SOURCE_MISSING,
    "read-only file system": EngineCause.READ_ONLY,
    "no space left": EngineCause.OUT_OF_DISK,
}
_HINTS = {
    EngineCause.SOURCE_MISSING: "The engine does not see this host's files. Does youBencha itself run in a container, "
    "or is the engine a snap? Run both side by side, or set TMPDIR to a directory that both can see.",
    EngineCause.READ_ONLY: "A mount point could not be created. Does the image declare a VOLUME within another VOLUME "
    "without having that directory? Use an image that does not.",
    EngineCause.OUT_OF_DISK: "Free disk space for the engine: see `docker system df` and `docker system prune`.",
    EngineCause.OTHER: "See the engine's log (`journalctl -u docker`), and check that `docker info` works.",
}


class EngineError(YouBenchaError):
    """The engine cannot be used, or a call to it failed."""

    def __init__(self, cause: EngineCause, message: str, *, hint: str, reason: str = "") -> None:
        super().__init__(_CODES.get(cause, _FAILED), message, hint=hint)
        self.cause = cause
        self.reason = reason
        """What the engine said."""


class User(NamedTuple):
    uid: int
    gid: int

    def __str__(self) -> str:
        return f"{self.uid}:{self.gid}"


class EngineInfo(NamedTuple):
    """An engine's version and capabilities, as it reports them."""

    name: str
    version: str
    architecture: str
    kernel: str
    cpus: int | None
    rootless: bool
    remaps_users: bool
    selinux: bool
    memory_limit: bool
    pids_limit: bool
    cpu_limit: bool

    @classmethod
    def parse(cls, answer: Mapping[str, Any]) -> EngineInfo:
        """Read the answer to `/info`. Capabilities that it does not mention are assumed."""
        options = " ".join(answer.get("SecurityOptions") or ())
        return cls(
            name="Podman" if "BuildahVersion" in answer else "Docker",
            version=str(answer.get("ServerVersion") or "unknown"),
            architecture=str(answer.get("Architecture") or ""),
            kernel=str(answer.get("KernelVersion") or ""),
            cpus=answer.get("NCPU") or None,
            rootless="name=rootless" in options or bool(answer.get("Rootless")),
            remaps_users="name=userns" in options,
            selinux="name=selinux" in options,
            memory_limit=bool(answer.get("MemoryLimit", True)),
            pids_limit=bool(answer.get("PidsLimit", True)),
            cpu_limit=bool(answer.get("CpuCfsQuota", True)),
        )

    @property
    def user(self) -> User:
        """The user in a container who corresponds to this process's user: root, if the engine is rootless."""
        return User(0, 0) if self.rootless else User(os.getuid(), os.getgid())

    def missing_limits(self) -> Iterator[str]:
        """The limits that the engine cannot enforce."""
        limits = {
            "memory": self.memory_limit,
            "the number of processes": self.pids_limit,
            "processor time": self.cpu_limit,
        }
        return (name for name, is_enforced in limits.items() if not is_enforced)

    def check_same_host(self) -> None:
        """Refuse an engine in a virtual machine (Docker Desktop), which shares neither kernel nor sockets with us."""
        ours = os.uname().release if hasattr(os, "uname") else ""
        if self.kernel != ours:
            raise EngineError(
                EngineCause.REMOTE,
                "The container engine runs in a virtual machine or on another host: "
                f"its kernel is {self.kernel or 'unknown'}, this host's is {ours or 'not Linux'}.",
                hint="Only an engine on this Linux host is supported (Docker or Podman, rootful or rootless). Docker "
                "Desktop and `podman machine` run containers in a virtual machine, which Unix sockets of this host do "
                "not reach. Install an engine on this host (in WSL: in the same distribution), or use "
                "`sandbox: local`.",
            )


class Engine:
    """Calls to the engine. Containers have names that we choose."""

    def __init__(self, client: aiodocker.Docker, info: EngineInfo) -> None:
        self._client = client
        self.info = info

    async def create(self, name: str, config: Mapping[str, Any]) -> None:
        with _call("create a container"):
            await self._client.containers.create(dict(config), name=name)

    async def start(self, name: str) -> None:
        with _call("start a container"):
            await self._client.containers.container(name).start()

    async def pause(self, name: str) -> None:
        with _call("pause a container"):
            await self._client.containers.container(name).pause()

    async def unpause(self, name: str) -> None:
        with _call("continue a container"):
            await self._client.containers.container(name).unpause()

    async def wait(self, name: str) -> int:
        """Wait until a container ends; return its exit code."""
        with _call("wait for a container"):
            return int((await self._client.containers.container(name).wait())["StatusCode"])

    async def output(self, name: str) -> str:
        with _call("read the output of a container"):
            return "".join(await self._client.containers.container(name).log(stdout=True, stderr=True))

    async def inspect(self, name: str, *, size: bool = False) -> dict[str, Any] | None:
        """The engine's description of a container; None if it does not exist."""
        with _call("inspect a container"):
            options = {"size": 1} if size else {}
            return await _none_if_not_found(self._client.containers.container(name).show(**options))

    async def remove(self, name: str) -> None:
        """Kill and remove a container, and wait until it is gone. It need not exist."""
        give_up = time.monotonic() + _REMOVE_TIMEOUT_S
        while True:
            with _call("remove a container"):
                try:
                    await self._client.containers.container(name).delete(force=True, v=True)
                    return
                except _docker_error() as error:
                    if error.status == _NOT_FOUND:
                        return
                    # It is already being removed, or has just ended and cannot be killed.
                    if error.status not in (_CONFLICT, _SERVER_ERROR) or time.monotonic() > give_up:
                        raise
            await asyncio.sleep(_REMOVE_RETRY_S)

    async def commit(self, name: str, image: str, labels: Mapping[str, str]) -> None:
        """Keep the files of a container as an image."""
        repository, _, tag = image.rpartition(":")
        with _call("keep the files of a container"):
            container = self._client.containers.container(name)
            await container.commit(repository=repository, tag=tag, config={"Labels": dict(labels)}, pause=True)

    async def remove_image(self, image: str) -> None:
        """Remove an image, which need not exist."""
        with _call("remove an image"):
            await _none_if_not_found(self._client.images.delete(image, force=True))

    async def labelled(self, *labels: str) -> list[dict[str, Any]]:
        """All containers with these labels, running or not."""
        with _call("list containers"):
            containers = await self._client.containers.list(all=True, filters=json.dumps({"label": list(labels)}))
        return [{key: container[key] for key in _LISTED_KEYS if key in container} for container in containers]

    async def read_file(self, name: str, path: str) -> bytes | None:
        """Read a file of a container, which need not run; None if the file does not exist."""
        with _call("read a file of an image"):
            archive = await _none_if_not_found(self._client.containers.container(name).get_archive(path))
        if archive is None:
            return None
        with archive:
            files = [archive.extractfile(member) for member in archive.getmembers() if member.isfile()]
            return files[0].read() if files and files[0] else None

    async def image(self, name: str) -> dict[str, Any] | None:
        """The engine's description of an image; None if the engine does not have it."""
        with _call("inspect an image"):
            try:
                return await _none_if_not_found(self._client.images.inspect(name))
            except _docker_error() as error:
                if error.status != _BAD_REQUEST:
                    raise
                raise EngineError(
                    EngineCause.IMAGE_NAME,
                    f"{name!r} is not a valid image name: {_reason(error)}",
                    hint="Use lower case without spaces: NAME, NAME:TAG or NAME@sha256:DIGEST, such as "
                    "debian:bookworm.",
                    reason=_reason(error),
                ) from error

    async def images(self, label: str) -> list[dict[str, Any]]:
        """All images with this label."""
        with _call("list images"):
            images: list[dict[str, Any]] = await self._client.images.list(filters={"label": [label]})
            return images

    async def pull(self, image: str, progress: Callable[[str], None]) -> None:
        try:
            async for step in self._client.images.pull(image, stream=True, timeout=None):
                if reason := step.get("error"):
                    raise _docker_error()(_SERVER_ERROR, str(reason))
                progress(str(step.get("status", "")))
        except (_docker_error(), OSError) as error:
            raise EngineError(
                EngineCause.IMAGE_MISSING,
                f"The engine does not have the image {image} and cannot pull it: {_reason(error)}",
                hint="Check its name and the network, or build or load it (`docker build -t NAME .`, `docker load`).",
                reason=_reason(error),
            ) from error

    async def build(
        self,
        context: IO[bytes],
        tag: str,
        *,
        arguments: Mapping[str, str],
        labels: Mapping[str, str],
        progress: Callable[[str], None],
    ) -> str:
        """Build an image from an archive; return its id. `progress` gets the engine's output."""
        with _call(f"build {tag}"):
            steps = self._client.images.build(
                fileobj=_LargeReads(context),
                encoding="identity",
                tag=tag,
                buildargs=arguments,
                labels=labels,
                forcerm=True,
                stream=True,
            )
            async for step in steps:
                progress(str(step.get("stream", "")))
            return str((await self._client.images.inspect(tag))["Id"])


class _LargeReads:
    """Reads larger pieces than aiodocker's 8 KB, which take seconds for half a gigabyte."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, length: int = -1, /) -> bytes:
        return self._file.read(max(length, _READ_BYTES))


_Answer = TypeVar("_Answer")


async def _none_if_not_found(call: Awaitable[_Answer]) -> _Answer | None:
    try:
        return await call
    except _docker_error() as error:
        if error.status == _NOT_FOUND:
            return None
        raise


@contextmanager
def _call(action: str) -> Iterator[None]:
    """Turn the failure of a call into an `EngineError`."""
    try:
        yield
    except (_docker_error(), OSError) as error:
        reason = _reason(error)
        cause = next((cause for text, cause in _REASONS.items() if text in reason), EngineCause.OTHER)
        message = f"The container engine could not {action}: {reason}"
        raise EngineError(cause, message, hint=_HINTS[cause], reason=reason) from error


def _docker_error() -> type[aiodocker.DockerError]:
    """Return aiodocker's error. The library takes half a second to load, and only `connect` needs it."""
    import aiodocker

    return aiodocker.DockerError


def _reason(error: BaseException) -> str:
    return str(getattr(error, "message", None) or error or type(error).__name__).strip()


_known: dict[Path, EngineInfo] = {}
"""Engines by socket. Each engine is asked once per process."""


@asynccontextmanager
async def connect(env: Mapping[str, str] = os.environ, *, same_host: bool = True) -> AsyncIterator[Engine]:
    """Connect to the engine in `env`, or to one found on this host.

    `same_host` refuses a remote engine: a trial, unlike a build, shares files and sockets with its containers.
    """
    import aiodocker  # half a second
    import aiohttp

    socket = find_engine(env)
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    async with aiodocker.Docker(f"{_UNIX}{socket}", timeout=timeout, connector=None) as client:
        if socket not in _known:
            _known[socket] = await _ask_info(client, socket)
        if same_host:
            _known[socket].check_same_host()
        yield Engine(client, _known[socket])


async def _ask_info(client: aiodocker.Docker, socket: Path) -> EngineInfo:
    try:
        async with asyncio.timeout(_FIRST_TIMEOUT_S):
            return EngineInfo.parse(await client.system.info())
    except TimeoutError as error:
        raise EngineError(
            EngineCause.UNREACHABLE,
            f"The container engine at {socket} accepts connections, but did not answer within {_FIRST_TIMEOUT_S:g} s.",
            hint="It hangs or is still starting: check `docker info`, restart it, or set DOCKER_HOST to another.",
        ) from error
    except (OSError, _docker_error()) as error:
        if _is_permission_error(error):
            raise EngineError(
                EngineCause.PERMISSION,
                f"This user may not use the container engine at {socket}.",
                hint="Add yourself to the group `docker` (then log in again), or use a rootless engine.",
            ) from error
        raise EngineError(
            EngineCause.UNREACHABLE,
            f"The container engine at {socket} does not answer: {_reason(error)}",
            hint="Start it, or set DOCKER_HOST to the socket of a running one.",
        ) from error


def _is_permission_error(error: BaseException | None) -> bool:
    """Whether a permission error is the origin, which aiodocker and aiohttp wrap in their own errors."""
    while error is not None:
        if isinstance(error, PermissionError) or isinstance(getattr(error, "os_error", None), PermissionError):
            return True
        error = error.__cause__ or error.__context__
    return False


def find_engine(env: Mapping[str, str] = os.environ) -> Path:
    """The socket of the engine: the one in DOCKER_HOST, or the first of the usual ones that exists."""
    if host := env.get("DOCKER_HOST"):
        return _socket_in(host)
    for path in _usual_sockets(env):
        if path.is_socket():
            return path
    raise EngineError(
        EngineCause.UNREACHABLE,
        "No container engine was found: neither Docker nor Podman listens at one of the usual sockets.",
        hint="Start Docker (or `systemctl --user start podman.socket`), set DOCKER_HOST to its socket, "
        "or run without a container: `sandbox: local`.",
    )


def _usual_sockets(env: Mapping[str, str]) -> Iterator[Path]:
    """Docker first, then Podman; for each, the system's before the user's."""
    yield Path("/var/run/docker.sock")
    runtime = env.get("XDG_RUNTIME_DIR")
    if runtime:
        yield Path(runtime, "docker.sock")
    if home := env.get("HOME"):
        yield Path(home, ".docker/run/docker.sock")
    yield Path("/run/podman/podman.sock")
    if runtime:
        yield Path(runtime, "podman/podman.sock")


def _socket_in(host: str) -> Path:
    if host.startswith(_UNIX):
        return Path(host.removeprefix(_UNIX))
    raise EngineError(
        EngineCause.REMOTE,
        f"DOCKER_HOST names an engine that is reached by {host.partition(':')[0]}, not by a Unix socket.",
        hint="Only an engine on this host is supported, because containers share files and Unix sockets with it: "
        "run youBencha on the engine's host, or unset DOCKER_HOST.",
    )
