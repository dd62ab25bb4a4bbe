"""Whose container it is: written on it, so that what a dead harness left is known as such."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

OURS = "youbencha"
OWNER = "youbencha.owner"
RUN = "youbencha.run"
SANDBOX = "youbencha.sandbox"
LOBBY = "youbencha.lobby"
NOT_KNOWN = "-"
_PARTS = 5
_MACHINE_DIGITS = 32


class Here(NamedTuple):
    """What numbers processes.

    A harness that itself runs in a container sees other numbers than the host: neither may judge the other's.
    """

    machine: str
    """The same after each start of the computer; `NOT_KNOWN` where it has no number of its own."""
    boot: str
    namespace: str


class Owner(NamedTuple):
    """One process on one computer, never mistaken for another with the same number."""

    here: Here
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
        return cls(Here(*parts[:3]), int(parts[3]), parts[4])


def labels(run: str, sandbox: str, lobby: Path) -> dict[str, str]:
    return {OURS: "1", OWNER: str(this_owner()), RUN: run, SANDBOX: sandbox, LOBBY: str(lobby)}


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
def _here() -> Here:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no path, only a name
    return Here(machine_name(Path("/etc/machine-id")), boot, namespace)


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
