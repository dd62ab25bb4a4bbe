"""The files of a tree. git is not left to walk it: it takes a repository inside for a submodule, hides what is in
there, and fails if that has no commit.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection
from pathlib import Path

from youbencha.errors import YouBenchaError


def is_directory(entry: os.DirEntry[bytes]) -> bool:
    """A real one: neither a link to one, nor what Windows has in a link's place."""
    if sys.platform == "win32" and entry.stat(follow_symlinks=False).st_reparse_tag:
        return False
    return entry.is_dir(follow_symlinks=False)


def files_in(tree: Path, *, ours: bool = True, left_out: Collection[bytes] = ()) -> list[bytes]:
    """Files and links, as paths below the tree, in the order of git's index; no `.git` of any kind.

    What is neither (a pipe, a socket) has no content to compare. `ours`: a directory that cannot be read is made
    readable. `left_out` are directories, by name or by path below the tree, that nobody wants to know of.
    """
    top, found = os.fsencode(tree), []
    waiting = [b""]  # not by recursion: an agent may nest directories deeper than Python does calls
    while waiting:
        below = waiting.pop()
        for entry in _entries(top + b"/" + below, ours=ours):
            path = below + entry.name
            if entry.name.lower() == b".git":
                continue
            if is_directory(entry):
                if entry.name not in left_out and path not in left_out:
                    waiting.append(path + b"/")
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                found.append(path)
    found.sort()
    return found


def _entries(directory: bytes, *, ours: bool) -> list[os.DirEntry[bytes]]:
    try:
        return _listed(directory)
    except FileNotFoundError:  # the agent may have removed it, the whole tree even
        return []
    except PermissionError as error:
        if not ours:
            raise _unreadable(directory, error) from error
    except OSError as error:
        raise _unreadable(directory, error) from error
    try:
        os.chmod(directory, stat.S_IRWXU)  # noqa: PTH101 - no difference tells the mode of a directory
        return _listed(directory)
    except OSError as error:
        raise _unreadable(directory, error) from error


def _listed(directory: bytes) -> list[os.DirEntry[bytes]]:
    with os.scandir(directory) as entries:
        return list(entries)


def _unreadable(directory: bytes, error: OSError) -> YouBenchaError:
    return YouBenchaError(
        "GIT_FAILED",
        f"Cannot read {os.fsdecode(directory)}: {error.strerror or error}",
        hint="The agent made a directory that cannot be read; what is in it cannot be told.",
    )
