"""Removes what an agent left, whatever it left: read-only directories, links to elsewhere, paths of any depth."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.text import shown
from youbencha.workspace.walk import is_directory


def remove_tree(top: Path) -> None:
    """A directory with all that is in it; links are removed, never followed. Nothing is there: nothing is done."""
    try:
        if top.is_symlink() or not top.is_dir():
            top.unlink(missing_ok=True)
        else:
            _Removal(top).run()
    except OSError as error:
        raise not_removable(top, error) from error


def not_removable(top: Path, error: OSError) -> YouBenchaError:
    return YouBenchaError(
        "WORKSPACE_NOT_REMOVABLE",
        f"Cannot remove {shown(error.filename or top)}: {error.strerror or error}",
        hint="It may belong to another user (a container's, say): remove it by hand.",
    )


class _Removal:
    """Every directory is first moved right below the top: so no path gets long, and nothing calls itself."""

    def __init__(self, top: Path) -> None:
        self._top = os.fsencode(top)
        self._prefix = b".removed-" + os.urandom(4).hex().encode() + b"-"
        self._moved = 0

    def run(self) -> None:
        waiting = [self._top]
        emptied = []
        while waiting:
            directory = waiting.pop()
            waiting += self._empty(directory)
            emptied.append(directory)
        for directory in reversed(emptied):  # the top is the first of them
            os.rmdir(directory)  # noqa: PTH106 - names need not be text

    def _empty(self, directory: bytes) -> list[bytes]:
        """Remove its files; move its directories, and tell where they are now."""
        os.chmod(directory, stat.S_IRWXU)  # noqa: PTH101
        with os.scandir(directory) as found:
            entries = list(found)
        moved = []
        for entry in entries:
            if is_directory(entry):
                moved.append(self._move(entry.path))
            else:
                _unlink(entry.path)
        return moved

    def _move(self, directory: bytes) -> bytes:
        os.chmod(directory, stat.S_IRWXU)  # noqa: PTH101 - a directory that may not be written cannot be moved either
        place = self._top + b"/" + self._prefix + str(self._moved).encode()
        self._moved += 1
        os.rename(directory, place)  # noqa: PTH104
        return place


def _unlink(path: bytes) -> None:
    try:
        os.unlink(path)  # noqa: PTH108
    except PermissionError:
        if sys.platform != "win32":
            raise
        os.chmod(path, stat.S_IWRITE)  # noqa: PTH101 - there, what is read-only cannot be removed
        os.unlink(path)  # noqa: PTH108
