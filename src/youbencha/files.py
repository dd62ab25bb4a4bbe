"""Write files atomically; read and list files that an agent could have written."""

from __future__ import annotations

import errno
import itertools
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path, PureWindowsPath
from typing import Any, AnyStr

from youbencha.errors import YouBenchaError

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Flags for `os.open` if there may be a link, a pipe or a terminal instead of the file: opening a pipe would block."""

_BINARY = getattr(os, "O_BINARY", 0)
_HAS_DIR_FD = os.open in os.supports_dir_fd
"""Windows cannot open a file relative to an open directory."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces `path` at the end, or is removed after an error.

    A reader sees the old content or the new, even after a kill. A link is replaced, not followed.
    """
    partial = path.with_name(f".{path.name[:32]}.{os.urandom(4).hex()}")
    try:
        yield partial
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def replace_atomically(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Write the whole file or nothing.

    `mode` is the new file's permissions; by default, those of any new file. Raises `OSError`.
    """
    with replacing(path) as partial:
        with partial.open("xb") as file:
            file.write(data)
        if mode is not None:
            partial.chmod(mode)


def write_atomically(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace a file as `replace_atomically` does. Raises a YouBenchaError with the code `ARTIFACTS_NOT_WRITABLE`."""
    try:
        replace_atomically(path, data, mode=mode)
    except OSError as error:
        raise YouBenchaError(
            "ARTIFACTS_NOT_WRITABLE",
            f"Cannot write {path}: {error.strerror or error}",
            hint="Check that its directory exists, belongs to you and has free space.",
        ) from error


def open_to_append(path: Path) -> int:
    """Open a file of ours to append to, made if missing, and return its descriptor. A link is not followed."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_FOLLOW | _BINARY, 0o644)


def read_nofollow(root: Path, name: str, limit: int) -> bytes:
    """Read a file below `root` that an agent could have written: see `open_nofollow`.

    Raises `OSError`, with `EFBIG` if it is larger than `limit`.
    """
    with open_nofollow(root, name) as file:
        size = min(limit, os.fstat(file.fileno()).st_size)
        data = file.read(size + 1) or b""  # None: nothing is there yet, as in a log of the kernel
        if len(data) > size:  # it has grown, or has no size, as in /proc
            data += file.read(limit + 1 - len(data)) or b""
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"is larger than {limit:,} bytes", str(root / name))
    return data


def read_within(base: Path, name: str, limit: int) -> bytes:
    """Read a file of a user or a repository, in which links may lead from one file to another.

    Raises `PathNotAllowed` if it is outside `base`, by its name or through links; otherwise as `read_nofollow`.
    """
    check_relative(name)
    root, target = Path(os.path.realpath(base)), Path(os.path.realpath(base / name))  # no error for a loop of links
    if not target.is_relative_to(root):
        raise PathNotAllowed(f"{name} is a link that leads out of {base}", "use a file, or a link inside")
    return read_nofollow(root, str(target.relative_to(root)), limit)


def read_file(path: Path, limit: int) -> bytes:
    """Read a file that only the user names, wherever its links lead; otherwise as `read_nofollow`."""
    real = Path(os.path.realpath(path))
    return read_nofollow(real.parent, real.name, limit)


def open_file(path: Path) -> BufferedReader:
    """Open a file that only the user names, wherever its links lead; otherwise as `open_nofollow`."""
    real = Path(os.path.realpath(path))
    return open_nofollow(real.parent, real.name)


def open_nofollow(root: Path, name: str) -> BufferedReader:
    """Open a regular file below `root` for reading. No link is followed below `root`, and no pipe is waited for.

    Raises `OSError`, with a `strerror` that can be appended to the file's name in a message.
    """
    parts = _parts_below(name)
    if not parts or "\0" in name:
        raise OSError(errno.EINVAL, "is outside its directory", name)
    try:
        with _opened(root, parts[:-1]) as directory:
            fd = directory.open_fd(parts[-1], os.O_RDONLY)
    except OSError as error:
        raise _explained(error, str(root / name)) from None
    return os.fdopen(fd, "rb")


@contextmanager
def nofollow_directory(root: Path, name: str) -> Iterator[NoFollowDirectory]:
    """Open a directory below `root` to write into it, where an agent could have put links. Makes missing ones.

    Raises `OSError`, with a `strerror` that can be appended to the directory's name in a message.
    """
    parts = _parts_below(name)
    with ExitStack() as opened:
        try:
            directory = opened.enter_context(_opened(root, parts, make=True))
        except OSError as error:
            raise _explained(error, str(root / name)) from None
        yield directory


def _parts_below(name: str) -> tuple[str, ...]:
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise OSError(errno.EINVAL, "is outside its directory", name)
    return path.parts


def _explained(error: OSError, name: str) -> OSError:
    """Return the error with a reason that can be appended to a name."""
    if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):  # EMLINK: for a link on FreeBSD
        return OSError(errno.ELOOP, "is a link, or behind one", name)
    if error.errno in (errno.ENXIO, errno.EINVAL):
        return OSError(errno.EINVAL, "is not a regular file", name)
    return OSError(error.errno, f"cannot be opened: {error.strerror}", name)


@contextmanager
def _opened(root: Path, parts: tuple[str, ...], *, make: bool = False) -> Iterator[NoFollowDirectory]:
    """Open component by component, each relative to the one before, so that none can be replaced in between."""
    if sys.platform == "win32" or not _HAS_DIR_FD:
        yield NoFollowDirectory(None, _checked_path(root, parts, make=make))
        return
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts:
            parent = directory
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=parent)
            directory = os.open(part, os.O_RDONLY | os.O_DIRECTORY | NO_FOLLOW, dir_fd=parent)
            os.close(parent)
        yield NoFollowDirectory(directory, Path())
    finally:
        os.close(directory)


def _checked_path(root: Path, parts: tuple[str, ...], *, make: bool) -> Path:
    for part in parts:
        root = root / part
        if root.is_symlink():
            raise OSError(errno.ELOOP, "is a link", str(root))
        if make:
            root.mkdir(exist_ok=True)
    return root


class NoFollowDirectory:
    """A directory in which an agent may put links, pipes or directories in place of our files at any time."""

    def __init__(self, fd: int | None, path: Path) -> None:
        self._fd = fd
        self._path = path

    def open_fd(self, name: str, flags: int) -> int:
        """Open a regular file, and return its descriptor. Raises `OSError`, with `EINVAL` for anything else."""
        if self._fd is None and (self._path / name).is_symlink():
            raise OSError(errno.ELOOP, "is a link", name)
        fd = os.open(self._path / name, flags | NO_FOLLOW | _BINARY, 0o644, dir_fd=self._fd)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise OSError(errno.EINVAL, "is not a regular file", name)

    def open(self, name: str, flags: int) -> int:
        """Open a regular file, made if missing, and return its descriptor."""
        try:
            return self.open_fd(name, flags | os.O_CREAT)
        except OSError as error:
            raise _explained(error, name) from None

    def names(self, limit: int) -> list[str]:
        """Return up to `limit` names of what is in it, in any order."""
        with os.scandir(self._path if self._fd is None else self._fd) as entries:
            return [entry.name for entry in itertools.islice(entries, limit)]

    def take(self, name: str, limit: int) -> bytes:
        """Remove a regular file, and return up to `limit` bytes of its content."""
        fd = os.open(self._path / name, os.O_RDONLY | NO_FOLLOW | _BINARY, dir_fd=self._fd)
        with os.fdopen(fd, "rb") as file:
            data = file.read(limit) or b"" if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        os.unlink(self._path / name, dir_fd=self._fd)
        return data

    def append(self, name: str, data: bytes) -> None:
        """Append with one write. If the last line has no end, it gets one."""
        with os.fdopen(self.open(name, os.O_RDWR | os.O_APPEND), "rb+", buffering=0) as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
            file.write(data if file.read(1) in (b"", b"\n") else b"\n" + data)

    def replace(self, name: str, data: bytes) -> None:
        """Write the whole file or nothing. A link is replaced, not followed."""
        partial = f".{name[:32]}.{os.urandom(4).hex()}"
        try:
            with os.fdopen(self.open(partial, os.O_WRONLY | os.O_EXCL), "wb") as file:
                file.write(data)
            os.replace(self._path / partial, self._path / name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(self._path / partial, dir_fd=self._fd)
            raise


def walk(
    root: AnyStr | os.PathLike[AnyStr],
    *,
    enter: Callable[[os.DirEntry[AnyStr]], bool] = lambda entry: True,
    on_error: Callable[[OSError], None] = lambda error: None,
) -> Iterator[os.DirEntry[AnyStr]]:
    """Yield everything below a directory, each directory before its content. No link is followed.

    `enter` selects the directories to descend into. A directory that cannot be read is given to `on_error`. Directories
    nested without end, as an agent can make them, end as an error: their path is too long.
    """
    waiting = [os.fspath(root)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    yield entry
                    if is_directory(entry) and enter(entry):
                        waiting.append(entry.path)
        except OSError as error:
            on_error(error)


def is_directory(entry: os.DirEntry[Any]) -> bool:
    """Return whether an entry is a directory, and not a link to one, or a reparse point on Windows."""
    if sys.platform == "win32" and entry.stat(follow_symlinks=False).st_reparse_tag:
        return False
    return entry.is_dir(follow_symlinks=False)


class PathNotAllowed(Exception):
    """A path in a configuration file that does not stay below its base."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def check_relative(name: str) -> None:
    """Raise `PathNotAllowed` unless `name` is a relative path without `..`, on any system."""
    if "\0" in name:
        raise PathNotAllowed("contains a NUL character")
    if Path(name).is_absolute() or PureWindowsPath(name).drive or name.startswith(("/", "\\")):
        raise PathNotAllowed(f"{name} is absolute", "write it relative to the file that names it")
    if ".." in re.split(r"[/\\]", name):
        raise PathNotAllowed(f"{name} contains '..'", "put it next to the file that names it, or below")
