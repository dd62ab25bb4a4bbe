"""A copy of a tree, as fast as the system allows, in which anything may be done.

Files are never linked to the original: a program that writes to its copy would write to the original too. Where the
file system can share blocks until one side writes (Btrfs, XFS), it is asked to.
"""

# Strings throughout: a Path for each of many files takes as long as copying it.
# ruff: noqa: PTH101, PTH102, PTH112, PTH115, PTH116, PTH211
from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.evaluators.file_copies import CANNOT_BE_HERE, FileCopies
from youbencha.evaluators.leaving_out import LeavingOut
from youbencha.evaluators.threads import StillWanted

_LEFT_OUT = CANNOT_BE_HERE | {errno.EACCES, errno.EPERM}


def copy_tree(source: Path, target: Path, still_wanted: StillWanted, ours: Sequence[Path] = ()) -> None:
    """Files, directories and links with their permissions and times; no devices, no pipes, no sockets.

    `target` must not exist: nobody may have put anything there. What is `ours` in the tree is left out.

    What cannot be read, or lies too deep to be named, is left out, and a tree that is gone is an empty one: what an
    agent hides, it has not delivered, and it must not escape its verdict by that. Holes stay holes, and what was one
    file by several names is one in the copy: neither takes more room than it does in the tree.
    """
    try:
        _Copying(source, target, still_wanted, ours).run()
    except OSError as error:
        raise YouBenchaError(
            "COMMAND_COPY_FAILED",
            f"Cannot copy the tree for the command: {error}",
            hint="Check the room on the disk, or run it in place with `copy: false`.",
        ) from error


class _Copying:
    def __init__(self, source: Path, target: Path, still_wanted: StillWanted, ours: Sequence[Path]) -> None:
        self._source = os.fspath(source.absolute())
        self._target = os.fspath(target.absolute())
        self._still_wanted = still_wanted
        self._left_out = LeavingOut(ours, target=target)
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
