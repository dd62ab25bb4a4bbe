"""Write and remove files of a user's tree so that they are as they were recorded.

No link is followed: every directory is opened relative to the one above it. Nothing is removed that is not asked for;
what is in the way is found before anything is changed.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.text import shown
from youbencha.workspace.diff import LINK, PROGRAM, Entry
from youbencha.workspace.git import git
from youbencha.workspace.objects import directory_below, write_at
from youbencha.workspace.walk import files_in

Wanted = Mapping[bytes, Entry | None]
"""What each path should become; None: it should not exist."""

_AT_ONCE = 64 << 20
_MOST_AT_ONCE = 1000


async def put_back(
    tree: Path, wanted: Wanted, git_dir: Path, objects: Path, permissions: Mapping[bytes, int] | None = None
) -> None:
    """Make the paths as wanted. Raises YouBenchaError before anything is changed, if something is in the way.

    Files that are not in `permissions` keep those that they have.
    """
    await asyncio.to_thread(_check_way, tree, wanted)
    files = {path: entry for path, entry in wanted.items() if entry is not None}
    groups = await _in_groups(files, git_dir, objects)
    await asyncio.to_thread(_remove_all, tree, [path for path, entry in wanted.items() if entry is None])
    for group in groups:
        ids = b"".join(files[path].id.encode() + b"\n" for path in group)
        output = await git(git_dir, "cat-file", "--batch", stdin=ids, objects=objects)
        contents = dict(zip(group, _contents(output), strict=True))
        await asyncio.to_thread(_write_all, tree, files, contents, permissions or {})


async def _in_groups(files: Mapping[bytes, Entry], git_dir: Path, objects: Path) -> list[list[bytes]]:
    """Split the paths so that the contents of a group fit into memory. Raises YouBenchaError if one is missing."""
    ids = b"".join(entry.id.encode() + b"\n" for entry in files.values())
    about = (await git(git_dir, "cat-file", "--batch-check", stdin=ids, objects=objects)).decode().splitlines()
    groups: list[list[bytes]] = [[]]
    room = _AT_ONCE
    for path, line in zip(files, about, strict=True):
        kind, _, size = line.partition(" ")[2].partition(" ")
        if kind != "blob":
            raise YouBenchaError(
                "CHECKPOINT_DAMAGED",
                f"The content of {shown(path)} is no longer in the repository.",
                hint="Nothing was changed. `git fsck` shows what is missing; restore another checkpoint.",
            )
        room -= int(size)
        if groups[-1] and (room < 0 or len(groups[-1]) >= _MOST_AT_ONCE):
            groups.append([])
            room = _AT_ONCE - int(size)
        groups[-1].append(path)
    return groups if groups[0] else []


def _contents(output: bytes) -> Iterator[bytes]:
    """The objects in the output of `git cat-file --batch`."""
    at = 0
    while at < len(output):
        line = output.index(b"\n", at)
        size = int(output[at:line].rpartition(b" ")[2])
        yield output[line + 1 : line + 1 + size]
        at = line + 1 + size + 1


def _check_way(tree: Path, wanted: Wanted) -> None:
    """Raise if a file that is to be kept is where a directory must be, or the other way round."""
    top = os.fsencode(tree)
    for path in (path for path, entry in wanted.items() if entry is not None):
        parts = path.split(b"/")
        for depth in range(1, len(parts)):
            above = b"/".join(parts[:depth])
            if above in wanted:  # it is removed first
                break
            if (mode := _mode(top + b"/" + above)) is not None and not stat.S_ISDIR(mode):
                raise _in_the_way(above, f"is in the way of {shown(path)}")
        else:
            if (mode := _mode(top + b"/" + path)) is not None and stat.S_ISDIR(mode):
                inside = files_in(tree / os.fsdecode(path), is_workspace=False).files
                kept = next((name for name in inside if path + b"/" + name not in wanted), None)
                if kept is not None or os.path.lexists(top + b"/" + path + b"/.git"):
                    raise _in_the_way(path + b"/" + (kept or b".git"), f"is in the way of {shown(path)}")


def _mode(path: bytes) -> int | None:
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _in_the_way(path: bytes, what: str) -> YouBenchaError:
    hint = "Nothing was changed. Move it away, then try again."
    return YouBenchaError("RESTORE_BLOCKED", f"{shown(path)} {what}.", hint=hint)


def _remove_all(tree: Path, paths: list[bytes]) -> None:
    """Remove files, and directories that are empty then."""
    for path in sorted(paths, reverse=True):
        *above, name = path.split(b"/")
        try:
            with directory_below(tree, above) as directory, suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
        except OSError as error:
            raise _failed(path, error) from error
        with suppress(OSError):  # it is not empty
            while above:
                *above, name = above
                with directory_below(tree, above) as directory:
                    os.rmdir(name, dir_fd=directory)


def _write_all(
    tree: Path, files: Mapping[bytes, Entry], contents: Mapping[bytes, bytes], permissions: Mapping[bytes, int]
) -> None:
    for path, content in contents.items():
        *above, name = path.split(b"/")
        try:
            with directory_below(tree, above, make=True) as directory:
                _write(directory, name, files[path].mode, content, permissions.get(path))
        except OSError as error:
            raise _failed(path, error) from error


def _write(directory: int, name: bytes, mode: str, content: bytes, permissions: int | None) -> None:
    try:
        before = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        before = 0
    if stat.S_ISDIR(before):  # it only has empty directories
        _remove_empty(directory, name)
    if mode == LINK:
        if before and not stat.S_ISDIR(before):
            os.unlink(name, dir_fd=directory)
        os.symlink(content, name, dir_fd=directory)
        return
    if permissions is not None:
        write_at(directory, name, content, permissions, exactly=True)
        return
    was_file = stat.S_ISREG(before)
    rights = stat.S_IMODE(before) & 0o666 if was_file else 0o666
    rights |= (rights & 0o444) >> 2 if mode == PROGRAM else 0
    write_at(directory, name, content, rights, exactly=was_file)


def _remove_empty(directory: int, name: bytes) -> None:
    """Remove a directory that has nothing but empty directories."""
    for _, below, _, opened in os.fwalk(name, topdown=False, dir_fd=directory):
        for each in below:
            os.rmdir(each, dir_fd=opened)
    os.rmdir(name, dir_fd=directory)


def _failed(path: bytes, error: OSError) -> YouBenchaError:
    return YouBenchaError(
        "RESTORE_FAILED",
        f"{shown(path)} could not be restored: {error.strerror or error}",
        hint="Correct its permissions, or free some space, and restore again. Nothing is lost: how the files were"
        " before is kept as a checkpoint.",
    )
