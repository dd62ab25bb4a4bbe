"""A small directory of the harness, for the sockets that one sandbox may use."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.sandbox.base import Door
from youbencha.sandbox.docker.labels import Owner, is_orphan, this_owner
from youbencha.sandbox.docker.settings import DOORS

_PREFIX = "yb-lobby-"
_OWNER = "owner"
_LONGEST_OWNER = 1024
_LONGEST_SOCKET = 107
"""Bytes that Linux has for the path of a Unix socket."""
_LONGEST_NAME = len("/doors/65535.sock")


class Lobby:
    """Its path is short, since those of sockets must be, and nobody but the user may enter."""

    def __init__(self) -> None:
        self.path = _make()
        (self.path / _OWNER).write_text(str(this_owner()), encoding="ascii")
        self.doors = self.path / "doors"
        self.doors.mkdir(mode=0o700)
        self.ports: list[int] = []
        self._lifelines = 0

    def door(self, port: int) -> Door:
        if port not in self.ports:
            self.ports.append(port)
        return Door(self.doors / f"{port}.sock", f"127.0.0.1:{port}")

    def relays(self) -> list[tuple[int, str]]:
        """Each port, and the socket that it leads to, as seen inside."""
        return [(port, str(DOORS / f"{port}.sock")) for port in self.ports]

    def new_lifeline(self) -> Path:
        """Not among the doors: an agent must not be able to answer for the next one."""
        self._lifelines += 1
        return self.path / f"life-{self._lifelines}.sock"

    def close(self) -> None:
        remove_lobby(self.path)


def remove_lobbies_of_the_dead() -> None:
    """Of those who were killed between two containers: no label leads there."""
    for parent in _parents():
        with contextlib.suppress(OSError):
            for path in Path(parent).glob(f"{_PREFIX}*"):
                if is_orphan(_owner_of(path)):
                    remove_lobby(path)


def _owner_of(path: Path) -> Owner | None:
    """None for whatever is not written as we write it. No link is followed: anybody may have made one."""
    try:
        if path.lstat().st_uid != os.getuid() or not stat.S_ISDIR(path.lstat().st_mode):
            return None
        file = os.open(path / _OWNER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return Owner.parse(os.read(file, _LONGEST_OWNER).decode("ascii"))
        finally:
            os.close(file)
    except (OSError, UnicodeDecodeError):  # not ours to read, or not there yet
        return None


def remove_lobby(path: Path) -> None:
    """Only what is recognisably one of ours, and this user's."""
    if not path.name.startswith(_PREFIX) or not path.is_absolute():
        return
    try:
        about = path.lstat()
    except OSError:
        return
    if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid():
        shutil.rmtree(path, ignore_errors=True)


def _parents() -> Iterable[str]:
    return dict.fromkeys((tempfile.gettempdir(), "/tmp"))  # noqa: S108 - made by mkdtemp, with a random name


def _make() -> Path:
    for parent in _parents():
        try:
            path = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        except OSError:
            continue
        if len(os.fsencode(path)) + _LONGEST_NAME <= _LONGEST_SOCKET:
            return Path(path)
        Path(path).rmdir()
    raise YouBenchaError(
        "SANDBOX_NO_LOBBY",
        "There is no directory with a short path for the sockets of a container.",
        hint="Set TMPDIR to a directory with a short path that you may write to, such as /tmp.",
    )
