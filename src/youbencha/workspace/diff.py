"""What an agent changed, as data: git's answer parsed, and a comparison for what git cannot hold.

One answer of git holds the list of files, their lines and the patch. git reads a file whole to record it, and again to
show it in a patch: one of 2 GB would end the run. Files that are too large, and paths that are too long, are compared
by their hashes, never stored, and in no patch.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Event
from typing import BinaryIO, Literal, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import replacing
from youbencha.workspace.walk import open_up_to, unreadable

ChangeKind = Literal["added", "modified", "deleted", "type_changed"]

HOW = (
    *("--raw", "--numstat", "-p", "-z", "--binary", "--full-index"),
    *("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative"),
)
"""What to ask git for. Renames are a deletion and an addition: what counts as one is a matter of taste."""

_KINDS: Mapping[bytes, ChangeKind] = {b"A": "added", b"M": "modified", b"D": "deleted", b"T": "type_changed"}

_CHUNK = 1 << 20

_BINARY = b"-"

LARGE = 64 * 1024 * 1024
"""Bytes. What is larger is too large."""

_READ_AT_MOST = 8 * 1024 * 1024 * 1024
"""Bytes, of all files together. A file of a terabyte that is all hole is made in no time, but not read."""

_LINK, _FILE, _PROGRAM, _DIRECTORY = "120000", "100644", "100755", "040000"

_SHA256_LENGTH = 64


class FileChange(NamedTuple):
    path: str
    """Below the tree, with forward slashes; bytes that are no UTF-8 are surrogate-escaped."""
    kind: ChangeKind
    additions: int | None
    """Lines. None for a binary file, which has none, and for one that is too large to be read."""
    deletions: int | None

    @property
    def is_binary(self) -> bool:
        return self.additions is None

    @property
    def changes(self) -> int:
        return (self.additions or 0) + (self.deletions or 0)


class Changes(NamedTuple):
    """The difference between how a tree was and how it is now. What lies inside any `.git` is not looked at."""

    files: tuple[FileChange, ...]
    """In the order of their paths."""
    patch_file: Path
    """The same as a patch that `git apply` takes: binary files and modes included, but for what is left out of it."""
    base_commit: str | None
    """The commit that the agent started from; None where there was none."""
    current_commit: str | None
    """What the agent's own HEAD names now, if it still has one: it need not be where its files are."""
    left_out_of_patch: tuple[str, ...] = ()
    """Paths of changed files that are too large for a patch, and of what lies deeper than paths can be long. They are
    among the files, as binary ones."""


def read_difference(answer: Path, patch_file: Path) -> tuple[FileChange, ...]:
    """Write the patch to `patch_file` and return the list of files. Patches may be larger than memory."""
    with answer.open("rb") as source:
        head, rest = _head(source)
        try:
            _write_patch(rest, source, patch_file)
        except OSError as error:
            raise YouBenchaError(
                "ARTIFACTS_NOT_WRITABLE",
                f"Cannot write {patch_file}: {error.strerror or error}",
                hint="Check that the artifacts directory exists, belongs to you and has room.",
            ) from error
    return _files(head)


def _write_patch(begin: bytes, rest: BinaryIO, patch_file: Path) -> None:
    with replacing(patch_file) as partial, partial.open("xb") as patch:
        patch.write(begin)
        shutil.copyfileobj(rest, patch, _CHUNK)


def _head(source: BinaryIO) -> tuple[bytes, bytes]:
    """All before the patch, and as much of the patch as was read with it. No name is empty, so the first empty
    field is the border."""
    read = source.read(_CHUNK)
    begin = 0
    while (border := read.find(b"\0\0", begin)) < 0:
        begin = max(0, len(read) - 1)
        more = source.read(_CHUNK)
        if not more:
            return read, b""
        read += more
    return read[:border], read[border + 2 :]


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
    """What git knows about a path."""

    mode: str
    id: str


Entries = Mapping[bytes, Entry]


def large_among(tree: Path, paths: Iterable[bytes], *, ours: bool = True) -> frozenset[bytes]:
    """`ours`: directories that cannot be searched are made so that they can."""
    top = os.fsencode(tree)
    return frozenset(path for path in paths if _size(top, path, ours=ours) > LARGE)


def _size(top: bytes, path: bytes, *, ours: bool) -> int:
    try:
        try:
            return os.lstat(top + b"/" + path).st_size
        except PermissionError:
            if not ours:
                raise
        open_up_to(top, path.rpartition(b"/")[0])
        return os.lstat(top + b"/" + path).st_size
    except OSError:
        return 0  # git will say what is wrong with it


async def entries_of(
    tree: Path, paths: Iterable[bytes], too_deep: Iterable[bytes], like: str | None, *, ours: bool = True
) -> dict[bytes, Entry]:
    """What git would call these files. `like` is any id of the repository: its length tells which hash it uses.

    Of what lies too deep only the place is known. `ours`: a file that cannot be read is made readable.
    """
    deep = {path: Entry(_DIRECTORY, "") for path in too_deep}
    chosen = sorted(paths)
    if not chosen:
        return deep
    stop = Event()
    name = "sha256" if like is not None and len(like) == _SHA256_LENGTH else "sha1"
    try:
        return deep | await asyncio.to_thread(_Reader(os.fsencode(tree), name, ours, stop).entries, chosen)
    finally:
        stop.set()


def changes_of(before: Entries, now: Entries) -> list[FileChange]:
    found = []
    for path in {**before, **now}:
        kind = _kind(before.get(path), now.get(path))
        if kind is not None:
            found.append(FileChange(os.fsdecode(path), kind, None, None))
    return found


def _kind(before: Entry | None, now: Entry | None) -> ChangeKind | None:
    if before == now:
        return None
    if before is None or now is None:
        return "added" if before is None else "deleted"
    return "type_changed" if before.mode[:3] != now.mode[:3] else "modified"


class _Reader:
    def __init__(self, top: bytes, hash_name: str, ours: bool, stop: Event) -> None:
        self._top, self._hash_name, self._ours, self._stop = top, hash_name, ours, stop
        self._left = _READ_AT_MOST

    def entries(self, paths: list[bytes]) -> dict[bytes, Entry]:
        return {path: entry for path in paths if (entry := self._entry(self._top + b"/" + path))}

    def _entry(self, path: bytes) -> Entry | None:
        try:
            about = os.lstat(path)
            if stat.S_ISLNK(about.st_mode):
                return Entry(_LINK, self._blob([os.readlink(path)], about.st_size))  # noqa: PTH115 - bytes
            mode = _PROGRAM if about.st_mode & stat.S_IXUSR else _FILE
            if about.st_size > self._left:
                return Entry(mode, self._stand_in(about))
            self._left -= about.st_size
            return Entry(mode, self._id_of_file(path, about))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(path, error) from error

    def _id_of_file(self, path: bytes, about: os.stat_result) -> str:
        if self._ours and not about.st_mode & stat.S_IRUSR:
            os.chmod(path, stat.S_IMODE(about.st_mode) | stat.S_IRUSR)  # noqa: PTH101
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - names need not be text
            return self._blob(iter(lambda: b"" if self._stop.is_set() else file.read(_CHUNK), b""), about.st_size)

    def _blob(self, parts: Iterable[bytes], size: int) -> str:
        digest = hashlib.new(self._hash_name, b"blob %d\0" % size, usedforsecurity=False)
        for part in parts:
            digest.update(part)
        return digest.hexdigest()

    def _stand_in(self, about: os.stat_result) -> str:
        """Return an id for a file that is not read. No program can set its `ctime`."""
        known = f"{about.st_size} {about.st_ino} {about.st_ctime_ns}"
        return hashlib.new(self._hash_name, known.encode(), usedforsecurity=False).hexdigest()
