"""One container, from its creation to its certain removal."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker.engine import Engine, EngineInfo, User
from youbencha.sandbox.docker.mounts import LOBBY, WORKSPACE, Mount
from youbencha.spec.sandbox import SandboxSpec

_LOOK_AGAIN_S = 0.1

_SIZE_EVERY_S = 3.0

_STOPS_WITHIN = 100
"""Looks. What was killed may take a while to be gone, if it was large."""


class Container:
    """Known by a name that we choose: so it can be removed even if the engine's answer never arrived."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.name = name
        self._engine = engine
        self._made: asyncio.Task[None] | None = None
        self._removal: asyncio.Task[None] | None = None

    async def start(self, settings: dict[str, Any]) -> None:
        """In a task that nobody cancels: what the engine has begun, it finishes, and only then is it removed."""
        self._made = asyncio.create_task(self._make(settings))
        await asyncio.shield(self._made)

    async def is_running(self) -> bool:
        return bool((await self.state() or {}).get("Running"))

    async def state(self) -> dict[str, Any] | None:
        told = await self._engine.inspect(self.name)
        return told["State"] if told else None

    async def state_when_stopped(self) -> dict[str, Any] | None:
        for _ in range(_STOPS_WITHIN):
            state = await self.state()
            if not state or not state.get("Running"):
                return state
            await asyncio.sleep(_LOOK_AGAIN_S)
        return None

    async def until_larger_than(self, limit: int) -> None:
        """What was changed in the image's own files. Counting that is work for the engine, so it is asked seldom."""
        while True:
            await asyncio.sleep(_SIZE_EVERY_S)
            told = await self._engine.inspect(self.name, size=True)
            if int((told or {}).get("SizeRw") or 0) > limit:
                return

    def remove_soon(self) -> None:
        """Begin it, and do not wait. Once is enough."""
        if self._removal is None:
            self._removal = asyncio.create_task(self._remove())

    async def removed(self) -> None:
        """Waits until it is gone, also if this call itself is cancelled meanwhile."""
        self.remove_soon()
        assert self._removal is not None
        await asyncio.shield(self._removal)

    async def _make(self, settings: dict[str, Any]) -> None:
        await self._engine.create(self.name, settings)
        await self._engine.start(self.name)

    async def _remove(self) -> None:
        if self._made is not None:
            with contextlib.suppress(YouBenchaError):
                await self._made
        await self._engine.remove(self.name)


# What the engine is asked for, as one pure function.

FIRST_PROGRAM = str(LOBBY / "init")

LIFELINE = str(LOBBY / "life.sock")

DOORS = LOBBY / "doors"

_SHARED_MEMORY = 256 * 1024**2

_OPEN_FILES = 65536

_PROCESS_NUMBERS = Path("/proc/sys/kernel/pid_max")


def user_inside(facts: EngineInfo) -> User:
    """Files that the agent makes shall be the harness's. In a rootless engine, its user is called root inside."""
    return User(0, 0) if facts.rootless else User(os.getuid(), os.getgid())


def container_settings(
    spec: SandboxSpec,
    image: str,
    facts: EngineInfo,
    user: User,
    mounts: Sequence[Mount],
    labels: Mapping[str, str],
    volumes_of: str | None = None,
) -> dict[str, Any]:
    """One fresh container: nobody's credentials, no capabilities, no network unless it was asked for.

    `volumes_of`: a container that has the image's volumes, which are read-only for this one.
    """
    return {
        "Image": image,
        "Entrypoint": [FIRST_PROGRAM],
        "Cmd": [LIFELINE],
        "User": str(user),
        "WorkingDir": str(WORKSPACE),
        "Labels": dict(labels),
        "Healthcheck": {"Test": ["NONE"]},  # an image's own would run programs in there
        "HostConfig": {
            "Mounts": [mount.as_docker() for mount in mounts],
            "VolumesFrom": [f"{volumes_of}:ro"] if volumes_of else [],
            "Init": False,  # our first program is one
            "CapDrop": ["ALL"],
            "SecurityOpt": _security(facts),
            "ReadonlyRootfs": not spec.writable,
            "NetworkMode": "bridge" if spec.network == "open" else "none",
            "ExtraHosts": [f"host.docker.internal:{'host-gateway' if spec.network == 'open' else '127.0.0.1'}"],
            "IpcMode": "private",
            "ShmSize": min(_SHARED_MEMORY, spec.memory),
            "LogConfig": {"Type": "none"},
            "RestartPolicy": {"Name": "no"},
            "Ulimits": _ulimits(facts),
            **_limits(spec, facts),
            **({"UsernsMode": "host"} if facts.remaps_users else {}),
        },
    }


def _security(facts: EngineInfo) -> list[str]:
    """The default seccomp profile is in force by not being mentioned.

    Where there is SELinux, its labels would keep the container from the mounted files and from our sockets.
    """
    return ["no-new-privileges", *(["label=disable"] if facts.selinux else [])]


def _ulimits(facts: EngineInfo) -> list[dict[str, Any]]:
    """No core files. Open files: the same number with every engine, of which some give a thousand, others a billion.

    Never more than we ourselves may have: an engine without the capability for it could not raise that. For the same
    reason Podman, which as root raises the number of processes to a million unasked, is given one that is within its
    own (it lowers that to what there are process numbers for). What limits an agent is PidsLimit.
    """
    limits = {"core": 0, "nofile": _at_most(_OPEN_FILES, "RLIMIT_NOFILE")}
    if facts.name == "Podman" and not facts.rootless:
        limits["nproc"] = _at_most(int(_PROCESS_NUMBERS.read_text()), "RLIMIT_NPROC")
    return [{"Name": name, "Soft": limit, "Hard": limit} for name, limit in limits.items()]


def _at_most(wanted: int, name: str) -> int:
    import resource

    ours = resource.getrlimit(getattr(resource, name))[1]
    return wanted if ours == resource.RLIM_INFINITY else min(ours, wanted)


def _limits(spec: SandboxSpec, facts: EngineInfo) -> dict[str, Any]:
    """Those that this engine can enforce."""
    limits: dict[str, Any] = {}
    if facts.memory_limit:
        limits |= {"Memory": spec.memory, "MemorySwap": spec.memory}  # the same: no swap
    if facts.pids_limit:
        limits["PidsLimit"] = spec.pids
    if facts.cpu_limit and spec.cpus is not None:
        limits["NanoCpus"] = round(min(spec.cpus, facts.cpus or spec.cpus) * 1e9)  # more than there are is an error
    return limits
