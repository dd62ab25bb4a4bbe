"""List the files of a tree, without what its ignore rules exclude, and add up their size.

Not by git: it takes a repository inside for a submodule, hides what is in there, and fails if that has no commit. What
lies inside any `.git`, wherever it is, is left out.

The ignore rules are those of the start: all its `.gitignore` files, copied to where an agent does not edit them by
chance, and no others. So an agent that edits `.gitignore` hides nothing, and a file that was there at the start counts,
whatever the rules say.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.text import shown
from youbencha.workspace.git import ONLY_RECORDED, GitFailed, git

_LONGEST = os.pathconf("/", "PC_PATH_MAX") if hasattr(os, "pathconf") else 32767
"""Bytes of a path that a system call takes, with the zero at its end."""

NAME = b".gitignore"

_RULES = "start-rules"

_LARGEST = 4 * 1024 * 1024

_HERE = b"./"
"""Before every path: a name that begins with a colon would mean something else to git."""

_LONG_ENOUGH = 1000

_NONE_IGNORED = 1
"""The exit status of `git check-ignore`."""

_BLOCK = 512


class TreeFiles(NamedTuple):
    """Paths below a tree."""

    files: list[bytes]
    """Files and links, in the order of git's index."""
    too_deep: tuple[bytes, ...] = ()
    """Directories, and files, whose whole path is longer than a system call takes. Not among the files."""

    def without(self, paths: Collection[bytes]) -> TreeFiles:
        if not paths:
            return self
        return TreeFiles(
            [path for path in self.files if path not in paths],
            tuple(path for path in self.too_deep if path not in paths),
        )


def is_directory(entry: os.DirEntry[bytes]) -> bool:
    """A real one: neither a link to one, nor what Windows has in a link's place."""
    if sys.platform == "win32" and entry.stat(follow_symlinks=False).st_reparse_tag:
        return False
    return entry.is_dir(follow_symlinks=False)


def files_in(tree: Path, *, ours: bool = True, left_out: Collection[bytes] = ()) -> TreeFiles:
    """Files and links; no `.git` of any kind. If the tree itself is a link, there are none: it is not followed.

    What is neither (a pipe, a socket) has no content to compare. `ours`: a directory that cannot be read is made
    readable. `left_out` are directories that are skipped, by name or by path below the tree.
    """
    if tree.is_symlink():
        return TreeFiles([])
    return _Walk(os.fsencode(tree), ours, left_out).run()


class _Walk:
    def __init__(self, top: bytes, ours: bool, left_out: Collection[bytes]) -> None:
        self._top, self._ours, self._left_out = top, ours, left_out
        self._files: list[bytes] = []
        self._too_deep: list[bytes] = []

    def run(self) -> TreeFiles:
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
        return TreeFiles(self._files, tuple(sorted(self._too_deep)))

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
        hint="The agent made a directory that cannot be read: its content is unknown.",
    )


def keep_rules(tree: Path, paths: Iterable[bytes], git_dir: Path) -> None:
    """Copy the ignore files among `paths`, while the tree is as it was at the start."""
    rules = git_dir / _RULES
    if rules.exists():
        shutil.rmtree(rules)
    for path in paths:
        if path == NAME or path.endswith(b"/" + NAME):
            name = os.fsdecode(path)
            source = tree / name
            if not source.is_symlink() and source.is_file() and source.stat().st_size <= _LARGEST:
                (rules / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, rules / name)


async def keep_rules_of(commit: str, git_dir: Path, objects: Path) -> None:
    """Copy the ignore files of a commit."""
    listed = await git(git_dir, "ls-tree", "-r", "-z", "--full-tree", commit, objects=objects)
    for entry in listed.split(b"\0"):
        about, _, path = entry.partition(b"\t")
        if about.startswith(b"100") and (path == NAME or path.endswith(b"/" + NAME)):
            file = git_dir / _RULES / os.fsdecode(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(await git(git_dir, "cat-file", "blob", about.split()[2].decode(), objects=objects))


async def ignored_among(found: TreeFiles, git_dir: Path, prefix: bytes = b"") -> set[bytes]:
    """Return the files that the rules of the start ignore; their paths are below `prefix` there."""
    asked = {prefix + path: path for path in found.files}
    asked |= {_shorter(prefix + path): path for path in found.too_deep}
    return {asked[path] for path in await _ignored(asked, git_dir)}


def _shorter(path: bytes) -> bytes:
    """A path that is too long for git, cut: as a rule some directory far above is what is ignored."""
    return path[:_LONG_ENOUGH].rpartition(b"/")[0] + b"/..." if len(path) > _LONG_ENOUGH else path


async def _ignored(paths: Collection[bytes], git_dir: Path) -> set[bytes]:
    rules = git_dir / _RULES
    if not paths or not rules.exists():
        return set()
    try:
        asked = b"".join(_HERE + path + b"\0" for path in paths)
        how = ("check-ignore", "--no-index", "--stdin", "-z")
        output = await git(git_dir, *how, tree=rules, stdin=asked, settings=ONLY_RECORDED)
    except GitFailed as failed:
        if failed.status == _NONE_IGNORED:
            return set()
        raise
    return {path.removeprefix(_HERE) for path in output.split(b"\0") if path}


def size_on_disk(path: Path) -> int:
    """Return the bytes that the files of a tree take: holes take none, and what cannot be read is not counted."""
    total, waiting = 0, [os.fsencode(path)]
    seen: set[tuple[int, int]] = set()
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if is_directory(entry):
                        waiting.append(entry.path)
                        continue
                    about = entry.stat(follow_symlinks=False)
                    if about.st_nlink > 1:  # one file by several names takes its room once
                        if (file := (about.st_dev, about.st_ino)) in seen:
                            continue
                        seen.add(file)
                    total += _on_disk(about)
        except OSError:  # gone meanwhile, or not readable
            continue
    return total


def _on_disk(about: os.stat_result) -> int:
    blocks: int | None = getattr(about, "st_blocks", None)
    return about.st_size if blocks is None else blocks * _BLOCK  # Windows does not tell blocks
