"""The disk limit of a container.

No engine limits what is written to a mounted directory. So the file system's free space is checked twice a second,
which costs nothing, and the agent's directories are counted only if it has shrunk a lot.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import chain
from pathlib import Path

from youbencha.files import walk
from youbencha.process.disks import FreeSpace, free_space
from youbencha.process.streams import Spool

Paused = Callable[[], AbstractAsyncContextManager[None]]

_CHECK_EVERY_S = 0.5
_MUCH_BYTES = 256 * 1024**2
_BLOCK = 512

_BYTES_PER_FILE = 16 * 1024
"""What a file counts at least: a file system of ext4 has one inode for so many bytes."""

_IN_FLIGHT = re.compile(rb"^scm_fds:\s*[1-9]", re.MULTILINE)
_MAPPED = re.compile(rb"^([0-9a-f]+-[0-9a-f]+) [^/\n]*(?!/dev/|/memfd:|/SYSV)/.* \(deleted\)$", re.MULTILINE)
"""A mapped file that was removed, but not in memory."""


class DiskWatch:
    """Counts what was written below some directories since it was created."""

    def __init__(self, directories: Iterable[Path], limit: int, *, own: Path) -> None:
        """`own`: a directory on the same file system that agents cannot reach, to read the file system's clock."""
        self._directories = tuple(directories)
        self._limit = limit
        self._much = min(_MUCH_BYTES, limit // 4)
        self._since_ns = _file_system_time(own)
        self._at_start = self._at_last_count = self._free()
        self._counted = 0

    async def until_exceeded(self, pid: int | None, outputs: Sequence[Spool], paused: Paused) -> None:
        """Return when more than the limit was written.

        `pid`: the container's first process. `outputs`: files of the harness that it writes to. `paused` stops its
        processes, so that they cannot move files out of sight while these are counted. That is done only if the file
        system has lost more than the limit.
        """
        while True:
            await asyncio.sleep(_CHECK_EVERY_S)
            free = await asyncio.to_thread(self._free)  # a file system that hangs must not hold up every deadline
            self._at_last_count = [max(pair) for pair in zip(self._at_last_count, free, strict=True)]
            if self._lost_much(free) or self._counted + _excess(outputs) > self._limit:
                async with paused() if self._lost_since_start() > self._limit else nullcontext():
                    self._counted = await asyncio.to_thread(self.written, pid, outputs)
                self._at_last_count = free
            if self._counted + _excess(outputs) > self._limit:
                return

    def is_exceeded(self) -> bool:
        """Whether more than the limit was written, when no process is left."""
        return self._lost_since_start() > self._much and self.written() > self._limit

    def written(self, pid: int | None = None, outputs: Sequence[Spool] = ()) -> int:
        """The disk space of files created or changed since the start, without `outputs`.

        Each counts once; links are not followed.
        """
        seen = {_id(os.fstat(output.fileno())) for output in outputs}
        total = 0
        walk = _Walk()
        for about in chain(walk.below(self._directories), walk.unlinked(pid)):
            if about.st_ctime_ns > self._since_ns and (file := _id(about)) not in seen:
                seen.add(file)
                total += max(about.st_blocks * _BLOCK, _BYTES_PER_FILE)
        return max(total, self._lost_since_start()) if walk.is_incomplete else total

    def _lost_much(self, free: list[FreeSpace]) -> bool:
        return any(_lost(before, now) > self._much for before, now in zip(self._at_last_count, free, strict=True))

    def _lost_since_start(self) -> int:
        """How much the free space has shrunk, for an agent that hides its files."""
        return max(_lost(before, now) for before, now in zip(self._at_start, self._free(), strict=True))

    def _free(self) -> list[FreeSpace]:
        return [free_space(directory) for directory in self._directories]


def _lost(before: FreeSpace, now: FreeSpace) -> int:
    """Disk space or files, whichever counts more."""
    return max(before.bytes - now.bytes, (before.files - now.files) * _BYTES_PER_FILE)


def _excess(outputs: Sequence[Spool]) -> int:
    return sum(output.excess_bytes for output in outputs)


class _Walk:
    """Finds files of an agent, which may change them meanwhile."""

    def __init__(self) -> None:
        self.is_incomplete = False
        """A directory is not readable or too deep for any path, or files are held where they cannot be found."""

    def below(self, directories: Iterable[Path]) -> Iterator[os.stat_result]:
        for directory in directories:
            for entry in walk(os.fsencode(directory), on_error=self._note):
                try:
                    yield entry.stat(follow_symlinks=False)
                except OSError as error:
                    self._note(error)

    def _note(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # removed meanwhile
            self.is_incomplete = True

    def unlinked(self, first: int | None) -> Iterator[os.stat_result]:
        """Unlinked files that a process of the container still uses: they still take disk space."""
        for pid in _container_processes(first) if first is not None else ():
            try:
                yield from self._held_by(pid)
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                continue
            except OSError:
                self.is_incomplete = True

    def _held_by(self, pid: int) -> Iterator[os.stat_result]:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - each may have descriptors of its own
            directory = f"/proc/{pid}/task/{thread}"
            for name in os.listdir(f"{directory}/fd"):  # noqa: PTH208
                with contextlib.suppress(FileNotFoundError):
                    about = os.stat(f"{directory}/fd/{name}")  # noqa: PTH116
                    if stat.S_ISSOCK(about.st_mode):  # files on their way through a socket belong to no process
                        self.is_incomplete |= bool(_IN_FLIGHT.search(_read(f"{directory}/fdinfo/{name}")))
                    elif about.st_nlink == 0 and about.st_blocks:
                        yield about
        for mapped in _MAPPED.finditer(_read(f"/proc/{pid}/maps")):
            with contextlib.suppress(FileNotFoundError):
                yield os.stat(f"/proc/{pid}/map_files/{mapped[1].decode()}")  # noqa: PTH116 - root only


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def _id(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino


def _file_system_time(directory: Path) -> int:
    """The file system's time. No program can set the time of a file's last change (ctime)."""
    with tempfile.TemporaryFile(dir=directory) as file:
        return os.fstat(file.fileno()).st_ctime_ns


def _container_processes(first: int) -> Iterator[int]:
    """Every other process in the same control group. The first one is ours, and can be inspected by root only."""
    with contextlib.suppress(OSError):
        ours = _read(f"/proc/{first}/cgroup")
        for name in os.listdir("/proc"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                if name.isdecimal() and int(name) != first and _read(f"/proc/{name}/cgroup") == ours:
                    yield int(name)
