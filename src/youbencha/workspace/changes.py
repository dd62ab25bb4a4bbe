"""Parse git's list of changes, and compare files that git cannot handle.

One answer of git has the list of files, their lines and the patch. git reads a whole file into memory to record it, and
again to show it in a patch: a file of 2 GB would exhaust memory. Files that are too large, and paths that are too long,
are compared by their hashes; they are not stored, and not in the patch.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from threading import Event
from typing import BinaryIO, Literal, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import open_nofollow, replacing
from youbencha.workspace.git import GitDir
from youbencha.workspace.listing import unreadable

ChangeKind = Literal["added", "modified", "deleted", "type_changed"]

DIFF_OPTIONS = (
    *("--raw", "--numstat", "-p", "-z", "--binary", "--full-index"),
    *("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative"),
)
"""Options of `git diff`. A rename is a deletion and an addition: git's detection of renames is only a heuristic."""

_KINDS: Mapping[bytes, ChangeKind] = {b"A": "added", b"M": "modified", b"D": "deleted", b"T": "type_changed"}
_CHUNK = 1 << 20
_BINARY = b"-"

_MAX_READ_BYTES = 8 * 1024 * 1024 * 1024
"""The maximum number of bytes for all files together. A sparse terabyte file is quick to create, but slow to read."""

LINK, FILE, PROGRAM, _DIRECTORY = "120000", "100644", "100755", "040000"
_SHA256_LENGTH = 64


class FileChange(NamedTuple):
    path: str
    """Relative to the tree, with forward slashes; bytes that are not UTF-8 are surrogate-escaped."""
    kind: ChangeKind
    additions: int | None
    """Lines. None for a binary file, and for one that is too large."""
    deletions: int | None

    @property
    def is_binary(self) -> bool:
        return self.additions is None

    @property
    def changes(self) -> int:
        return (self.additions or 0) + (self.deletions or 0)


class StoredTree(NamedTuple):
    """A tree as git objects."""

    git_dir: Path
    """With all its objects."""
    id: str
    """The id of the tree object."""


class Changes(NamedTuple):
    """The difference between a tree at the start and now, without anything inside a `.git`."""

    files: tuple[FileChange, ...]
    """Sorted by path."""
    patch_file: Path
    """The same for `git apply`, including binary files and modes, but without `left_out_of_patch`."""
    base_commit: str | None = None
    """The commit that the agent started from, if there is one."""
    current_commit: str | None = None
    """The commit of the agent's own HEAD now, if it still has one. The files may differ from it."""
    left_out_of_patch: tuple[str, ...] = ()
    """Changed files that are too large for a patch, or whose paths are too long. They are in `files`, as binary."""
    recorded: StoredTree | None = None
    """The tree now, without `left_out_of_patch`, for as long as its git directory exists. None if only a patch is
    known, or the tree is a user's."""


def read_difference(answer: Path, patch_file: Path) -> tuple[FileChange, ...]:
    """Write the patch to `patch_file` and return the list of files. Patches may be larger than memory."""
    with answer.open("rb") as source:
        head, rest = _head(source)
        try:
            with replacing(patch_file) as partial, partial.open("xb") as patch:
                patch.write(rest)
                shutil.copyfileobj(source, patch, _CHUNK)
        except OSError as error:
            raise YouBenchaError(
                "ARTIFACTS_NOT_WRITABLE",
                f"Cannot write {patch_file}: {error.strerror or error}",
                hint="Check that the artifacts directory exists, belongs to you and has free space.",
            ) from error
    return _files(head)


def _head(source: BinaryIO) -> tuple[bytes, bytes]:
    """Return everything before the patch, and the part of the patch that was read with it. The first empty field is
    the separator, because no name is empty."""
    read = source.read(_CHUNK)
    begin = 0
    while (separator := read.find(b"\0\0", begin)) < 0:
        begin = max(0, len(read) - 1)
        more = source.read(_CHUNK)
        if not more:
            return read, b""
        read += more
    return read[:separator], read[separator + 2 :]


def _files(head: bytes) -> tuple[FileChange, ...]:
    if not head:
        return ()
    fields = head.rstrip(b"\0").split(b"\0")
    kinds: dict[bytes, ChangeKind] = {}
    at = 0
    while at < len(fields) and fields[at].startswith(b":"):
        kinds[fields[at + 1]] = _KINDS[fields[at].rpartition(b" ")[2][:1]]
        at += 2
    lines = dict(_lines(field) for field in fields[at:])
    return tuple(
        FileChange(path=os.fsdecode(path), kind=kind, additions=added, deletions=deleted)
        for path, kind in kinds.items()
        for added, deleted in [lines.get(path, (0, 0))]
    )


def _lines(field: bytes) -> tuple[bytes, tuple[int | None, int | None]]:
    added, deleted, path = field.split(b"\t", 2)
    return path, (None, None) if added == _BINARY else (int(added), int(deleted))


class Entry(NamedTuple):
    """A path's mode and id, as in git."""

    mode: str
    id: str


Entries = Mapping[bytes, Entry]


async def entries_at(git_dir: GitDir, start: str) -> dict[bytes, Entry]:
    """Return all files of a commit or a tree."""
    output = await git_dir.git("ls-tree", "-r", "-z", "--full-tree", start)
    lines = (line.partition(b"\t") for line in output.split(b"\0") if line)
    entries = ((path, entry.decode().split(" ")) for entry, _, path in lines)
    return {path: Entry(mode, name) for path, (mode, _, name) in entries}


async def hash_files(
    tree: Path,
    paths: Iterable[bytes],
    too_deep: Iterable[bytes],
    like: str | None,
    *,
    known: Collection[bytes] | None = None,
) -> dict[bytes, Entry]:
    """Compute the entries that git would record. `like` is any id of the repository: its length shows the hash.

    Of paths in `too_deep`, nothing else is known. Files that are not in `known`, if given, are new and not read.
    """
    deep = {path: Entry(_DIRECTORY, "") for path in too_deep}
    chosen = sorted(paths)
    if not chosen:
        return deep
    stop = Event()
    name = "sha256" if like is not None and len(like) == _SHA256_LENGTH else "sha1"
    try:
        return deep | await asyncio.to_thread(_Reader(os.fsencode(tree), name, known, stop).entries, chosen)
    finally:
        stop.set()


def compare_entries(before: Entries, now: Entries) -> list[FileChange]:
    kinds = {path: _kind(before.get(path), now.get(path)) for path in {**before, **now}}
    return [FileChange(os.fsdecode(path), kind, None, None) for path, kind in kinds.items() if kind]


def _kind(before: Entry | None, now: Entry | None) -> ChangeKind | None:
    if before == now:
        return None
    if before is None or now is None:
        return "added" if before is None else "deleted"
    return "type_changed" if before.mode[:3] != now.mode[:3] else "modified"


class _Reader:
    def __init__(self, top: bytes, hash_name: str, known: Collection[bytes] | None, stop: Event) -> None:
        self._top, self._hash_name, self._known, self._stop = top, hash_name, known, stop
        self._left = _MAX_READ_BYTES

    def entries(self, paths: list[bytes]) -> dict[bytes, Entry]:
        return {path: entry for path in paths if (entry := self._entry(path))}

    def _entry(self, name: bytes) -> Entry | None:
        path = self._top + b"/" + name
        try:
            info = os.lstat(path)
            if stat.S_ISLNK(info.st_mode):
                return Entry(LINK, self._hash_blob([os.readlink(path)], info.st_size))  # noqa: PTH115 - bytes
            mode = PROGRAM if info.st_mode & stat.S_IXUSR else FILE
            if info.st_size > self._left or (self._known is not None and name not in self._known):
                return Entry(mode, self._hash_stat(info))
            self._left -= info.st_size
            return Entry(mode, self._hash_file(name, info))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(path, error) from error

    def _hash_file(self, name: bytes, info: os.stat_result) -> str:
        with open_nofollow(Path(os.fsdecode(self._top)), os.fsdecode(name)) as file:
            return self._hash_blob(iter(lambda: b"" if self._stop.is_set() else file.read(_CHUNK), b""), info.st_size)

    def _hash_blob(self, parts: Iterable[bytes], size: int) -> str:
        digest = hashlib.new(self._hash_name, b"blob %d\0" % size, usedforsecurity=False)
        for part in parts:
            digest.update(part)
        return digest.hexdigest()

    def _hash_stat(self, info: os.stat_result) -> str:
        """Return an id for a file that is not read. Programs cannot set its `ctime`."""
        known = f"{info.st_size} {info.st_ino} {info.st_ctime_ns}"
        return hashlib.new(self._hash_name, known.encode(), usedforsecurity=False).hexdigest()
