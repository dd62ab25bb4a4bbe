"""Record which harness owns a container, and remove what a dead harness left.

Labels identify the owner's process, so that nothing of a running harness is ever removed. But labels are inherited:
`docker commit` gives them to an image, and to every container of it. So the name and the image are checked, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

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

_STATE_REPOSITORY = "youbencha-state"
SOCKET_DIR_PREFIX = "yb-sock-"
_OLDER_SOCKET_DIR = "youbencha.lobby"
_SOCKET_DIR_PREFIXES = (SOCKET_DIR_PREFIX, "yb-lobby-")
"""With the names of older versions, whose directories are removed, too."""

SOCKET_DIR_OWNER = "owner"
"""The file in a socket directory that identifies its owner."""

_CONTAINER_NAME = re.compile(r"(youbencha-[0-9a-f]{12})-(?:\d+|volumes)|youbencha-look-[0-9a-f]{12}")
NOT_KNOWN = "-"
_OWNER_PARTS = 5
_MACHINE_ID_DIGITS = 32
_LONGEST_OWNER = 1024


class HostId(NamedTuple):
    """The scope in which a process id is unique.

    A harness that runs in a container sees different ids than the host: neither may judge the other's.
    """

    machine: str
    """The same after each boot; `NOT_KNOWN` if the host has no id."""
    boot: str
    namespace: str


class Owner(NamedTuple):
    """A process of a host, distinct from a later one with the same id."""

    host: HostId
    pid: int
    started: str
    """Clock ticks since boot."""

    def __str__(self) -> str:
        return "/".join((*self.host, str(self.pid), self.started))

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        parts = text.split("/")
        if len(parts) != _OWNER_PARTS or not all(parts) or not parts[3].isdecimal():
            return None
        return cls(HostId(*parts[:3]), int(parts[3]), parts[4])


def labels(run: str, sandbox: str, socket_dir: Path) -> dict[str, str]:
    """The labels of containers that this process creates."""
    return {OURS: "1", OWNER: str(this_owner()), RUN: run, SANDBOX: sandbox, SOCKET_DIR: str(socket_dir)}


def state_image(container: str) -> str:
    """The name of the image with a container's files."""
    return f"{_STATE_REPOSITORY}:{container}"


def state_labels() -> dict[str, str]:
    """Labels of such an image. It inherits the container's, of which the owner would hide our containers of it."""
    return {STATE: str(this_owner()), OWNER: ""}


def this_owner() -> Owner:
    return Owner(_this_host(), os.getpid(), _start_of(os.getpid()) or "0")


def is_orphan(owner: Owner | None) -> bool:
    """Whether the owner is certainly dead: it was a process of this host, and no longer exists."""
    if owner is None:
        return False
    this = _this_host()
    if owner.host.boot != this.boot:  # no process survives a reboot, if it is the same host
        return owner.host.machine == this.machine != NOT_KNOWN
    return owner.host.namespace == this.namespace and _start_of(owner.pid) != owner.started


@cache
def _this_host() -> HostId:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - not a path, only a name
    return HostId(machine_name(Path("/etc/machine-id")), boot, namespace)


def machine_name(file: Path) -> str:
    """A hash of this machine's id, which itself should not be published."""
    try:
        number = file.read_bytes().strip()
    except OSError:
        return NOT_KNOWN
    if len(number) != _MACHINE_ID_DIGITS:  # it is empty, or not initialized yet
        return NOT_KNOWN
    return hashlib.sha256(b"youbencha" + number).hexdigest()[:16]


def _start_of(pid: int) -> str | None:
    """The start time of a process; None if it does not exist."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = line.rpartition(b")")[2].split()  # the program's name, which comes before, may contain anything
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


class ReapResult(NamedTuple):
    names: tuple[str, ...] = ()
    """The containers that were removed, or would be."""
    failed: tuple[str, ...] = ()
    in_use: int = 0
    """Containers of running harnesses, or of other hosts."""


async def reap_containers(*, dry_run: bool = False) -> ReapResult:
    """Remove what dead harnesses left, at the start of a run and in `yb prune`. Does not require an engine."""
    if not dry_run:
        _remove_orphaned_socket_dirs()
    try:
        async with connect() as engine:
            return await _reap(engine, dry_run=dry_run)
    except EngineError as error:
        if error.cause not in CONNECTION_CAUSES:
            raise
        return ReapResult()


async def own_containers(engine: Engine, label: str) -> list[dict[str, Any]]:
    """The containers with this label that a harness made, and not a user from an image with our labels."""
    return [each for each in await engine.labelled(label) if await _is_own(engine, each)]


async def _is_own(engine: Engine, container: Mapping[str, Any]) -> bool:
    own = container.get("Labels") or {}
    name = _CONTAINER_NAME.fullmatch(_name_of(container))
    if name is None or name[1] not in (None, own.get(SANDBOX)):
        return False
    image = await engine.image(str(container["ImageID"])) or {}
    inherited = (image.get("Config") or {}).get("Labels") or {}
    return bool(inherited.get(OWNER) != own.get(OWNER))


def _name_of(container: Mapping[str, Any]) -> str:
    return str((container.get("Names") or [container["Id"]])[0]).removeprefix("/")


async def _reap(engine: Engine, *, dry_run: bool) -> ReapResult:
    names, failed, in_use = [], [], 0
    for each in await own_containers(engine, f"{OURS}=1"):
        container_labels, name = each.get("Labels") or {}, _name_of(each)
        if not is_orphan(Owner.parse(container_labels.get(OWNER, ""))):
            in_use += 1
        elif dry_run or await _removed(engine, str(each["Id"]), container_labels):
            names.append(name)
        else:
            failed.append(name)
    if not dry_run:
        await _remove_orphaned_images(engine)
    return ReapResult(tuple(names), tuple(failed), in_use)


async def _remove_orphaned_images(engine: Engine) -> None:
    for each in await engine.images(STATE):
        if is_orphan(Owner.parse((each.get("Labels") or {}).get(STATE, ""))):
            for name in each.get("RepoTags") or ():
                if name.removeprefix("localhost/").startswith(f"{_STATE_REPOSITORY}:"):
                    with contextlib.suppress(YouBenchaError):  # the next one tries again
                        await engine.remove_image(name)


async def _removed(engine: Engine, container: str, container_labels: Mapping[str, str]) -> bool:
    try:
        await engine.remove(container)
    except YouBenchaError:
        return False
    remove_socket_dir(Path(container_labels.get(SOCKET_DIR) or container_labels.get(_OLDER_SOCKET_DIR, "")))
    return True


def _remove_orphaned_socket_dirs() -> None:
    """Remove the directories of harnesses that were killed between two containers, which have no label."""
    for parent in socket_dir_parents():
        with contextlib.suppress(OSError):
            for path in Path(parent).iterdir():
                if path.name.startswith(_SOCKET_DIR_PREFIXES) and is_orphan(_owner_of(path)):
                    remove_socket_dir(path)


def _owner_of(socket_dir: Path) -> Owner | None:
    """The owner; None if the file is invalid. No link is followed, because any user may have created one."""
    try:
        about = socket_dir.lstat()
        if about.st_uid != os.getuid() or not stat.S_ISDIR(about.st_mode):
            return None
        return Owner.parse(read_nofollow(socket_dir, SOCKET_DIR_OWNER, _LONGEST_OWNER).decode("ascii"))
    except (OSError, UnicodeDecodeError):  # not readable, or not written yet
        return None


def remove_socket_dir(path: Path) -> None:
    """Remove a socket directory, if it looks like ours and belongs to this user."""
    if not path.name.startswith(_SOCKET_DIR_PREFIXES) or not path.is_absolute():
        return
    try:
        about = path.lstat()
    except OSError:
        return
    if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid():
        shutil.rmtree(path, ignore_errors=True)


def socket_dir_parents() -> Iterable[str]:
    """The directories for socket directories, best first."""
    return dict.fromkeys((tempfile.gettempdir(), "/tmp"))  # noqa: S108 - made by mkdtemp, with a random name
