"""Whose container it is: written on it, so that what a dead harness left is known as such."""

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
from youbencha.sandbox.docker.engine import ENGINE_DENIED, NO_ENGINE, REMOTE_ENGINE, Engine, connect

OURS = "youbencha"

OWNER = "youbencha.owner"

RUN = "youbencha.run"

SANDBOX = "youbencha.sandbox"

LOBBY = "youbencha.lobby"

NOT_KNOWN = "-"

_PARTS = 5

_MACHINE_DIGITS = 32


class HostId(NamedTuple):
    """What numbers processes.

    A harness that itself runs in a container sees other numbers than the host: neither may judge the other's.
    """

    machine: str
    """The same after each start of the computer; `NOT_KNOWN` where it has no number of its own."""
    boot: str
    namespace: str


class Owner(NamedTuple):
    """One process on one computer, never mistaken for another with the same number."""

    here: HostId
    pid: int
    started: str
    """Ticks since the computer was started."""

    def __str__(self) -> str:
        return "/".join((*self.here, str(self.pid), self.started))

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        parts = text.split("/")
        if len(parts) != _PARTS or not all(parts) or not parts[3].isdecimal():
            return None
        return cls(HostId(*parts[:3]), int(parts[3]), parts[4])


def labels(run: str, sandbox: str, socket_dir: Path) -> dict[str, str]:
    return {OURS: "1", OWNER: str(this_owner()), RUN: run, SANDBOX: sandbox, LOBBY: str(socket_dir)}


def this_owner() -> Owner:
    return Owner(_here(), os.getpid(), _start_of(os.getpid()) or "0")


def is_orphan(owner: Owner | None) -> bool:
    """Whether it is dead for certain: it was one of this computer, and there is no such process any more."""
    if owner is None:
        return False
    here = _here()
    if owner.here.boot != here.boot:  # no process outlives its computer's end; but is it the same computer?
        return owner.here.machine == here.machine != NOT_KNOWN
    return owner.here.namespace == here.namespace and _start_of(owner.pid) != owner.started


@cache
def _here() -> HostId:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no path, only a name
    return HostId(machine_name(Path("/etc/machine-id")), boot, namespace)


def machine_name(file: Path) -> str:
    """Hashed: the number itself is meant to stay on the computer."""
    try:
        number = file.read_bytes().strip()
    except OSError:
        return NOT_KNOWN
    known = len(number) == _MACHINE_DIGITS  # else it is empty, or says that it is yet to be made
    return hashlib.sha256(b"youbencha" + number).hexdigest()[:16] if known else NOT_KNOWN


def _start_of(pid: int) -> str | None:
    """None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()  # the program's name before it may hold anything
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


# Removes the containers and socket directories that a dead harness left, and never those of a living one.

_NOT_OURS_TO_TELL = {NO_ENGINE, REMOTE_ENGINE, ENGINE_DENIED}
"""Where we could never have made a container, there is none of ours."""

SOCKET_DIR_PREFIX = "yb-lobby-"

SOCKET_DIR_OWNER = "owner"
"""The file that names the process."""

_LONGEST_OWNER = 1024


class ReapResult(NamedTuple):
    names: tuple[str, ...] = ()
    """The containers that were removed, or would have been."""
    failed: tuple[str, ...] = ()
    in_use: int = 0
    """Containers of harnesses that live, or of other computers."""


async def reap_containers(*, dry_run: bool = False) -> ReapResult:
    """At the start of a run, and by `yb prune`. Where there is no engine, there are no containers."""
    if not dry_run:
        remove_orphaned_socket_dirs()
    try:
        async with connect() as engine:
            return await reap(engine, dry_run=dry_run)
    except YouBenchaError as error:
        if error.code not in _NOT_OURS_TO_TELL:
            raise
        return ReapResult()


async def reap(engine: Engine, *, dry_run: bool = False) -> ReapResult:
    names, failed, in_use = [], [], 0
    for each in await engine.labelled(f"{OURS}=1"):
        container_labels = each.get("Labels") or {}
        name = str((each.get("Names") or [each["Id"]])[0]).removeprefix("/")
        if not is_orphan(Owner.parse(container_labels.get(OWNER, ""))):
            in_use += 1
        elif dry_run or await _is_removed(engine, str(each["Id"]), container_labels):
            names.append(name)
        else:
            failed.append(name)
    return ReapResult(tuple(names), tuple(failed), in_use)


async def _is_removed(engine: Engine, container: str, container_labels: Mapping[str, str]) -> bool:
    try:
        await engine.remove(container)
    except YouBenchaError:
        return False
    remove_socket_dir(Path(container_labels.get(LOBBY, "")))
    return True


def remove_orphaned_socket_dirs() -> None:
    """Those of harnesses that were killed between two containers: no label leads there."""
    for parent in socket_dir_parents():
        with contextlib.suppress(OSError):
            for path in Path(parent).glob(f"{SOCKET_DIR_PREFIX}*"):
                if is_orphan(_owner_of(path)):
                    remove_socket_dir(path)


def remove_socket_dir(path: Path) -> None:
    """Remove it only if it is recognisably one of ours, and this user's."""
    if not path.name.startswith(SOCKET_DIR_PREFIX) or not path.is_absolute():
        return
    try:
        about = path.lstat()
    except OSError:
        return
    if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid():
        shutil.rmtree(path, ignore_errors=True)


def socket_dir_parents() -> Iterable[str]:
    return dict.fromkeys((tempfile.gettempdir(), "/tmp"))  # noqa: S108 - made by mkdtemp, with a random name


def _owner_of(path: Path) -> Owner | None:
    """None for whatever is not written as we write it. No link is followed: any user may have made one."""
    try:
        if path.lstat().st_uid != os.getuid() or not stat.S_ISDIR(path.lstat().st_mode):
            return None
        file = os.open(path / SOCKET_DIR_OWNER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return Owner.parse(os.read(file, _LONGEST_OWNER).decode("ascii"))
        finally:
            os.close(file)
    except (OSError, UnicodeDecodeError):  # not ours to read, or not there yet
        return None
