"""Write git objects and refs into a repository, without running git.

A checkpoint takes 3 ms instead of the 15 ms of five calls of git; and no configuration, filter or hook of the
repository, in which an agent may have worked, is read or run. No link below the repository is followed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from youbencha.files import NO_FOLLOW
from youbencha.workspace.diff import Entry

_TREE = "40000"
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | NO_FOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW
_LEVEL = 1
_READ_ONLY = 0o444


@contextmanager
def directory_below(root: Path, parts: Sequence[bytes], *, make: bool = False) -> Iterator[int]:
    """Open a directory component by component. Raises `OSError` if one is a link, or is missing and not to be made."""
    current = os.open(root, _DIRECTORY)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=current)
            below = os.open(part, _DIRECTORY, dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def write_at(directory: int, name: bytes, data: bytes, mode: int, *, exactly: bool = False) -> None:
    """Write a file in or below an open directory. It is replaced as a whole; if it is a link, it is not followed.

    `exactly` ignores the umask.
    """
    # After a kill, `git gc` removes files with this prefix from the objects, and ignores this suffix among the refs.
    partial = b"tmp_obj_" + os.urandom(6).hex().encode() + b".lock"
    try:
        with os.fdopen(os.open(partial, _NEW, mode, dir_fd=directory), "wb") as file:
            file.write(data)
            if exactly:
                os.fchmod(file.fileno(), mode)
        os.rename(partial, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial, dir_fd=directory)
        raise


class ObjectStore:
    """The `objects` directory of a repository."""

    def __init__(self, objects: Path, hash_name: str) -> None:
        self.objects = objects
        self._hash_name = hash_name
        self.present: set[str] = set()
        """Ids of objects that need not be written."""
        self._opened: int | None = None
        self._checked: set[str] = set()
        """Subdirectories that exist and are no links."""

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Keep the directory open while many objects are written: that saves half of the system calls."""
        if self._opened is not None:
            yield self._opened
            return
        self._opened = os.open(self.objects, _DIRECTORY)
        try:
            yield self._opened
        finally:
            os.close(self._opened)
            self._opened = None
            self._checked.clear()

    def write(self, kind: bytes, data: bytes) -> str:
        """Store an object, unless it exists, and return its id."""
        whole = kind + b" %d\0" % len(data) + data
        name = hashlib.new(self._hash_name, whole, usedforsecurity=False).hexdigest()
        if name not in self.present:
            with self.opened() as directory:
                self._check(directory, name[:2])
                path = f"{name[:2]}/{name[2:]}".encode()
                if not _refreshed(directory, path):
                    write_at(directory, path, zlib.compress(whole, _LEVEL), _READ_ONLY)
            self.present.add(name)
        return name

    def _check(self, directory: int, name: str) -> None:
        if name not in self._checked:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=directory)
            if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "objects were replaced by a link or a file", name)
            self._checked.add(name)


def _refreshed(directory: int, path: bytes) -> bool:
    """Whether it exists; its time is set to now, so that `git gc` does not remove it before it is referred to."""
    try:
        os.utime(path, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


class TreeObjects:
    """Computes the id of a tree; of directories that did not change, nothing is computed again."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._children: dict[bytes, dict[bytes, Entry]] = {}
        self._changed: set[bytes] = {b""}
        self._root = ""

    def put(self, path: bytes, entry: Entry | None) -> None:
        """Set a file's entry, or remove it."""
        directory, _, name = path.rpartition(b"/")
        children = self._children.setdefault(directory, {})
        if entry is not None:
            children[name] = entry
        else:
            children.pop(name, None)
        while directory not in self._changed:
            self._changed.add(directory)
            directory = directory.rpartition(b"/")[0]

    def write(self) -> str:
        """Store the trees of all directories that changed, and return the id of the top."""
        for directory in sorted(self._changed, key=len, reverse=True):  # a parent's path is shorter
            children = self._children.setdefault(directory, {})
            parent, _, name = directory.rpartition(b"/")
            if children or not directory:
                self._root = self._store.write(b"tree", _encoded(children))
            if not directory:
                continue
            siblings = self._children.setdefault(parent, {})
            if children:
                siblings[name] = Entry(_TREE, self._root)
            else:
                del self._children[directory]
                if name in siblings and siblings[name].mode == _TREE:  # it may have become a file
                    del siblings[name]
        self._changed.clear()
        return self._root


def _encoded(children: dict[bytes, Entry]) -> bytes:
    """The content of a tree object: git sorts directories as if their names ended with a slash."""
    by_name = sorted(children.items(), key=lambda child: child[0] + b"/" if child[1].mode == _TREE else child[0])
    return b"".join(entry.mode.encode() + b" " + name + b"\0" + bytes.fromhex(entry.id) for name, entry in by_name)
