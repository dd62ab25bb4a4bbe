"""Record which harness owns a container, and remove what a dead harness left.

A container is removed only if it has our label and one of our names, and if the process that made it is dead. Labels
alone do not prove that it is ours: `docker commit` gives them to an image, and to every container of that image.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.files import read_nofollow
from youbencha.sandbox.docker.engine import CONNECTION_CAUSES, Engine, EngineError, connect

OURS = "youbencha"
OWNER = "youbencha.owner"
RUN = "youbencha.run"
SANDBOX = "youbencha.sandbox"
SOCKET_DIR = "youbencha.socket-dir"
"""Labels. Their names must not change, because they identify what an older version left."""

STATE = "youbencha.state"
"""The label of an image with the files of a container: its owner. Such images are removed at the end of a trial."""

STATE_REPOSITORY = "youbencha-state"
SOCKET_DIR_PREFIX = "yb-sock-"
SOCKET_DIR_OWNER = "owner"
"""The file in a socket directory that identifies its owner."""

_CONTAINER_NAME = re.compile(r"(youbencha-[0-9a-f]{12})-(?:\d+|volumes)|youbencha-(?:look|base)-[0-9a-f]{12}")
MAX_OWNER_BYTES = 1024


@dataclass(frozen=True)
class Owner:
    """A process of this host, distinct from a later one with the same id."""

    boot: str
    namespace: str
    """The scope of the process id. A harness in a container sees different ids than the host."""
    pid: int
    started: str
    """Clock ticks since boot."""

    def __str__(self) -> str:
        return "/".join((self.boot, self.namespace, str(self.pid), self.started))

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Read an owner. Older versions wrote the machine before it."""
        match text.split("/")[-4:]:
            case [boot, namespace, pid, started] if boot and namespace and pid.isdecimal() and started:
                return cls(boot, namespace, int(pid), started)
        return None

    def has_left(self, container_state: str = "exited") -> bool:
        """Whether what the process made is certainly abandoned. False if the process cannot be seen from here."""
        me = this_owner()
        if self.boot != me.boot:  # a restart stops every container, so a running one is another host's
            return container_state != "running"
        return self.namespace == me.namespace and _start_time(self.pid) != self.started


def this_owner() -> Owner:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - not a path, only a name
    return Owner(boot, namespace, os.getpid(), _start_time(os.getpid()) or "0")


def _start_time(pid: int) -> str | None:
    """The start time of a process; None if it does not exist."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = line.rpartition(b")")[2].split()  # the program's name, which comes before, may contain anything
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def labels(run: str, sandbox: str, socket_dir: Path) -> dict[str, str]:
    """The labels of containers that this process creates."""
    return {OURS: "1", OWNER: str(this_owner()), RUN: run, SANDBOX: sandbox, SOCKET_DIR: str(socket_dir)}


def state_image(container: str) -> str:
    """The name of the image with a container's files."""
    return f"{STATE_REPOSITORY}:{container}"


@dataclass(frozen=True)
class ReapResult:
    """What dead harnesses left on the engine."""

    names: tuple[str, ...] = ()
    """The containers that were removed, or would be."""
    failed: tuple[str, ...] = ()
    in_use: int = 0
    """Containers of running harnesses, or of other hosts."""


async def reap_containers(*, dry_run: bool = False) -> ReapResult:
    """Remove what dead harnesses left, at the start of a run and in `yb prune`. Does not require an engine."""
    if not dry_run:
        _remove_abandoned_socket_dirs()
    try:
        async with connect() as engine:
            return await _reap(engine, dry_run=dry_run)
    except EngineError as error:
        if error.cause not in CONNECTION_CAUSES:
            raise
        return ReapResult()


async def own_containers(engine: Engine, label: str) -> list[dict[str, Any]]:
    """The containers with this label that a harness made and named."""
    return [container for container in await engine.labelled(label) if _is_own(container)]


def _is_own(container: Mapping[str, Any]) -> bool:
    match = _CONTAINER_NAME.fullmatch(_name(container))
    return match is not None and match[1] in (None, (container.get("Labels") or {}).get(SANDBOX))


def _name(container: Mapping[str, Any]) -> str:
    return str((container.get("Names") or [container["Id"]])[0]).removeprefix("/")


async def _reap(engine: Engine, *, dry_run: bool) -> ReapResult:
    names, failed, in_use = [], [], 0
    for container in await own_containers(engine, f"{OURS}=1"):
        container_labels = container.get("Labels") or {}
        owner = Owner.parse(container_labels.get(OWNER, ""))
        if owner is None or not owner.has_left(str(container.get("State"))):
            in_use += 1
        elif dry_run or await _try_remove(engine, str(container["Id"]), container_labels):
            names.append(_name(container))
        else:
            failed.append(_name(container))
    if not dry_run:
        await _remove_abandoned_images(engine)
    return ReapResult(tuple(names), tuple(failed), in_use)


async def _remove_abandoned_images(engine: Engine) -> None:
    for image in await engine.images(STATE):
        owner = Owner.parse((image.get("Labels") or {}).get(STATE, ""))
        if owner is not None and owner.has_left():
            for name in image.get("RepoTags") or ():
                if name.removeprefix("localhost/").startswith(f"{STATE_REPOSITORY}:"):
                    with contextlib.suppress(YouBenchaError):  # the next run tries again
                        await engine.remove_image(name)


async def _try_remove(engine: Engine, container: str, container_labels: Mapping[str, str]) -> bool:
    try:
        await engine.remove(container)
    except YouBenchaError:
        return False
    remove_socket_dir(Path(container_labels.get(SOCKET_DIR, "")))
    return True


def _remove_abandoned_socket_dirs() -> None:
    """Remove the directories of harnesses that were killed between two containers, which have no label."""
    for parent in socket_dir_parents():
        with contextlib.suppress(OSError):
            for path in Path(parent).iterdir():
                if path.name.startswith(SOCKET_DIR_PREFIX) and (owner := _read_owner(path)) and owner.has_left():
                    remove_socket_dir(path)


def _read_owner(socket_dir: Path) -> Owner | None:
    """The owner; None if the file is invalid. No link is followed, because any user may have created one."""
    try:
        status = socket_dir.lstat()
        if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
            return None
        return Owner.parse(read_nofollow(socket_dir, SOCKET_DIR_OWNER, MAX_OWNER_BYTES).decode("ascii"))
    except (OSError, UnicodeDecodeError):  # not readable, or not written yet
        return None


def remove_socket_dir(path: Path) -> None:
    """Remove a socket directory, if it looks like ours and belongs to this user."""
    if not path.name.startswith(SOCKET_DIR_PREFIX) or not path.is_absolute():
        return
    try:
        status = path.lstat()
    except OSError:
        return
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
        shutil.rmtree(path, ignore_errors=True)


def socket_dir_parents() -> Iterable[str]:
    """The directories for socket directories, best first."""
    return dict.fromkeys((tempfile.gettempdir(), "/tmp"))  # noqa: S108 - made by mkdtemp, with a random name
