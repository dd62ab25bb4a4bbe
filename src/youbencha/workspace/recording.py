"""Record trees: what an agent changed in a trial, and again and again the files of a user's tree in a loop.

git records into an index and a git directory of our own, outside the tree. The agent's own `.git` is not used: it may
have committed, rewritten history, or put commands into its configuration (filters, hooks, monitors) that would then run
on this machine.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

from youbencha.errors import YouBenchaError
from youbencha.files import is_directory, walk
from youbencha.text import format_path, list_paths
from youbencha.workspace.changes import (
    DIFF_OPTIONS,
    LINK,
    Changes,
    Entries,
    Entry,
    FileChange,
    StoredTree,
    compare_entries,
    entries_at,
    hash_files,
    read_difference,
)
from youbencha.workspace.git import ANY_NAME, GitDir, GitFailed, current_commit, make_git_dir
from youbencha.workspace.listing import (
    MAX_FILE_BYTES,
    TOOL_CACHES,
    TreeFiles,
    ignored_at_start,
    ignored_by_rules,
    list_files,
    save_gitignores,
)
from youbencha.workspace.trees import is_real_directory

PERMISSIONS = 0o777
_TICK_NS = 50_000_000
"""Two changes of a file within the clock's resolution have the same time: a file that was changed just before it was
recorded is read again the next time."""

_LIST = (
    *("ls-files", "--others", "--exclude-standard", "-z", "--exclude=.[gG][iI][tT]"),
    *(f"--exclude={'**/' * ('/' in name)}{name}" for name in TOOL_CACHES),
)


class Snapshot(NamedTuple):
    """The state of `tree` at one time.

    New files that are ignored by the `.gitignore` files of that time do not count, as with `git add --all`, and neither
    do new files in caches of tools.
    """

    tree: Path
    git_dir: Path
    start: str
    """The id of that state: a commit or a tree."""
    base_commit: str | None = None
    """The commit that was checked out."""
    apart: Entries = MappingProxyType({})
    """Files at the start that are too large for git."""

    @classmethod
    async def take(cls, tree: Path, git_dir: Path) -> Self:
        """Take a snapshot of a directory. `git_dir` must not exist."""
        make_git_dir(git_dir)
        return await cls(tree.absolute(), git_dir.absolute(), start="").retake()

    async def retake(self) -> Self:
        """Take a snapshot of the current state, so that earlier changes do not count as the agent's.

        Reads and hashes every file.
        """
        files = await self._list_files()
        save_gitignores(self.tree, files.files, self.git_dir)
        git_dir = GitDir(self.git_dir, settings=ANY_NAME)
        async with _indexed(self.tree, git_dir, files.without(files.large).files) as index:
            start = await _write_tree(git_dir, index)
        return self._replace(start=start, apart=await hash_files(self.tree, files.large, files.too_deep, start))

    async def changes(self, patch_file: Path) -> Changes:
        """Return all changes, whatever was committed, and write the patch to `patch_file`.

        If the tree is missing or a link, everything was deleted. Anything inside a `.git` is ignored.
        """
        git_dir, files = GitDir(self.git_dir, settings=ANY_NAME), await self._list_files()
        changes = await compare_tree(self.tree, files, git_dir, self.start, patch_file, apart=self.apart)
        return changes._replace(base_commit=self.base_commit, current_commit=current_commit(self.tree))

    async def _list_files(self) -> TreeFiles:
        """List the files of the tree that count. Before the first snapshot, all of them do."""
        files = list_files(self.tree, make_readable=True)
        ignored = await ignored_at_start(files, self.git_dir) if self.start else set()
        if ignored:
            ignored -= self.apart.keys() | (await entries_at(GitDir(self.git_dir), self.start)).keys()
        return files.without(ignored)


async def compare_tree(
    tree: Path,
    files: TreeFiles,
    git_dir: GitDir,
    start: str,
    patch_file: Path,
    *,
    apart: Entries = MappingProxyType({}),
) -> Changes:
    """Compare the files of a tree with a commit or a recorded tree, and write the patch to `patch_file`.

    Files that are too large for git are compared by their hashes. `apart` are those that were too large at the start.
    """
    too_large = apart.keys() & set(files.files) | files.large
    async with _indexed(tree, git_dir, files.without(too_large).files) as index:
        large = files.large - apart.keys()
        entries = await entries_at(git_dir, start) if large else {}
        before = {path: entries[path] for path in large if path in entries}
        await _put_entries(git_dir, index, before)  # unchanged, so that git finds no difference in them
        answer = git_dir.new_file("answer")  # not in memory: it may be large
        try:
            await git_dir.git("diff-index", "--cached", *DIFF_OPTIONS, f"--output={answer}", start, index=index)
            in_patch = read_difference(answer, patch_file)
        finally:
            answer.unlink(missing_ok=True)
        recorded = await _write_tree(git_dir, index)
    then = {**apart, **before}
    now = await hash_files(tree, too_large, files.too_deep, start, known=then)
    not_in_patch = _in_order(compare_entries(then, now))
    return Changes(
        _in_order([*in_patch, *not_in_patch]),
        patch_file,
        left_out_of_patch=tuple(change.path for change in not_in_patch),
        recorded=StoredTree(git_dir.path, recorded),
    )


def _in_order(changes: Iterable[FileChange]) -> tuple[FileChange, ...]:
    return tuple(sorted(changes, key=lambda change: os.fsencode(change.path)))


@asynccontextmanager
async def _indexed(tree: Path, git_dir: GitDir, paths: Collection[bytes]) -> AsyncIterator[Path]:
    """Make an index of all files, not only of those whose times have changed: programs can set times."""
    index = git_dir.new_file("index")
    try:
        await _update_index(tree, git_dir, index, "--add", "--remove", paths=paths)
        yield index
    finally:
        index.unlink(missing_ok=True)


async def _update_index(tree: Path, git_dir: GitDir, index: Path, *options: str, paths: Collection[bytes]) -> None:
    if paths:
        names = b"".join(path + b"\0" for path in paths)
        await git_dir.git("update-index", *options, "-z", "--stdin", tree=tree, index=index, stdin=names)


async def _put_entries(git_dir: GitDir, index: Path, entries: Entries) -> None:
    """Put entries into an index as they are, whatever the files."""
    if entries:
        lines = (f"{entry.mode} {entry.id} 0\t".encode() + path + b"\0" for path, entry in entries.items())
        await git_dir.git("update-index", "-z", "--index-info", index=index, stdin=b"".join(lines))


async def _write_tree(git_dir: GitDir, index: Path) -> str:
    return (await git_dir.git("write-tree", index=index)).decode().strip()


class _Stamp(NamedTuple):
    """Changes whenever a file does: programs cannot set `ctime`."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def in_git(self) -> tuple[int, ...]:
        """What git compares: times in seconds."""
        return self.mode, self.size, self.inode, self.mtime_ns // 10**9, self.ctime_ns // 10**9


class TreeRecorder:
    """Records one directory of a user's working tree in an index of its own.

    Files that existed at the start count, whatever the ignore rules say. New files count unless the present rules
    ignore them, or they are in the cache of a tool. Anything called `.git`, at any level, is left out, as are
    unreadable files and large ones. Only files that have changed since the last time are read.
    """

    def __init__(self, top: Path, prefix: bytes, git_dir: GitDir, skip: Collection[bytes]) -> None:
        """`top` is that of the working tree, `prefix` the path of the directory in it, with a slash at the end."""
        self._top, self._prefix, self._git_dir = top, prefix, git_dir
        self._tree = Path(os.fsdecode(os.fsencode(top) + b"/" + prefix))
        self._skip = skip
        self._index = git_dir.path / "recorded.index"
        self._root: str | None = None
        self._stamps: Mapping[bytes, _Stamp] = {}
        self._uncertain: set[bytes] = set()
        """Files that must be read again."""
        self._always: set[bytes] = set()
        self._reported: set[bytes] = set()
        self.entries: dict[bytes, Entry] = {}
        self.permissions: dict[bytes, int] = {}
        """The permissions of all files except links."""
        self.left_out: set[bytes] = set()
        """Files that are too large or not readable."""

    def always_count(self, paths: Iterable[bytes]) -> None:
        """Record these files even if they are ignored."""
        self._always.update(paths)

    async def record(self) -> str:
        """Store the present state of the tree, and return the id of its tree object."""
        started = time.time_ns()
        stamps = await self._list()
        if self._root is None or self._uncertain or stamps != self._stamps:
            try:
                self._root = await self._update(stamps, started)
            except BaseException:
                self.forget()
                raise
        return self._root

    def forget(self) -> None:
        """Read and store everything again the next time: the objects may be gone."""
        self._index.unlink(missing_ok=True)
        self._root, self._stamps, self._uncertain, self.entries = None, {}, set(), {}

    def newly_left_out(self) -> str | None:
        """Describe what was left out and not described before."""
        new, self._reported = self.left_out - self._reported, set(self.left_out)
        return f"not in the checkpoint, because too large or not readable: {list_paths(new)}" if new else None

    async def _list(self) -> dict[bytes, _Stamp]:
        paths = {path for path in await self._not_ignored() if path.partition(b"/")[0] not in self._skip}
        return await asyncio.to_thread(self._stamp_all, paths)

    async def _not_ignored(self) -> list[bytes]:
        """List the files that the present rules do not ignore, relative to the directory.

        git names a repository inside, and not its files: those are listed separately.
        """
        inside = [f":(literal){os.fsdecode(self._prefix)}"] if self._prefix else []
        paths = await self._ls_files(self._top, *inside)
        repositories = [path for path in paths if path.endswith(b"/")]
        nested: list[bytes] = []
        while repositories:
            above = repositories.pop()
            for path in await self._ls_files(self._top / os.fsdecode(above)):
                (repositories if path.endswith(b"/") else nested).append(above + path)
        if nested:  # the rules above it apply, too
            nested = list(
                set(nested) - await ignored_by_rules(self._top, nested, self._git_dir.path, self._git_dir.settings)
            )
        return [path[len(self._prefix) :] for path in (*paths, *nested) if not path.endswith(b"/")]

    async def _ls_files(self, tree: Path, *pathspecs: str) -> list[bytes]:
        output = await self._git_dir.git(*_LIST, "--", *pathspecs, tree=tree, index=self._git_dir.path / "no.index")
        return output.split(b"\0")[:-1]

    def _stamp_all(self, paths: set[bytes]) -> dict[bytes, _Stamp]:
        top = os.fsencode(self._top) + b"/" + self._prefix
        stamps: dict[bytes, _Stamp] = {}
        for path in paths | self._always:
            try:
                info = os.lstat(top + path)
            except (OSError, ValueError):  # removed, or too deep
                continue
            if not stat.S_ISREG(info.st_mode) and not stat.S_ISLNK(info.st_mode):
                continue
            if path in paths or not _is_behind_link(top, path):
                stamps[path] = _stamp(info)
        return stamps

    async def _update(self, stamps: Mapping[bytes, _Stamp], started: int) -> str:
        before = self._stamps
        changed = {path for path, stamp in stamps.items() if before.get(path) != stamp}
        changed |= self._uncertain & stamps.keys()
        self.left_out = (self.left_out & stamps.keys()) - changed
        self.left_out |= {path for path in changed if self._cannot_be_read(path, stamps[path])}
        # What git could take for unchanged is removed from the index first.
        unseen = {path for path in changed if path not in before or before[path].in_git == stamps[path].in_git}
        stale = [path for path in self.entries if path not in stamps or path in unseen or path in self.left_out]
        index = (self._tree, self._git_dir, self._index)
        await _update_index(*index, "--force-remove", paths=stale)
        await _update_index(*index, "--add", "--remove", "--replace", paths=changed - self.left_out)
        root = await _write_tree(self._git_dir, self._index)
        await self._read_entries(root)
        self.permissions = {
            path: stamps[path].mode & PERMISSIONS for path, entry in self.entries.items() if entry.mode != LINK
        }
        certain = started - _TICK_NS
        self._uncertain = {path for path, stamp in stamps.items() if max(stamp.mtime_ns, stamp.ctime_ns) >= certain}
        self._stamps = stamps
        return root

    async def _read_entries(self, root: str) -> None:
        """Update `entries` with what differs from the last tree."""
        if self._root is None:
            self.entries = await entries_at(self._git_dir, root)
            return
        options = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev")
        fields = (await self._git_dir.git("diff-tree", *options, self._root, root)).split(b"\0")
        entries = dict(self.entries)
        for change, path in zip(fields[:-1:2], fields[1::2], strict=True):
            _, mode, _, name, kind = change.decode().split(" ")
            if kind == "D":
                del entries[path]
            else:
                entries[path] = Entry(mode, name)
        self.entries = entries

    def _cannot_be_read(self, path: bytes, stamp: _Stamp) -> bool:
        if not stat.S_ISREG(stamp.mode):
            return False
        return stamp.size > MAX_FILE_BYTES or not os.access(os.fsencode(self._tree) + b"/" + path, os.R_OK)


def _stamp(info: os.stat_result) -> _Stamp:
    return _Stamp(info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)


def _is_behind_link(top: bytes, path: bytes) -> bool:
    directory = os.path.dirname(top + path)  # noqa: PTH120 - bytes
    return os.path.realpath(directory) != directory.rstrip(b"/")


async def restore_files(
    tree: Path, wanted: Mapping[bytes, Entry | None], git_dir: GitDir, permissions: Mapping[bytes, int]
) -> None:
    """Make files of a tree as recorded; None: the file should not exist.

    No link is followed. Raises YouBenchaError before anything is changed, if something that is not in `wanted` is in
    the way, or if a content is missing.
    """
    files = {path: entry for path, entry in wanted.items() if entry is not None}
    await asyncio.to_thread(_check_way, tree, wanted)
    await _check_contents(files, git_dir)
    try:
        await asyncio.to_thread(_remove_files, tree, [path for path, entry in wanted.items() if entry is None])
        await _write_files(tree, files, git_dir)
        for path in permissions.keys() & files.keys():
            os.chmod(os.fsencode(tree) + b"/" + path, permissions[path])  # noqa: PTH101 - bytes
    except (OSError, GitFailed) as error:
        raise YouBenchaError(
            "RESTORE_FAILED",
            f"The files could not be restored: {getattr(error, 'strerror', None) or error}",
            hint="Correct the permissions or free some space, then restore again. Nothing is lost: a checkpoint has the"
            " files as they were before.",
        ) from error


async def _check_contents(files: Mapping[bytes, Entry], git_dir: GitDir) -> None:
    ids = b"".join(entry.id.encode() + b"\n" for entry in files.values())
    output = await git_dir.git("cat-file", "--batch-check=%(objecttype)", stdin=ids)
    for path, kind in zip(files, output.splitlines(), strict=True):
        if kind != b"blob":
            raise YouBenchaError(
                "CHECKPOINT_DAMAGED",
                f"The content of {format_path(path)} is no longer in the repository.",
                hint="Nothing was changed. `git fsck` shows what is missing; restore another checkpoint.",
            )


def _check_way(tree: Path, wanted: Mapping[bytes, Entry | None]) -> None:
    """Raise if a file that is to be kept is where a directory must be, or the other way round."""
    top = os.fsencode(tree) + b"/"
    for path in (path for path, entry in wanted.items() if entry is not None):
        parts = path.split(b"/")
        for depth in range(1, len(parts)):
            above = b"/".join(parts[:depth])
            if above in wanted:  # it is removed first
                break
            if os.path.lexists(top + above) and not is_real_directory(top + above):
                raise _in_the_way(above, path)
        else:
            for entry in walk(top + path) if is_real_directory(top + path) else ():
                inside = entry.path[len(top) :]
                if not is_directory(entry) and inside not in wanted:
                    raise _in_the_way(inside, path)


def _in_the_way(path: bytes, of: bytes) -> YouBenchaError:
    return YouBenchaError(
        "RESTORE_BLOCKED",
        f"{format_path(path)} is in the way of {format_path(of)}.",
        hint="Nothing was changed. Move it, then try again.",
    )


def _remove_files(tree: Path, paths: Iterable[bytes]) -> None:
    """Remove files, and directories that are empty then."""
    top = os.fsencode(tree) + b"/"
    for path in sorted(paths, reverse=True):
        if _is_behind_link(top, path) or not os.path.lexists(top + path):
            continue
        (tree / os.fsdecode(path)).unlink()
        with suppress(OSError):  # it is not empty
            for directory in (tree / os.fsdecode(path)).parents:
                if directory == tree:
                    break
                directory.rmdir()


async def _write_files(tree: Path, files: Mapping[bytes, Entry], git_dir: GitDir) -> None:
    if not files:
        return
    index = git_dir.new_file("index")
    try:
        await _put_entries(git_dir, index, files)
        await git_dir.git("checkout-index", "--all", "--force", tree=tree, index=index)
    finally:
        index.unlink(missing_ok=True)
