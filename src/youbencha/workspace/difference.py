"""How git tells a difference, read: one answer holds the list of files, their lines, and the patch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from youbencha.errors import YouBenchaError
from youbencha.workspace.changes import ChangeKind, FileChange

HOW = (
    *("--raw", "--numstat", "-p", "-z", "--binary", "--full-index"),
    *("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative"),
)
"""What to ask git for. Renames are a deletion and an addition: what counts as one is a matter of taste."""

_KINDS: Mapping[bytes, ChangeKind] = {b"A": "added", b"M": "modified", b"D": "deleted", b"T": "type_changed"}
_CHUNK = 1 << 20
_BINARY = b"-"


def read_difference(answer: Path, patch_file: Path) -> tuple[FileChange, ...]:
    """Write what is the patch to `patch_file`; tell the rest. Patches may be larger than memory."""
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
    """Into a new file, then in one move: a link in its place is replaced, not followed."""
    partial = patch_file.with_name(f".{patch_file.name}.{os.urandom(4).hex()}")
    try:
        with partial.open("xb") as patch:
            patch.write(begin)
            shutil.copyfileobj(rest, patch, _CHUNK)
        partial.replace(patch_file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


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
