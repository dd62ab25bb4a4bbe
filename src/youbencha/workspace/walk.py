"""The files of a tree. git is not left to walk it: it takes a repository inside for a submodule, hides what is in
there, and fails if that has no commit. What lies inside any `.git`, wherever it is, is not looked at.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.workspace.names import shown

_LONGEST = os.pathconf("/", "PC_PATH_MAX") if hasattr(os, "pathconf") else 32767
"""Bytes of a path that a system call takes, with the zero at its end."""


class Found(NamedTuple):
    """Paths below a tree."""

    files: list[bytes]
    """Files and links, in the order of git's index."""
    too_deep: tuple[bytes, ...] = ()
    """Directories, and files, whose whole path is longer than a system call takes. Not among the files."""

    def without(self, paths: Collection[bytes]) -> Found:
        if not paths:
            return self
        return Found(
            [path for path in self.files if path not in paths],
            tuple(path for path in self.too_deep if path not in paths),
        )


def is_directory(entry: os.DirEntry[bytes]) -> bool:
    """A real one: neither a link to one, nor what Windows has in a link's place."""
    if sys.platform == "win32" and entry.stat(follow_symlinks=False).st_reparse_tag:
        return False
    return entry.is_dir(follow_symlinks=False)


def files_in(tree: Path, *, ours: bool = True, left_out: Collection[bytes] = ()) -> Found:
    """Files and links; no `.git` of any kind. If the tree itself is a link, there are none: it is not followed.

    What is neither (a pipe, a socket) has no content to compare. `ours`: a directory that cannot be read is made
    readable. `left_out` are directories, by name or by path below the tree, that nobody wants to know of.
    """
    if tree.is_symlink():
        return Found([])
    return _Walk(os.fsencode(tree), ours, left_out).run()


class _Walk:
    def __init__(self, top: bytes, ours: bool, left_out: Collection[bytes]) -> None:
        self._top, self._ours, self._left_out = top, ours, left_out
        self._files: list[bytes] = []
        self._too_deep: list[bytes] = []

    def run(self) -> Found:
        room = _LONGEST - len(self._top) - len(b"/")
        waiting = [b""]  # not by recursion: an agent may nest directories deeper than Python does calls
        while waiting:
            below = waiting.pop()
            for entry in self._entries(below):
                if entry.name.lower() == b".git":
                    continue
                path = below + entry.name
                if is_directory(entry):
                    if entry.name not in self._left_out and path not in self._left_out:
                        waiting.append(path + b"/")
                elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    (self._files if len(path) < room else self._too_deep).append(path)
        self._files.sort()
        return Found(self._files, tuple(sorted(self._too_deep)))

    def _entries(self, below: bytes) -> list[os.DirEntry[bytes]]:
        directory = self._top + b"/" + below
        try:
            try:
                return _listed(directory)
            except PermissionError:
                if not self._ours:
                    raise
            open_up_to(self._top, below.rstrip(b"/"))
            return _listed(directory)
        except (FileNotFoundError, NotADirectoryError):  # the agent may have removed it, the whole tree even
            return []
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise unreadable(directory, error) from error
            self._too_deep.append(below.rstrip(b"/"))
            return []


def open_up_to(top: bytes, below: bytes) -> None:
    """A directory and all above it in its tree, from the top. No difference tells the mode of a directory."""
    path = top
    for part in [b"", *below.split(b"/")]:
        path = path + b"/" + part if part else path
        mode = os.stat(path).st_mode  # noqa: PTH116 - names need not be text
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(path, stat.S_IMODE(mode) | stat.S_IRWXU)  # noqa: PTH101


def _listed(directory: bytes) -> list[os.DirEntry[bytes]]:
    with os.scandir(directory) as entries:
        return list(entries)


def unreadable(path: bytes, error: OSError) -> YouBenchaError:
    return YouBenchaError(
        "GIT_FAILED",
        f"Cannot read {shown(path)}: {error.strerror or error}",
        hint="The agent made a directory that cannot be read; what is in it cannot be told.",
    )
