"""The container engine: a thin layer over aiodocker that speaks in our words and our errors."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    import aiodocker


class User(NamedTuple):
    uid: int
    gid: int

    def __str__(self) -> str:
        return f"{self.uid}:{self.gid}"


# What an engine is and can, as it tells by itself.


class EngineInfo(NamedTuple):
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

    def cannot(self) -> Iterator[str]:
        """The limits that it would not enforce, in words."""
        can = {
            "memory": self.memory_limit,
            "the number of processes": self.pids_limit,
            "processor time": self.cpu_limit,
        }
        return (what for what, possible in can.items() if not possible)


def read_facts(told: Mapping[str, Any]) -> EngineInfo:
    """The engine's `/info`, as far as it matters. What an engine does not mention, it is taken to be able to do."""
    options = " ".join(told.get("SecurityOptions") or ())
    return EngineInfo(
        name="Podman" if "BuildahVersion" in told else "Docker",
        version=str(told.get("ServerVersion") or "unknown"),
        architecture=str(told.get("Architecture") or ""),
        kernel=str(told.get("KernelVersion") or ""),
        cpus=told.get("NCPU") or None,
        rootless="name=rootless" in options or bool(told.get("Rootless")),
        remaps_users="name=userns" in options,
        selinux="name=selinux" in options,
        memory_limit=bool(told.get("MemoryLimit", True)),
        pids_limit=bool(told.get("PidsLimit", True)),
        cpu_limit=bool(told.get("CpuCfsQuota", True)),
    )


def check_same_computer(facts: EngineInfo) -> None:
    """Refuse an engine in a virtual machine (Docker Desktop): it shares neither our kernel nor our sockets."""
    here = os.uname().release if hasattr(os, "uname") else ""
    if facts.kernel != here:
        raise YouBenchaError(
            REMOTE_ENGINE,
            "The container engine runs in a virtual machine or on another host: "
            f"its kernel is {facts.kernel or 'unknown'}, this host's is {here or 'not Linux'}.",
            hint="Only an engine on this Linux host is supported (Docker or Podman, rootful or rootless). "
            "Docker Desktop and `podman machine` run containers in a virtual machine, which Unix sockets of this host "
            "do not reach. Install an engine on this host (in WSL: in the same distribution), or use `sandbox: local`.",
        )


_BAD_REQUEST, _NOT_FOUND, _CONFLICT = 400, 404, 409

_BUSY_AGAIN_S = 0.05

_BUSY_FOR_S = 30.0

_FIRST_ANSWER_S = 10.0
"""An engine that is asked who it is has nothing to do for that. One that hangs is told from one that works."""

_PATIENCE_S = 120.0
"""For any one answer of the engine, pulling apart: on a loaded machine, starting a container has taken ten seconds."""


_facts: dict[Path, EngineInfo] = {}
"""Of each engine, asked once per process."""


class Engine:
    def __init__(self, client: aiodocker.Docker, facts: EngineInfo) -> None:
        self._client = client
        self.facts = facts

    async def create(self, name: str, config: Mapping[str, Any]) -> None:
        with engine_call("create a container"):
            await self._client.containers.create(dict(config), name=name)

    async def start(self, name: str) -> None:
        with engine_call("start a container"):
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

        with engine_call("list containers"):
            found = await self._client.containers.list(all=True, filters=json.dumps({"label": list(labels)}))
        return [container._container for container in found]

    async def read_file(self, name: str, path: str) -> bytes | None:
        """A file of a container, which need not run; None if there is no such file."""
        from aiodocker import DockerError

        with engine_call("read a file of an image"):
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

        with engine_call(what):
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


async def _ask(client: aiodocker.Docker, socket: Path) -> EngineInfo:
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


# What the engine says when something goes wrong, in our words.

ENGINE_FAILED = "SANDBOX_ENGINE_FAILED"

ENGINE_DENIED = "SANDBOX_ENGINE_DENIED"


def not_there(socket: Path, error: BaseException, waited_s: float) -> YouBenchaError:
    cause = error.__cause__ or error
    if isinstance(cause, PermissionError) or isinstance(getattr(error, "os_error", None), PermissionError):
        return YouBenchaError(
            ENGINE_DENIED,
            f"This user may not use the container engine at {socket}.",
            hint="Add yourself to the group `docker` (then log in again), or use a rootless engine.",
        )
    if isinstance(error, TimeoutError):
        return YouBenchaError(
            NO_ENGINE,
            f"The container engine at {socket} takes calls, but said nothing for {waited_s:g} seconds.",
            hint="It hangs, or is still starting: look at `docker info`, start it anew, or set DOCKER_HOST to another.",
        )
    return YouBenchaError(
        NO_ENGINE,
        f"The container engine at {socket} does not answer: {reason_of(error)}",
        hint="Start it, or set DOCKER_HOST to the socket of one that runs.",
    )


def no_name(image: str, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "SANDBOX_IMAGE_INVALID",
        f"{image!r} is no name of an image: {reason}",
        hint="Names are in lower case, without spaces: NAME, NAME:TAG or NAME@sha256:DIGEST, such as debian:bookworm.",
    )


_HINTS = {
    "bind source path does not exist": "The engine does not see this computer's files. Is the harness itself in a "
    "container, or the engine a snap? Run both side by side, or set TMPDIR to a directory that both see.",
    "read-only file system": "Something has no place to be mounted on. Does the image declare a VOLUME within another "
    "VOLUME, without having that directory? Then use an image that does not.",
    "no space left": "Free some space where the engine keeps its files: `docker system df`, `docker system prune`.",
    "": "Its own log says more (`journalctl -u docker`). `docker info` tells whether it still works.",
}


def failed(what: str, reason: str) -> YouBenchaError:
    hint = next(hint for words, hint in _HINTS.items() if words in reason)
    return YouBenchaError(ENGINE_FAILED, f"The container engine could not {what}: {reason}", hint=hint)


class engine_call:  # noqa: N801 - reads as a word: with explained("…")
    """Turns what the engine says into our error."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from aiodocker import DockerError

        if isinstance(error, (DockerError, OSError, TimeoutError)):
            raise failed(self._what, reason_of(error)) from error


def reason_of(error: BaseException) -> str:
    return str(getattr(error, "message", None) or error or type(error).__name__).strip()


# Where a container engine listens on this computer.

UNIX = "unix://"

NO_ENGINE = "SANDBOX_NO_ENGINE"

REMOTE_ENGINE = "SANDBOX_ENGINE_REMOTE"


def find_engine(env: Mapping[str, str] = os.environ) -> Path:
    """The socket of the engine: the one that the environment names, or the first that is there."""
    if host := env.get("DOCKER_HOST"):
        return _named(host)
    for path in candidates(env):
        if path.is_socket():
            return path
    raise YouBenchaError(
        NO_ENGINE,
        "There is no container engine: neither Docker nor Podman listens at any of the usual places.",
        hint="Start Docker (or `systemctl --user start podman.socket`), set DOCKER_HOST to its socket, "
        "or run without a container: `sandbox: local`.",
    )


def candidates(env: Mapping[str, str]) -> Iterator[Path]:
    """Docker first, then Podman; of each, the system's before the user's own."""
    yield Path("/var/run/docker.sock")
    runtime = env.get("XDG_RUNTIME_DIR")
    if runtime:
        yield Path(runtime, "docker.sock")
    if home := env.get("HOME"):
        yield Path(home, ".docker/run/docker.sock")
    yield Path("/run/podman/podman.sock")
    if runtime:
        yield Path(runtime, "podman/podman.sock")


def _named(host: str) -> Path:
    if host.startswith(UNIX):
        return Path(host.removeprefix(UNIX))
    raise YouBenchaError(
        REMOTE_ENGINE,
        f"DOCKER_HOST names an engine that is reached by {host.partition(':')[0]}, not by a Unix socket.",
        hint="Only an engine on this host is supported, because containers share files and Unix sockets with it: "
        "run youBencha on the engine's host, or unset DOCKER_HOST.",
    )


# The engine that images are built on.


@asynccontextmanager
async def image_engine(env: Mapping[str, str] = os.environ) -> AsyncIterator[aiodocker.Docker]:
    """Unlike a trial, a build shares nothing with this computer: any engine will do that answers here."""
    import aiodocker

    socket = find_engine(env)
    async with aiodocker.Docker(f"{UNIX}{socket}") as client:
        try:
            await client.version()
        except (OSError, TimeoutError, aiodocker.DockerError) as error:
            raise YouBenchaError(
                NO_ENGINE,
                f"The container engine at {socket} does not answer: {getattr(error, 'message', error)}",
                hint="Start it, or set DOCKER_HOST to the socket of one that runs.",
            ) from error
        yield client


def refused(what: str, error: aiodocker.DockerError) -> YouBenchaError:
    return YouBenchaError(
        "IMAGE_ENGINE_FAILED",
        f"the container engine could not {what}: {error.message}",
        hint="Its own log says more. `docker info` tells whether it still works.",
    )
