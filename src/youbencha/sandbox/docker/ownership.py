"""Which harness a container belongs to, and removal of what a dead harness left behind.

Labels name the owner's process, so that nothing of a living harness is ever removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import read_untrusted
from youbencha.sandbox.docker.engine import CONNECTION_CAUSES, Engine, EngineError, connect

OURS = "youbencha"
OWNER = "youbencha.owner"
RUN = "youbencha.run"
SANDBOX = "youbencha.sandbox"
SOCKET_DIR = "youbencha.lobby"
"""Labels. Their names stay: what an older version left is known by them."""

SOCKET_DIR_PREFIX = "yb-lobby-"
SOCKET_DIR_OWNER = "owner"
"""The file in a socket directory that names its owner."""

NOT_KNOWN = "-"
_OWNER_PARTS = 5
_MACHINE_ID_DIGITS = 32
_LONGEST_OWNER = 1024


class HostId(NamedTuple):
    """The space in which a process number means one process.

    A harness that runs in a container itself sees other numbers than the host: neither may judge the other's.
    """

    machine: str
    """The same after each boot; `NOT_KNOWN` where the host has no id."""
    boot: str
    namespace: str


class Owner(NamedTuple):
    """One process of one host, never mistaken for another with the same number."""

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
    """The labels of a container that this process makes."""
    return {OURS: "1", OWNER: str(this_owner()), RUN: run, SANDBOX: sandbox, SOCKET_DIR: str(socket_dir)}


def this_owner() -> Owner:
    return Owner(_this_host(), os.getpid(), _start_of(os.getpid()) or "0")


def is_orphan(owner: Owner | None) -> bool:
    """Whether the owner is certainly dead: it was a process of this host, and no longer exists."""
    if owner is None:
        return False
    this = _this_host()
    if owner.host.boot != this.boot:  # no process survives a reboot; but is it the same host?
        return owner.host.machine == this.machine != NOT_KNOWN
    return owner.host.namespace == this.namespace and _start_of(owner.pid) != owner.started


@cache
def _this_host() -> HostId:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - not a path, only a name
    return HostId(machine_name(Path("/etc/machine-id")), boot, namespace)


def machine_name(file: Path) -> str:
    """A name for this machine, hashed: the id itself is not to leave it."""
    try:
        number = file.read_bytes().strip()
    except OSError:
        return NOT_KNOWN
    if len(number) != _MACHINE_ID_DIGITS:  # it is empty, or says that it is yet to be made
        return NOT_KNOWN
    return hashlib.sha256(b"youbencha" + number).hexdigest()[:16]


def _start_of(pid: int) -> str | None:
    """When a process was started; None if there is none of that number."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = line.rpartition(b")")[2].split()  # the program's name before it may hold anything
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


class ReapResult(NamedTuple):
    names: tuple[str, ...] = ()
    """The containers that were removed, or would have been."""
    failed: tuple[str, ...] = ()
    in_use: int = 0
    """Containers of living harnesses, or of other hosts."""


async def reap_containers(*, dry_run: bool = False) -> ReapResult:
    """Remove what dead harnesses left: at the start of a run, and by `yb prune`. Needs no engine to be there."""
    if not dry_run:
        _remove_orphaned_socket_dirs()
    try:
        async with connect() as engine:
            return await _reap(engine, dry_run=dry_run)
    except EngineError as error:
        if error.cause not in CONNECTION_CAUSES:
            raise
        return ReapResult()


async def _reap(engine: Engine, *, dry_run: bool) -> ReapResult:
    names, failed, in_use = [], [], 0
    for each in await engine.labelled(f"{OURS}=1"):
        container_labels = each.get("Labels") or {}
        name = str((each.get("Names") or [each["Id"]])[0]).removeprefix("/")
        if not is_orphan(Owner.parse(container_labels.get(OWNER, ""))):
            in_use += 1
        elif dry_run or await _removed(engine, str(each["Id"]), container_labels):
            names.append(name)
        else:
            failed.append(name)
    return ReapResult(tuple(names), tuple(failed), in_use)


async def _removed(engine: Engine, container: str, container_labels: Mapping[str, str]) -> bool:
    try:
        await engine.remove(container)
    except YouBenchaError:
        return False
    remove_socket_dir(Path(container_labels.get(SOCKET_DIR, "")))
    return True


def _remove_orphaned_socket_dirs() -> None:
    """Those of harnesses that were killed between two containers: no label leads there."""
    for parent in socket_dir_parents():
        with contextlib.suppress(OSError):
            for path in Path(parent).glob(f"{SOCKET_DIR_PREFIX}*"):
                if is_orphan(_owner_of(path)):
                    remove_socket_dir(path)


def _owner_of(socket_dir: Path) -> Owner | None:
    """None unless it is written as we write it. No link is followed: any user may have made one."""
    try:
        about = socket_dir.lstat()
        if about.st_uid != os.getuid() or not stat.S_ISDIR(about.st_mode):
            return None
        return Owner.parse(read_untrusted(socket_dir, SOCKET_DIR_OWNER, _LONGEST_OWNER).decode("ascii"))
    except (OSError, UnicodeDecodeError):  # not readable, or not written yet
        return None


def remove_socket_dir(path: Path) -> None:
    """Remove a socket directory, if it is recognisably one of ours and belongs to this user."""
    if not path.name.startswith(SOCKET_DIR_PREFIX) or not path.is_absolute():
        return
    try:
        about = path.lstat()
    except OSError:
        return
    if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid():
        shutil.rmtree(path, ignore_errors=True)


def socket_dir_parents() -> Iterable[str]:
    """Where socket directories are made, best first."""
    return dict.fromkeys((tempfile.gettempdir(), "/tmp"))  # noqa: S108 - made by mkdtemp, with a random name
