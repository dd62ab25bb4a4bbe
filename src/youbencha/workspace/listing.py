"""List the files of a tree that count: not those that its ignore rules exclude, and nothing inside a `.git`.

Not by git, which treats a repository inside as a submodule, hides its contents, and fails if it has no commit.

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
from youbencha.files import is_directory, read_nofollow, walk
from youbencha.text import format_path
from youbencha.workspace.git import ANY_NAME, GitDir, GitFailed, git
from youbencha.workspace.trees import is_sparse, make_accessible

MAX_FILE_BYTES = 64 * 1024 * 1024
"""git reads a whole file into memory to record it, and again to show it in a patch. Larger files are not recorded."""

GITIGNORE = b".gitignore"
_MAX_PATH_BYTES = os.pathconf("/", "PC_PATH_MAX") if hasattr(os, "pathconf") else 32767
"""The longest path of a system call, with the zero at its end."""

_RULES = "start-rules"
_MAX_RULES_BYTES = 4 * 1024 * 1024

_HERE = b"./"
"""Put before every path, because git reads a colon at the start as pathspec magic."""

_MAX_ASKED_BYTES = 1000

_NONE_IGNORED = 1
"""The exit status of `git check-ignore`."""

TOOL_CACHES = (
    # Python
    *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".pytype", ".hypothesis", ".tox", ".nox"),
    # JavaScript
    *("node_modules/.cache", "node_modules/.vite", "node_modules/.vitest", ".parcel-cache", ".turbo", ".angular/cache"),
    *(".eslintcache", ".stylelintcache"),
    # others
    *(".gradle", ".phpunit.cache", ".phpunit.result.cache", ".php-cs-fixer.cache", ".dart_tool", ".zig-cache"),
)
"""Files and directories in which tools cache data next to the code, never committed. Build results, installed
packages, coverage data and names that people also use themselves, such as `.cache` and `target`, do not belong here."""

_IN_TOOL_CACHE = re.compile(rf"(?:^|/)(?:{'|'.join(map(re.escape, TOOL_CACHES))})(?:/|\Z)".encode())


class TreeFiles(NamedTuple):
    """Paths relative to a tree."""

    files: list[bytes]
    """Files and links, in the order of git's index."""
    large: frozenset[bytes] = frozenset()
    """Those of them that are too large for git."""
    too_deep: tuple[bytes, ...] = ()
    """Directories and files whose full path is too long for a system call. They are not in `files`."""

    def without(self, paths: Collection[bytes]) -> TreeFiles:
        if not paths:
            return self
        return TreeFiles(
            [path for path in self.files if path not in paths],
            self.large.difference(paths),
            tuple(path for path in self.too_deep if path not in paths),
        )


def list_files(tree: Path, *, make_readable: bool = False, skip: Collection[bytes] = ()) -> TreeFiles:
    """List files and links, without anything called `.git`. If the tree itself is a link, there are none.

    Anything else (a pipe, a socket) has no content to compare. `make_readable` is for a run's workspace, in which an
    agent's tests may leave unreadable files and directories. `skip` are directories, by name or by relative path.
    """
    return TreeFiles([]) if tree.is_symlink() else _Listing(tree, make_readable, skip).run()


class _Listing:
    def __init__(self, tree: Path, make_readable: bool, skip: Collection[bytes]) -> None:
        self._tree, self._make_readable, self._skip = tree, make_readable, skip
        self._below = len(os.fsencode(tree)) + 1
        self._files: dict[bytes, os.stat_result] = {}
        self._too_deep: list[bytes] = []

    def run(self) -> TreeFiles:
        if self._make_readable:
            with suppress(FileNotFoundError, NotADirectoryError):
                make_accessible(self._tree)
        for entry in walk(os.fsencode(self._tree), enter=self._enter, on_error=self._fail):
            if entry.name.lower() == b".git" or is_directory(entry):
                continue
            if not (entry.is_symlink() or entry.is_file(follow_symlinks=False)):
                continue
            path = entry.path[self._below :]
            if len(entry.path) < _MAX_PATH_BYTES:
                with suppress(FileNotFoundError):
                    self._files[path] = self._stat(entry)
            else:
                self._too_deep.append(path)
        files = sorted(self._files)
        return TreeFiles(files, self._large_among(files), tuple(sorted(self._too_deep)))

    def _enter(self, entry: os.DirEntry[bytes]) -> bool:
        if entry.name.lower() == b".git" or entry.name in self._skip or entry.path[self._below :] in self._skip:
            return False
        if self._make_readable:
            with suppress(OSError):  # it is another user's, or its path is too long
                make_accessible(entry.path)
        return True

    def _fail(self, error: OSError) -> None:
        if error.errno == errno.ENAMETOOLONG:
            self._too_deep.append(error.filename[self._below :])
        elif error.errno not in (errno.ENOENT, errno.ENOTDIR):  # the agent may have removed it, or the whole tree
            raise unreadable(error.filename, error) from error

    def _stat(self, entry: os.DirEntry[bytes]) -> os.stat_result:
        info = entry.stat(follow_symlinks=False)
        if self._make_readable and stat.S_ISREG(info.st_mode) and not info.st_mode & stat.S_IRUSR:
            os.chmod(entry.path, stat.S_IMODE(info.st_mode) | stat.S_IRUSR)  # noqa: PTH101 - names need not be text
        return info

    def _large_among(self, files: list[bytes]) -> frozenset[bytes]:
        """Find the files that are too large.

        The sizes of sparse files are added up: they cost nothing to create, but git needs two seconds for each 64 MiB
        of zeros.
        """
        large: set[bytes] = set()
        sparse_bytes = 0
        for path in files:
            info = self._files[path]
            if info.st_size > MAX_FILE_BYTES and stat.S_ISREG(info.st_mode):
                large.add(path)
            elif is_sparse(self._tree, os.fsdecode(path), info):
                sparse_bytes += info.st_size
                if sparse_bytes > MAX_FILE_BYTES:
                    large.add(path)
        return frozenset(large)


def unreadable(path: bytes, error: OSError) -> YouBenchaError:
    return YouBenchaError(
        "GIT_FAILED",
        f"Cannot read {format_path(path)}: {error.strerror or error}",
        hint="The agent left files that cannot be read, so their content is unknown.",
    )


def save_gitignores(tree: Path, paths: Iterable[bytes], git_dir: Path) -> None:
    """Copy the ignore files among `paths`, before the agent starts."""
    shutil.rmtree(git_dir / _RULES, ignore_errors=True)
    for path in filter(_is_gitignore, paths):
        name = os.fsdecode(path)
        with suppress(OSError):  # it is a link, or too large
            _save_rules(git_dir, name, read_nofollow(tree, name, _MAX_RULES_BYTES))


async def save_gitignores_at(commit: str, git_dir: GitDir) -> None:
    """Copy the ignore files of a commit."""
    shutil.rmtree(git_dir.path / _RULES, ignore_errors=True)
    listed = await git_dir.git("ls-tree", "-r", "-z", "--full-tree", commit)
    for line in listed.split(b"\0"):
        entry, _, path = line.partition(b"\t")
        if entry.startswith(b"100") and _is_gitignore(path):
            text = await git_dir.git("cat-file", "blob", entry.split()[2].decode())
            _save_rules(git_dir.path, os.fsdecode(path), text)


def _is_gitignore(path: bytes) -> bool:
    return path.rpartition(b"/")[2] == GITIGNORE


def _save_rules(git_dir: Path, name: str, text: bytes) -> None:
    file = git_dir / _RULES / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text)


async def ignored_at_start(listed: TreeFiles, git_dir: Path, prefix: bytes = b"") -> set[bytes]:
    """Return the files that the saved rules ignore; `prefix` is put before their paths."""
    asked = {prefix + path: path for path in listed.files}
    asked |= {_shorten(prefix + path): path for path in listed.too_deep}
    rules = git_dir / _RULES
    ignored = await ignored_by_rules(rules, asked, git_dir) if rules.exists() else filter(in_tool_cache, asked)
    return {asked[path] for path in ignored}


def _shorten(path: bytes) -> bytes:
    """Shorten a path that is too long for git: usually it is a directory far above that is ignored."""
    return path[:_MAX_ASKED_BYTES].rpartition(b"/")[0] + b"/..." if len(path) > _MAX_ASKED_BYTES else path


def in_tool_cache(path: bytes) -> bool:
    return _IN_TOOL_CACHE.search(path) is not None


async def ignored_by_rules(
    tree: Path, paths: Collection[bytes], git_dir: Path, settings: Mapping[str, str] = ANY_NAME
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
