"""The disk limit of a container.

No engine limits what is written to a mounted directory. So the file system's free space is checked twice a second,
which costs nothing, and the agent's directories are counted only if it has shrunk a lot.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_CHECK_EVERY_S = 0.5
_MUCH_BYTES = 256 * 1024**2
_MUCH_FILES = 50_000
_BLOCK = 512
_INODE = 256


FileId = tuple[int, int]


class _Free(NamedTuple):
    bytes: int
    files: int


class DiskWatch:
    """Counts what was written below some directories since it was created."""

    def __init__(self, directories: Iterable[Path], limit: int, *, own: Path) -> None:
        """`own`: a directory on the same file system that agents cannot reach, to read the file system's clock."""
        self._directories = tuple(directories)
        self._limit = limit
        self._much = min(_MUCH_BYTES, limit // 4)
        self._since_ns = _clock_of(own)
        self._at_start = self._at_last_count = self._free()

    async def until_exceeded(self, pid: int | None, ours: frozenset[FileId] = frozenset()) -> None:
        """Return when more than the limit was written.

        `pid`: the container's first process. `ours`: files of the harness that it has open.
        """
        while True:
            await asyncio.sleep(_CHECK_EVERY_S)
            free = self._free()
            if self._lost_much(free):
                if await asyncio.to_thread(self.written, pid, ours) > self._limit:
                    return
                self._at_last_count = free

    def written(self, pid: int | None = None, ours: frozenset[FileId] = frozenset()) -> int:
        """The disk space of files created or changed since the start; each counts once, links are not followed."""
        seen = set(ours)
        total = 0
        walk = _Walk()
        for about in (*walk.below(self._directories), *_unlinked_files(pid)):
            if about.st_ctime_ns > self._since_ns and (file := file_id(about)) not in seen:
                seen.add(file)
                total += about.st_blocks * _BLOCK + _INODE
        return max(total, self._lost_since_start()) if walk.is_incomplete else total

    def _lost_much(self, free: list[_Free]) -> bool:
        return any(
            before.bytes - now.bytes > self._much or before.files - now.files > _MUCH_FILES
            for before, now in zip(self._at_last_count, free, strict=True)
        )

    def _lost_since_start(self) -> int:
        """How much the free space has shrunk, for an agent that hides its files."""
        return max(before.bytes - now.bytes for before, now in zip(self._at_start, self._free(), strict=True))

    def _free(self) -> list[_Free]:
        systems = [os.statvfs(directory) for directory in self._directories]
        return [_Free(system.f_bavail * system.f_frsize, system.f_favail) for system in systems]


class _Walk:
    """Walks trees that an agent may change meanwhile."""

    def __init__(self) -> None:
        self.is_incomplete = False
        """A directory is not readable, or too deep for any path."""

    def below(self, directories: Iterable[Path]) -> Iterator[os.stat_result]:
        waiting = [os.fsencode(directory) for directory in directories]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        yield entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # removed meanwhile
                continue
            except OSError:
                self.is_incomplete = True


def file_id(about: os.stat_result) -> FileId:
    return about.st_dev, about.st_ino


def _clock_of(directory: Path) -> int:
    """The file system's time. No program can set the time of a file's last change (ctime)."""
    with tempfile.TemporaryFile(dir=directory) as file:
        return os.fstat(file.fileno()).st_ctime_ns


def _unlinked_files(first: int | None) -> Iterator[os.stat_result]:
    """Unlinked files that a process of the container still has open: they still use disk space."""
    for pid in _container_processes(first) if first is not None else ():
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                with contextlib.suppress(OSError):
                    about = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116
                    if about.st_nlink == 0 and about.st_blocks:
                        yield about


def _container_processes(first: int) -> Iterator[int]:
    """Every process in the same control group."""
    with contextlib.suppress(OSError):
        ours = _cgroup(first)
        for name in os.listdir("/proc"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                if name.isdecimal() and _cgroup(int(name)) == ours:
                    yield int(name)


def _cgroup(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cgroup").read_bytes()
