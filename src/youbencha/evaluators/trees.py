"""Copies of single files out of a tree that may be hostile.

A file of five terabytes that is all hole is made in no time, and must not end a verdict: its copy is all hole too.
"""

# ruff: noqa: PTH101, PTH102, PTH112, PTH115, PTH116, PTH211
# ruff: noqa: PTH108, PTH123

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import CheckCancelled

CANNOT_BE_HERE = frozenset({errno.ENAMETOOLONG, errno.EFBIG})
"""Errors about what nobody could have copied to here: its path is too long, or no file may be that large."""

_FICLONE = 0x40049409

_ROOM_LEFT = 0.95

_BLOCK = 512

_SMALL = 4096

_CHUNK = 1 << 20


class FileCopies:
    """Copies contents, and counts the room that they take. Nothing is ever linked to an original."""

    def __init__(self, target: Path, check_cancelled: CheckCancelled) -> None:
        """`target` is a directory on the disk that they go to."""
        self._still_wanted = check_cancelled
        self._clones = sys.platform == "linux"
        self._room = int(shutil.disk_usage(target).free * _ROOM_LEFT)

    def copy(self, source: str, target: str, state: os.stat_result) -> None:
        """`state` is that of the source. No link is followed. What fails leaves no part of a file."""
        try:
            if self._clone(source, target):
                return
            if _has_holes(state):
                self._copy_data(source, target, state.st_size)
            else:
                self._take(state.st_size, source)
                shutil.copyfile(source, target, follow_symlinks=False)
        except BaseException:
            with suppress(OSError):
                os.unlink(target)
            raise

    def _clone(self, source: str, target: str) -> bool:
        """Share the blocks, if the file system can. If it cannot once, it is not asked again."""
        if sys.platform != "linux" or not self._clones:
            return False
        import fcntl

        with open(source, "rb") as there, open(target, "wb") as here:
            try:
                fcntl.ioctl(here, _FICLONE, there.fileno())
            except OSError:
                self._clones = False
        return self._clones

    def _copy_data(self, source: str, target: str, size: int) -> None:
        with open(source, "rb", buffering=0) as there, open(target, "wb", buffering=0) as here:
            here.truncate(size)
            for start, end in _data_in(there.fileno(), size):
                self._take(end - start, source)
                there.seek(start)
                here.seek(start)
                while (left := end - there.tell()) > 0 and (chunk := there.read(min(left, _CHUNK))):
                    self._still_wanted()
                    _write(here.fileno(), chunk)

    def _take(self, size: int, path: str) -> None:
        self._still_wanted()
        self._room -= size
        if self._room < 0:
            raise OSError(f"it has more than there is room for on the disk, {path} for one")


def _has_holes(state: os.stat_result) -> bool:
    """Or may have: some file systems keep what is small, or packed, in less blocks than its size."""
    blocks: int | None = getattr(state, "st_blocks", None)  # Windows does not tell
    return blocks is not None and state.st_size > max(blocks * _BLOCK, _SMALL)


def _data_in(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """From where to where there is anything. All of it, where the system does not say."""
    if sys.platform == "win32":
        yield 0, size
        return
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            start, end = end, size
        yield start, end


def _write(fd: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(fd, rest) :]


# What lies in a judged tree and is ours: results of `yb eval`, and the very copy that is being made.


class Excluded:
    """Holds the entries of a tree that are to be passed over.

    They are told by what they are, not by their path: the tree may be reached by a link, or spelled otherwise.
    """

    def __init__(self, ours: Iterable[Path] = (), *, target: Path | None = None) -> None:
        """`target` is where a copy goes to: what holds it is left out as well, or it would be copied into itself."""
        paths = [path.resolve() for path in ours]
        if target is not None:
            paths += [target.resolve(), *target.resolve().parents]
        self._names = {path.name.lower() for path in paths}
        self._identities = {found for path in paths if (found := _identity(os.fspath(path)))}

    def __contains__(self, entry: os.DirEntry[str]) -> bool:
        return entry.name.lower() in self._names and _identity(entry.path) in self._identities


def _identity(path: str) -> tuple[int, int] | None:
    """None if it is not there. Not what `scandir` knows: that is nothing on Windows, and wrong where one is mounted."""
    try:
        found = os.lstat(path)  # a link to what is ours is not
    except OSError:
        return None
    return found.st_dev, found.st_ino


# The files of a tree that may be hostile: no link is followed, nothing but files and links is looked at.


class TreeFile(NamedTuple):
    path: str
    """Below the tree, with forward slashes."""
    place: str
    """On this machine."""
    is_link: bool


def files_below(tree: Path, left_out: Excluded | None = None) -> Iterator[TreeFile]:
    """All files and links, in no order, without anything called `.git`.

    A directory that cannot be read counts as empty: what an agent hides, it has not delivered.
    """
    left_out = left_out or Excluded()
    waiting = [""]  # not by recursion: an agent may nest directories deeper than Python does calls
    while waiting:
        below = waiting.pop()
        for entry in _entries(os.path.join(tree, below)):  # noqa: PTH118 - a Path for each of many files is slow
            if entry.name.lower() == ".git" or entry in left_out:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{below}{entry.name}/")
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                yield TreeFile(below + entry.name, entry.path, entry.is_symlink())


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


# A copy of a tree, as fast as the system allows, in which anything may be done.
#
# Files are never linked to the original: a program that writes to its copy would write to the original too. Where the
# file system can share blocks until one side writes (Btrfs, XFS), it is asked to.

_LEFT_OUT = CANNOT_BE_HERE | {errno.EACCES, errno.EPERM}


def copy_tree(source: Path, target: Path, check_cancelled: CheckCancelled, ours: Sequence[Path] = ()) -> None:
    """Files, directories and links with their permissions and times; no devices, no pipes, no sockets.

    `target` must not exist: nobody may have put anything there. What is `ours` in the tree is left out.

    What cannot be read, or lies too deep to be named, is left out, and a tree that is gone is an empty one: what an
    agent hides, it has not delivered, and it must not escape its verdict by that. Holes stay holes, and what was one
    file by several names is one in the copy: neither takes more room than it does in the tree.
    """
    try:
        _Copying(source, target, check_cancelled, ours).run()
    except OSError as error:
        raise YouBenchaError(
            "COMMAND_COPY_FAILED",
            f"Cannot copy the tree for the command: {error}",
            hint="Check the room on the disk, or run it in place with `copy: false`.",
        ) from error


class _Copying:
    def __init__(self, source: Path, target: Path, check_cancelled: CheckCancelled, ours: Sequence[Path]) -> None:
        self._source = os.fspath(source.absolute())
        self._target = os.fspath(target.absolute())
        self._still_wanted = check_cancelled
        self._left_out = Excluded(ours, target=target)
        self._files: FileCopies  # when there is a target
        self._names: dict[tuple[int, int], str] = {}

    def run(self) -> None:
        os.mkdir(self._target, 0o700)
        self._files = FileCopies(Path(self._target), self._still_wanted)
        waiting = [(self._source, self._target)] if os.path.isdir(self._source) else []
        made = []
        while waiting:
            self._still_wanted()
            source, target = waiting.pop()
            made.append((source, target))
            waiting += self._directory(source, target)
        for source, target in reversed(made):  # last, because a directory may be read-only, and its time changes
            _copy_state(target, os.stat(source), at_least=stat.S_IRWXU)

    def _directory(self, source: str, target: str) -> list[tuple[str, str]]:
        below = []
        with os.scandir(source) as entries:
            for entry in entries:
                copied = f"{target}{os.sep}{entry.name}"
                try:
                    if entry not in self._left_out and self._entry(entry, copied):
                        below.append((entry.path, copied))
                except OSError as error:
                    if error.errno not in _LEFT_OUT:
                        raise
        return below

    def _entry(self, entry: os.DirEntry[str], copied: str) -> bool:
        """Whether it is a directory, which is made, but empty yet."""
        if entry.is_symlink():
            os.symlink(self._link_target(entry.path), copied)
        elif not os.access(entry.path, os.R_OK):
            return False
        elif entry.is_dir(follow_symlinks=False):
            os.mkdir(copied, 0o700)
            return True
        elif entry.is_file(follow_symlinks=False):
            self._file(entry.path, entry.stat(follow_symlinks=False), copied)
        return False

    def _file(self, path: str, state: os.stat_result, copied: str) -> None:
        if state.st_nlink > 1 and self._link(state, copied):
            return
        self._files.copy(path, copied, state)
        _copy_state(copied, state)

    def _link(self, state: os.stat_result, copied: str) -> bool:
        """To the copy of the same file by another name."""
        first = self._names.setdefault((state.st_dev, state.st_ino), copied)
        if first == copied:
            return False
        try:
            os.link(first, copied)
        except OSError:  # not on this file system, or not that often
            return False
        return True

    def _link_target(self, link: str) -> str:
        """A link into the tree by its full path leads into the copy: nobody may write to the original."""
        target = os.readlink(link)
        inside = target == self._source or target.startswith(self._source + os.sep)
        return self._target + target[len(self._source) :] if inside else target


def _copy_state(target: str, state: os.stat_result, *, at_least: int = 0) -> None:
    """Without set-uid bits. A directory stays ours to write to: the copy is to be removed again."""
    os.chmod(target, stat.S_IMODE(state.st_mode) & 0o777 | at_least)
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))
