"""Whose container it is: written on it, so that what a dead harness left is known as such."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

OURS = "youbencha"
OWNER = "youbencha.owner"
RUN = "youbencha.run"
SANDBOX = "youbencha.sandbox"
LOBBY = "youbencha.lobby"


class Owner(NamedTuple):
    """One process on one computer, never mistaken for another with the same number."""

    machine: str
    pid: int
    started: str
    """Ticks since the computer was started."""

    def __str__(self) -> str:
        return f"{self.machine}/{self.pid}/{self.started}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        machine, _, rest = text.partition("/")
        pid, _, started = rest.partition("/")
        return cls(machine, int(pid), started) if machine and pid.isdecimal() and started else None


def labels(run: str, sandbox: str, lobby: Path) -> dict[str, str]:
    return {OURS: "1", OWNER: str(this_owner()), RUN: run, SANDBOX: sandbox, LOBBY: str(lobby)}


def this_owner() -> Owner:
    return Owner(_this_machine(), os.getpid(), _start_of(os.getpid()) or "0")


def is_orphan(container_labels: Mapping[str, str]) -> bool:
    """Whether its harness is dead for certain: it was one of this computer, and there is no such process any more."""
    owner = Owner.parse(container_labels.get(OWNER, ""))
    return owner is not None and owner.machine == _this_machine() and _start_of(owner.pid) != owner.started


@cache
def _this_machine() -> str:
    """Changes when the computer is started anew, and with the namespace that gives processes their numbers.

    A harness that itself runs in a container sees other numbers than the host: neither may judge the other's.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}:{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - no path, only a name


def _start_of(pid: int) -> str | None:
    """None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()  # the program's name before it may hold anything
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()
