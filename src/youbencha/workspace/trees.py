"""Copy, list and remove trees that an agent left, whatever is in them.

Links are never followed. Directories may be read-only, nested deeper than the longest path, or contain a sparse file of
five terabytes. There is no recursion: an agent may nest directories deeper than Python's recursion limit.
"""

# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH112, PTH113, PTH115, PTH116, PTH119, PTH123, PTH211
# Strings instead of `Path`, which is slow for many files. Bytes, where names may not be text.

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import AnyStr, BinaryIO, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import is_directory, open_nofollow, walk
from youbencha.text import format_path

if sys.platform == "linux":
    import fcntl

CANNOT_BE_HERE = frozenset({errno.ENAMETOOLONG, errno.EFBIG})
"""Errors for files that cannot be copied: the path would be too long, or the file too large for the disk."""

_UNREADABLE = frozenset({errno.EACCES, errno.EPERM})
_FICLONE = 0x40049409
_ROOM_LEFT = 0.95
_BLOCK = 512
_SMALL = 4096
_CHUNK = 1 << 20

Rename = Callable[[str, str], str | None]
"""Maps an entry's name and that of its directory to the name in the copy; None leaves it out."""


def copy_tree(
    source: Path,
    target: Path,
    check_cancelled: Callable[[], None] = lambda: None,
    *,
    skip: Iterable[Path] = (),
    rename: Rename | None = None,
    unreadable_ok: bool = False,
) -> list[str]:
    """Copy files, directories and links with permissions and times; no devices, pipes or sockets, no set-uid bits.

    `target` must not exist. `skip` are paths in the tree that are left out, and so is `target` itself. Returns the
    paths that were renamed by `rename`; a renamed link to a file in the tree becomes a copy of that file.

    Files whose paths are too long or that are too large are left out. `unreadable_ok` also leaves out unreadable files,
    and treats a missing tree as empty. Otherwise raises `OSError`.

    Writing to the copy never writes to the original: no file is linked to its original, and an absolute link into the
    tree leads into the copy. Holes and hard links are preserved, so that the copy takes no more space than the tree. If
    the file system can share blocks (Btrfs, XFS), they are shared.
    """
    return _Copy(source.absolute(), target.absolute(), check_cancelled, rename, unreadable_ok).run(skip)


class _Copy:
    def __init__(
        self,
        source: Path,
        target: Path,
        check_cancelled: Callable[[], None],
        rename: Rename | None,
        unreadable_ok: bool,
    ) -> None:
        self._source, self._target = os.fspath(source), os.fspath(target)
        self._roots = (self._source, os.path.realpath(source))
        self._check_cancelled = check_cancelled
        self._rename = rename
        self._unreadable_ok = unreadable_ok
        self._ignored_errors = CANNOT_BE_HERE | (_UNREADABLE if unreadable_ok else frozenset())
        self._renamed: list[str] = []
        self._first_names: dict[tuple[int, int], str] = {}
        self._files: FileCopies
        self._excluded: _Excluded

    def run(self, skip: Iterable[Path]) -> list[str]:
        os.mkdir(self._target, 0o700)
        self._files = FileCopies(Path(self._target), self._check_cancelled)
        self._excluded = _Excluded(skip, target=Path(self._target))
        waiting = [(self._source, self._target)]
        if self._unreadable_ok and not os.path.isdir(self._source):
            waiting = []
        made = []
        while waiting:
            self._check_cancelled()
            source, target = waiting.pop()
            made.append((source, target))
            waiting += self._directory(source, target)
        for source, target in reversed(made):  # last, because a directory may be read-only, and its times change
            with suppress(OSError):  # its path may be too long
                _copy_state(target, os.stat(source), at_least=stat.S_IRWXU)
        return self._renamed

    def _directory(self, source: str, target: str) -> list[tuple[str, str]]:
        """Copy its files and links, and create its directories; return them, to be copied."""
        below = []
        parent = os.path.basename(source)
        for entry in self._entries(source):
            name = self._rename(entry.name, parent) if self._rename else entry.name
            if name is None or entry in self._excluded:
                continue
            copied = f"{target}{os.sep}{name}"
            if name != entry.name:
                self._renamed.append(os.path.relpath(entry.path, self._source).replace(os.sep, "/"))
            try:
                if self._entry(entry, copied, renamed=name != entry.name):
                    below.append((entry.path, copied))
            except OSError as error:
                if error.errno not in self._ignored_errors:
                    raise
        return below

    def _entries(self, directory: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as entries:
                return list(entries)
        except OSError as error:
            if error.errno not in self._ignored_errors:
                raise
            return []

    def _entry(self, entry: os.DirEntry[str], copied: str, *, renamed: bool) -> bool:
        """Copy one entry. Returns True for a directory, which is only created."""
        if entry.is_symlink():
            file = self._file_behind(entry.path) if renamed else None
            if file is not None:
                self._file(*file, copied)
            else:
                os.symlink(self._link_target(entry.path), copied)
        elif self._unreadable_ok and not os.access(entry.path, os.R_OK):
            return False
        elif entry.is_dir(follow_symlinks=False):
            os.mkdir(copied, 0o700)
            return True
        elif entry.is_file(follow_symlinks=False):
            self._file(self._source, entry.path, copied)
        return False

    def _file(self, root: str, path: str, copied: str) -> None:
        with open_nofollow(Path(root), path[len(root) + 1 :]) as file:
            state = os.fstat(file.fileno())
            if state.st_nlink > 1 and self._link(state, copied):
                return
            self._files.copy(file, copied)
        _copy_state(copied, state)

    def _link(self, state: os.stat_result, copied: str) -> bool:
        """Create a hard link, if the same file was copied under another name."""
        first = self._first_names.setdefault((state.st_dev, state.st_ino), copied)
        if first == copied:
            return False
        try:
            os.link(first, copied)
        except OSError:  # not supported, too many links, or the first was left out
            return False
        return True

    def _link_target(self, link: str) -> str:
        target = os.readlink(link)
        for root in self._roots:
            if target == root or target.startswith(root + os.sep):
                return self._target + target[len(root) :]
        return target

    def _file_behind(self, link: str) -> tuple[str, str] | None:
        """Return the tree and the regular file in it that a link leads to, if any: that file may be renamed, too."""
        root, file = self._roots[1], os.path.realpath(link)
        return (root, file) if file.startswith(root + os.sep) and os.path.isfile(file) else None


def _copy_state(target: str, state: os.stat_result, *, at_least: int = 0) -> None:
    os.chmod(target, stat.S_IMODE(state.st_mode) & 0o777 | at_least)
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))


class FileCopies:
    """Copies the contents of files, and keeps account of the free disk space."""

    def __init__(self, target: Path, check_cancelled: Callable[[], None]) -> None:
        """`target` is a directory on the disk that they are written to."""
        self._check_cancelled = check_cancelled
        self._clones = sys.platform == "linux"
        self._room = int(shutil.disk_usage(target).free * _ROOM_LEFT)

    def copy(self, source: BinaryIO, target: str) -> None:
        """Copy one open file. An error leaves no partial file."""
        try:
            with open(target, "wb") as copy:
                if not self._clone(source, copy):
                    self._copy_data(source, copy)
        except BaseException:
            with suppress(OSError):
                os.unlink(target)
            raise

    def _clone(self, source: BinaryIO, copy: BinaryIO) -> bool:
        """Share the blocks, if the file system can. After a failure, it is not tried again."""
        if sys.platform != "linux" or not self._clones:
            return False
        try:
            fcntl.ioctl(copy, _FICLONE, source.fileno())
        except OSError:
            self._clones = False
        return self._clones

    def _copy_data(self, source: BinaryIO, copy: BinaryIO) -> None:
        state = os.fstat(source.fileno())
        ranges: Iterable[tuple[int, int]] = [(0, state.st_size)]
        if _has_holes(state):
            copy.truncate(state.st_size)
            ranges = _data_in(source.fileno(), state.st_size)
        for start, end in ranges:
            self._take(end - start, copy.name)
            source.seek(start)
            copy.seek(start)
            while (left := end - source.tell()) > 0 and (chunk := source.read(min(left, _CHUNK))):
                self._check_cancelled()
                copy.write(chunk)

    def _take(self, size: int, path: str) -> None:
        self._check_cancelled()
        self._room -= size
        if self._room < 0:
            raise OSError(f"not enough free disk space for the copy, {path} for one")


def _has_holes(state: os.stat_result) -> bool:
    """Return whether it may have holes: some file systems store small or packed files in fewer blocks."""
    blocks: int | None = getattr(state, "st_blocks", None)  # unknown on Windows
    return blocks is not None and state.st_size > max(blocks * _BLOCK, _SMALL)


def is_sparse(tree: Path, name: str, state: os.stat_result) -> bool:
    """Return whether a file consists mostly of holes, so that reading it takes far longer than creating it."""
    if not stat.S_ISREG(state.st_mode) or not _has_holes(state):
        return False
    try:
        with open_nofollow(tree, name) as file:  # on a compressing file system, other files need fewer blocks, too
            return sum(end - start for start, end in _data_in(file.fileno(), state.st_size)) < state.st_size // 2
    except OSError:
        return False


def _data_in(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each range of data; the whole file if the system does not report holes."""
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


class _Excluded:
    """The entries of a tree that are left out, by device and inode: the tree may be reached by another path."""

    def __init__(self, skip: Iterable[Path], *, target: Path | None = None) -> None:
        """`target` is that of a copy: directories that contain it are left out, or it would be copied into itself."""
        paths = [path.resolve() for path in skip]
        if target is not None:
            paths += [target.resolve(), *target.resolve().parents]
        self._names = {path.name.lower() for path in paths}
        self._identities = {identity for path in paths if (identity := _identity(os.fspath(path)))}

    def __contains__(self, entry: os.DirEntry[str]) -> bool:
        return entry.name.lower() in self._names and _identity(entry.path) in self._identities


def _identity(path: str) -> tuple[int, int] | None:
    """Return device and inode; None if it does not exist. The inodes of `scandir` are wrong for mount points."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


class TreeFile(NamedTuple):
    tree: Path
    path: str
    """Relative to the tree, with forward slashes."""
    is_link: bool

    @property
    def full_path(self) -> Path:
        return self.tree / self.path

    def open(self) -> BinaryIO:
        """Open it for reading, if it still is a regular file. Raises `OSError`."""
        return open_nofollow(self.tree, self.path)


def files_below(tree: Path, skip: Iterable[Path] = ()) -> Iterator[TreeFile]:
    """Yield all files and links, in any order, without `skip` and anything called `.git`.

    A directory that cannot be read counts as empty.
    """
    excluded = _Excluded(skip)
    below = len(os.fspath(tree)) + 1

    def counts(entry: os.DirEntry[str]) -> bool:
        return entry.name.lower() != ".git" and entry not in excluded

    for entry in walk(os.fspath(tree), enter=counts):
        if counts(entry) and (entry.is_symlink() or entry.is_file(follow_symlinks=False)):
            yield TreeFile(tree, entry.path[below:].replace(os.sep, "/"), entry.is_symlink())


def walk_accessible(top: AnyStr | os.PathLike[AnyStr]) -> Iterator[os.DirEntry[AnyStr]]:
    """Yield everything below a directory as `walk` does. Directories without permissions get them."""

    def enter(entry: os.DirEntry[AnyStr]) -> bool:
        with suppress(OSError):  # it is another user's, or its path is too long
            make_accessible(entry.path)
        return True

    with suppress(OSError):
        make_accessible(top)
    yield from walk(top, enter=enter)


def make_accessible(directory: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> None:
    """Give the owner all permissions. `directory` must not be a link, which would be followed."""
    mode = os.stat(directory).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(directory, stat.S_IMODE(mode) | stat.S_IRWXU)


def is_real_directory(path: bytes | Path) -> bool:
    """Return whether there is a directory, not a link to one, or a reparse point on Windows."""
    try:
        info = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISDIR(info.st_mode) and not getattr(info, "st_reparse_tag", 0)


def size_on_disk(tree: Path) -> int:
    """Return the bytes that the files of a tree take on disk. Unreadable directories are not counted."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for entry in walk(os.fspath(tree)):
        with suppress(OSError):  # removed meanwhile
            info = entry.stat(follow_symlinks=False)
            if is_directory(entry) or (info.st_dev, info.st_ino) in seen:
                continue
            if info.st_nlink > 1:  # count a file with several names once
                seen.add((info.st_dev, info.st_ino))
            blocks: int | None = getattr(info, "st_blocks", None)  # unknown on Windows
            total += info.st_size if blocks is None else blocks * _BLOCK
    return total


def remove_tree(top: Path) -> None:
    """Remove a directory with everything in it, or a file. Links are removed, not followed."""
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
        f"Cannot remove {format_path(error.filename or top)}: {error.strerror or error}",
        hint="It may belong to another user, such as one in a container. Remove it by hand.",
    )


class _Removal:
    """Moves every directory directly below the top before it is emptied, so that no path gets too long."""

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
            os.rmdir(directory)

    def _empty(self, directory: bytes) -> list[bytes]:
        """Remove its files, and move its directories; return their new paths."""
        os.chmod(directory, stat.S_IRWXU)
        with os.scandir(directory) as iterator:
            entries = list(iterator)
        moved = []
        for entry in entries:
            if is_directory(entry):
                moved.append(self._move(entry.path))
            else:
                os.unlink(entry.path)
        return moved

    def _move(self, directory: bytes) -> bytes:
        os.chmod(directory, stat.S_IRWXU)  # a read-only directory cannot be moved either
        target = self._top + b"/" + self._prefix + str(self._moved).encode()
        self._moved += 1
        os.rename(directory, target)
        return target
