"""Notice that a disk is full. What a program writes there is lost, which is not its fault."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

_HOMES = ("HOME", "USERPROFILE", "TMPDIR")
_KEPT_BYTES = 32 * 1024**2
_KEPT_SHARE = 50
"""A full file system may have some free blocks: ext4 keeps up to 16 MiB or 2 % for itself."""


class FreeSpace(NamedTuple):
    bytes: int
    files: int | None
    """How many can be created; None if the file system has no such limit."""
    full: bool


def free_space(directory: Path) -> FreeSpace | None:
    """The free space on a directory's file system; None if this is not a disk that can be written to."""
    if not hasattr(os, "statvfs"):
        return None
    system = os.statvfs(directory)
    if not system.f_blocks or system.f_flag & os.ST_RDONLY:
        return None
    is_root = os.geteuid() == 0  # who may use the last blocks
    size = (system.f_bfree if is_root else system.f_bavail) * system.f_frsize
    files = (system.f_ffree if is_root else system.f_favail) if system.f_files else None
    kept = min(_KEPT_BYTES, system.f_blocks * system.f_frsize // _KEPT_SHARE)
    return FreeSpace(size, files, full=size < kept or files == 0)


class Disks:
    """The file systems that a program writes to."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self._directories: dict[int, Path] = {}
        for directory in directories:
            if directory.is_dir():
                self._directories.setdefault(directory.stat().st_dev, directory)

    @classmethod
    def of_program(cls, cwd: Path, env: Mapping[str, str]) -> Disks:
        """Those of its working directory, its home, its temporary files, and its output."""
        homes = (Path(env[name]) for name in _HOMES if env.get(name))
        return cls((Path(tempfile.gettempdir()), cwd, *homes))

    def full(self) -> Path | None:
        """A directory whose file system is full."""
        for directory in self._directories.values():
            try:
                free = free_space(directory)
            except OSError:  # removed meanwhile
                continue
            if free is not None and free.full:
                return directory
        return None
