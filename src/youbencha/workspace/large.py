"""What git cannot hold: files that are too large, and paths that are too long. They are compared, never stored, and in
no patch.

git reads a file whole to record it, and again to show it in a patch: one of 2 GB would end the run.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Event
from typing import NamedTuple

from youbencha.workspace.changes import ChangeKind, FileChange
from youbencha.workspace.walk import open_up_to, unreadable

LARGE = 64 * 1024 * 1024
"""Bytes. What is larger is too large."""
_CHUNK = 1 << 20
_READ_AT_MOST = 8 * 1024 * 1024 * 1024
"""Bytes, of all files together. A file of a terabyte that is all hole is made in no time, but not read."""
_LINK, _FILE, _PROGRAM, _DIRECTORY = "120000", "100644", "100755", "040000"
_SHA256_LENGTH = 64


class Entry(NamedTuple):
    """What git knows about a path."""

    mode: str
    id: str


Entries = Mapping[bytes, Entry]


def large_among(tree: Path, paths: Iterable[bytes], *, ours: bool = True) -> frozenset[bytes]:
    """`ours`: directories that cannot be searched are made so that they can."""
    top = os.fsencode(tree)
    return frozenset(path for path in paths if _size(top, path, ours=ours) > LARGE)


def _size(top: bytes, path: bytes, *, ours: bool) -> int:
    try:
        try:
            return os.lstat(top + b"/" + path).st_size
        except PermissionError:
            if not ours:
                raise
        open_up_to(top, path.rpartition(b"/")[0])
        return os.lstat(top + b"/" + path).st_size
    except OSError:
        return 0  # git will say what is wrong with it


async def entries_of(
    tree: Path, paths: Iterable[bytes], too_deep: Iterable[bytes], like: str | None, *, ours: bool = True
) -> dict[bytes, Entry]:
    """What git would call these files. `like` is any id of the repository: its length tells which hash it uses.

    Of what lies too deep only the place is known. `ours`: a file that cannot be read is made readable.
    """
    deep = {path: Entry(_DIRECTORY, "") for path in too_deep}
    chosen = sorted(paths)
    if not chosen:
        return deep
    stop = Event()
    name = "sha256" if like is not None and len(like) == _SHA256_LENGTH else "sha1"
    try:
        return deep | await asyncio.to_thread(_Reader(os.fsencode(tree), name, ours, stop).entries, chosen)
    finally:
        stop.set()


def changes_of(before: Entries, now: Entries) -> list[FileChange]:
    found = []
    for path in {**before, **now}:
        kind = _kind(before.get(path), now.get(path))
        if kind is not None:
            found.append(FileChange(os.fsdecode(path), kind, None, None))
    return found


def _kind(before: Entry | None, now: Entry | None) -> ChangeKind | None:
    if before == now:
        return None
    if before is None or now is None:
        return "added" if before is None else "deleted"
    return "type_changed" if before.mode[:3] != now.mode[:3] else "modified"


class _Reader:
    def __init__(self, top: bytes, hash_name: str, ours: bool, stop: Event) -> None:
        self._top, self._hash_name, self._ours, self._stop = top, hash_name, ours, stop
        self._left = _READ_AT_MOST

    def entries(self, paths: list[bytes]) -> dict[bytes, Entry]:
        return {path: entry for path in paths if (entry := self._entry(self._top + b"/" + path))}

    def _entry(self, path: bytes) -> Entry | None:
        try:
            about = os.lstat(path)
            if stat.S_ISLNK(about.st_mode):
                return Entry(_LINK, self._blob([os.readlink(path)], about.st_size))  # noqa: PTH115 - bytes
            mode = _PROGRAM if about.st_mode & stat.S_IXUSR else _FILE
            if about.st_size > self._left:
                return Entry(mode, self._stand_in(about))
            self._left -= about.st_size
            return Entry(mode, self._id_of_file(path, about))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(path, error) from error

    def _id_of_file(self, path: bytes, about: os.stat_result) -> str:
        if self._ours and not about.st_mode & stat.S_IRUSR:
            os.chmod(path, stat.S_IMODE(about.st_mode) | stat.S_IRUSR)  # noqa: PTH101
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - names need not be text
            return self._blob(iter(lambda: b"" if self._stop.is_set() else file.read(_CHUNK), b""), about.st_size)

    def _blob(self, parts: Iterable[bytes], size: int) -> str:
        digest = hashlib.new(self._hash_name, b"blob %d\0" % size, usedforsecurity=False)
        for part in parts:
            digest.update(part)
        return digest.hexdigest()

    def _stand_in(self, about: os.stat_result) -> str:
        """Of a file that nobody reads. The time of its last change (`ctime`) cannot be set by anybody."""
        known = f"{about.st_size} {about.st_ino} {about.st_ctime_ns}"
        return hashlib.new(self._hash_name, known.encode(), usedforsecurity=False).hexdigest()
