"""List the files of a tree, without those that its ignore rules exclude, and compute their size.

Not by git, which treats a repository inside as a submodule, hides its contents, and fails if it has no commit.
Anything inside a `.git`, at any level, is left out.

The ignore rules are those of the start: copies of all `.gitignore` files, outside the agent's tree. So an agent that
edits `.gitignore` hides nothing, and a file that existed at the start counts, whatever the rules say. The caches of
well-known tools are ignored everywhere.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import is_directory, read_nofollow
from youbencha.text import shown
from youbencha.workspace.git import ONLY_RECORDED, GitFailed, git

LONGEST = os.pathconf("/", "PC_PATH_MAX") if hasattr(os, "pathconf") else 32767
"""The longest path of a system call, in bytes, with the zero at its end."""

NAME = b".gitignore"
_RULES = "start-rules"
_LARGEST = 4 * 1024 * 1024

_HERE = b"./"
"""Put before every path, because git reads a colon at the start as pathspec magic."""

_LONG_ENOUGH = 1000

_NONE_IGNORED = 1
"""The exit status of `git check-ignore`."""

_BLOCK = 512

TOOL_CACHES = (
    # Python
    *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".pytype", ".hypothesis", ".tox", ".nox"),
    # JavaScript
    *("node_modules/.cache", "node_modules/.vite", "node_modules/.vitest", ".parcel-cache", ".turbo", ".angular/cache"),
    *(".eslintcache", ".stylelintcache"),
    # others
    *(".gradle", ".phpunit.cache", ".phpunit.result.cache", ".php-cs-fixer.cache", ".dart_tool", ".zig-cache"),
)
"""Files and directories in which tools cache data next to the code, and that nobody commits. Build results, installed
packages, coverage data and names that people also use themselves, such as `.cache` and `target`, do not belong here."""

_IN_TOOL_CACHE = re.compile(rf"(?:^|/)(?:{'|'.join(map(re.escape, TOOL_CACHES))})(?:/|\Z)".encode())


class TreeFiles(NamedTuple):
    """Paths relative to a tree."""

    files: list[bytes]
    """Files and links, in the order of git's index."""
    too_deep: tuple[bytes, ...] = ()
    """Directories and files whose full path is too long for a system call. They are not in `files`."""

    def without(self, paths: Collection[bytes]) -> TreeFiles:
        if not paths:
            return self
        return TreeFiles(
            [path for path in self.files if path not in paths],
            tuple(path for path in self.too_deep if path not in paths),
        )


def files_in(tree: Path, *, is_workspace: bool = True, left_out: Collection[bytes] = ()) -> TreeFiles:
    """List files and links, without anything called `.git`. If the tree itself is a link, there are none.

    Anything else (a pipe, a socket) has no content to compare. In a workspace, an unreadable directory is made
    readable. `left_out` are directories to skip, by name or by path relative to the tree.
    """
    if tree.is_symlink():
        return TreeFiles([])
    return _Walk(os.fsencode(tree), is_workspace, left_out).run()


class _Walk:
    def __init__(self, top: bytes, is_workspace: bool, left_out: Collection[bytes]) -> None:
        self._top, self._is_workspace, self._left_out = top, is_workspace, left_out
        self._files: list[bytes] = []
        self._too_deep: list[bytes] = []

    def run(self) -> TreeFiles:
        longest = LONGEST - len(self._top) - len(b"/")
        waiting = [b""]  # not by recursion: an agent may nest directories deeper than Python's recursion limit
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
                    (self._files if len(path) < longest else self._too_deep).append(path)
        self._files.sort()
        return TreeFiles(self._files, tuple(sorted(self._too_deep)))

    def _entries(self, below: bytes) -> list[os.DirEntry[bytes]]:
        directory = self._top + b"/" + below
        try:
            try:
                return _listed(directory)
            except PermissionError:
                if not self._is_workspace:
                    raise
            open_up_to(self._top, below.rstrip(b"/"))
            return _listed(directory)
        except (FileNotFoundError, NotADirectoryError):  # the agent may have removed it, or the whole tree
            return []
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise unreadable(directory, error) from error
            self._too_deep.append(below.rstrip(b"/"))
            return []


def open_up_to(top: bytes, below: bytes) -> None:
    """Make a directory and all above it in its tree accessible. The modes of directories are not compared."""
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
        hint="The agent left something that cannot be read: its content is unknown.",
    )


def keep_rules(tree: Path, paths: Iterable[bytes], git_dir: Path) -> None:
    """Copy the ignore files among `paths`, before the agent starts."""
    rules = git_dir / _RULES
    if rules.exists():
        shutil.rmtree(rules)
    for path in paths:
        if path == NAME or path.endswith(b"/" + NAME):
            name = os.fsdecode(path)
            with suppress(OSError):  # it is a link, or too large
                text = read_nofollow(tree, name, _LARGEST)
                (rules / name).parent.mkdir(parents=True, exist_ok=True)
                (rules / name).write_bytes(text)


async def keep_rules_of(commit: str, git_dir: Path, objects: Path) -> None:
    """Copy the ignore files of a commit."""
    if (git_dir / _RULES).exists():
        shutil.rmtree(git_dir / _RULES)
    listed = await git(git_dir, "ls-tree", "-r", "-z", "--full-tree", commit, objects=objects)
    for entry in listed.split(b"\0"):
        about, _, path = entry.partition(b"\t")
        if about.startswith(b"100") and (path == NAME or path.endswith(b"/" + NAME)):
            file = git_dir / _RULES / os.fsdecode(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(await git(git_dir, "cat-file", "blob", about.split()[2].decode(), objects=objects))


async def ignored_among(found: TreeFiles, git_dir: Path, prefix: bytes = b"") -> set[bytes]:
    """Return the files that the rules of the start ignore; `prefix` is put before their paths."""
    candidates = {prefix + path: path for path in found.files}
    candidates |= {_shorter(prefix + path): path for path in found.too_deep}
    return {candidates[path] for path in await _ignored(candidates, git_dir)}


def _shorter(path: bytes) -> bytes:
    """Shorten a path that is too long for git: usually it is a directory far above that is ignored."""
    return path[:_LONG_ENOUGH].rpartition(b"/")[0] + b"/..." if len(path) > _LONG_ENOUGH else path


async def _ignored(paths: Collection[bytes], git_dir: Path) -> set[bytes]:
    rules = git_dir / _RULES
    if not rules.exists():
        return set(filter(in_tool_cache, paths))
    return await ignored_by_rules(rules, paths, git_dir)


def in_tool_cache(path: bytes) -> bool:
    return _IN_TOOL_CACHE.search(path) is not None


async def ignored_by_rules(
    tree: Path, paths: Collection[bytes], git_dir: Path, settings: Mapping[str, str] = ONLY_RECORDED
) -> set[bytes]:
    """Return the paths that are ignored by the ignore files in `tree`, or are in the cache of a tool."""
    caches = set(filter(in_tool_cache, paths))
    names = b"".join(_HERE + path + b"\0" for path in paths if path not in caches)
    if not names:
        return caches
    try:
        arguments = ("check-ignore", "--no-index", "--stdin", "-z")
        output = await git(git_dir, *arguments, tree=tree, stdin=names, settings=settings)
    except GitFailed as failed:
        if failed.status != _NONE_IGNORED:
            raise
        return caches
    return caches.union(path.removeprefix(_HERE) for path in output.split(b"\0") if path)


def size_on_disk(path: Path) -> int:
    """Return the bytes that the files of a tree take on disk. Unreadable directories are not counted."""
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
                    if about.st_nlink > 1:  # count a file with several names once
                        if (file := (about.st_dev, about.st_ino)) in seen:
                            continue
                        seen.add(file)
                    blocks: int | None = getattr(about, "st_blocks", None)  # unknown on Windows
                    total += about.st_size if blocks is None else blocks * _BLOCK
        except OSError:  # removed meanwhile, or not readable
            continue
    return total
