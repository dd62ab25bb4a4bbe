"""Open a repository at a commit, check it out, and write its trees and single files.

For a validation, git applies an agent's patch to an index, where it refuses `.git` and paths outside the tree; and it
replaces links that are in the way of a file, and follows none. What could be recorded can be written: names that are
dangerous only on other systems (`git~1`) are not refused then.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.events import StepProgress
from youbencha.files import open_nofollow
from youbencha.text import did_you_mean, first_few
from youbencha.user_dirs import default_cache_dir
from youbencha.workspace.changes import DIFF_OPTIONS, Entry, FileChange, StoredTree, entries_at, read_difference
from youbencha.workspace.git import (
    ANY_NAME,
    GitDir,
    GitFailed,
    git,
    is_ref_name,
    make_agents_git_dir,
    make_git_dir,
    probe,
    scratch_git_dir,
)
from youbencha.workspace.listing import GITIGNORE, list_files, save_gitignores
from youbencha.workspace.mirror import LocalStore, Mirror, Store
from youbencha.workspace.recording import Snapshot
from youbencha.workspace.run_dir import not_writable, writing_to
from youbencha.workspace.source import RefKind, Refs, RemoteUrl, read_source, short_name
from youbencha.workspace.trees import remove_tree, walk_accessible

_NO_BRANCH = "main"
_SUBMODULE = 0o160000
_MAX_ATTRIBUTES_BYTES = 65536
COMMIT_ID = re.compile(r"[0-9a-fA-F]{4,64}")
_REFUSED = r"(?i)invalid path|malformed"
_PACK = ("pack-objects", "--revs", "--quiet", "--window=0", "--compression=1", "--delta-base-offset")
"""Existing deltas are reused, and no new ones are computed."""

_NO_ROOM = (
    r"(?i)unable to (write|create|append)|cannot (create|write|mkdir)|could not write|write error"
    r"|No space left|File too large|Disk quota|Read-only file system"
)


async def open_repository(
    source: str,
    *,
    base: Path,
    cache_dir: Path | None = None,
    branch: str | None = None,
    commit: str | None = None,
    refs: Refs | None = None,
    progress: StepProgress = lambda _step, _detail="", /: None,
) -> Repository:
    """Find a repository (https, ssh, file URL, or a path from `base`) and the commit to start from.

    Without `branch` (which may also be a tag) and `commit`: the default branch. With both, the commit is used, and the
    branch is only its name. A full commit that was fetched before needs no network. Uncommitted changes in a local
    repository are left out. If `refs` are given, the repository is not asked for them.
    """
    origin = read_source(source, base)
    if isinstance(origin, RemoteUrl):
        store: Store = Mirror(origin, cache_dir or default_cache_dir(), progress)
    else:
        store = LocalStore(origin)
    store.known_refs = refs
    name = short_name(branch) if branch is not None else None
    if commit is not None:
        return Repository(store, await store.fetch_commit(commit), name, progress)
    known = await store.refs()
    resolved = await store.fetch_commit(known.resolve(name, "branch", store.public_url))
    return Repository(store, resolved, name or known.default_branch, progress)


class _TreeEntry(NamedTuple):
    is_file: bool
    """False for a directory, a link or a submodule."""
    object_id: str
    size: int


class Repository:
    """A commit of a repository, made by `open_repository`."""

    def __init__(self, store: Store, commit: str, branch: str | None, progress: StepProgress) -> None:
        self._store = store
        self._progress = progress
        self.commit = commit
        """The full commit id."""
        self.branch = branch
        """The requested branch or tag, or the default one. None if only a commit was named."""

    @property
    def public_url(self) -> str:
        """The address without credentials."""
        return self._store.public_url

    @property
    def refs(self) -> Refs | None:
        """The repository's branches and tags; None if they were not needed."""
        return self._store.known_refs

    async def check_out(self, directory: Path) -> None:
        """Make a git repository with only this commit, in place of whatever is in `directory`.

        It has one branch, so that `git status`, `log` and `commit` work; no remotes, no tags, no history.
        """
        directory = directory.absolute()

        async def make() -> None:
            branch = self.branch if self.branch is not None and is_ref_name(self.branch) else _NO_BRANCH
            await check_out(self._store.objects, self.commit, branch, directory)

        await self._again_if_damaged(make, self.commit, directory)
        if submodules := await submodules_in(directory):
            self._progress(f"submodules are not fetched; these directories are empty: {', '.join(submodules)}")
        if uses_large_files(directory):
            self._progress("files in Git LFS are not fetched; the checkout has pointers instead")

    async def snapshot(self, directory: Path, git_dir: Path) -> Snapshot:
        """Take a snapshot of a directory right after `check_out`, before anything in it is changed.

        Usually the snapshot is the commit, and no file has to be read. Otherwise (a file system without links, a tree
        with submodules, which stay empty), the files are read.
        """
        directory, git_dir = directory.absolute(), git_dir.absolute()
        with writing_to(git_dir):
            make_git_dir(git_dir, self.commit)
            for file in (directory / ".git" / "objects" / "pack").iterdir():
                shutil.copyfile(file, git_dir / "objects" / "pack" / file.name)
        start = Snapshot(directory, git_dir, self.commit, self.commit)
        if await submodules_in(directory) or not probe(git_dir).exact:
            return await start.retake()
        if GITIGNORE in (directory / ".git" / "index").read_bytes():
            save_gitignores(directory, list_files(directory).files, git_dir)
        return start

    async def resolve(self, name: str, source: RefKind = "branch") -> str:
        """Return the full id of the commit of another branch, tag or commit, and fetch it if needed."""
        if source == "commit":
            return await self._store.fetch_commit(name)
        return await self._store.fetch_commit((await self._store.refs()).resolve(name, source, self.public_url))

    async def read_file(self, name: str, limit: int) -> bytes:
        """Return the content of a file of the commit, if it is no larger than `limit`. Raises YouBenchaError."""
        path = PurePosixPath(name)
        entries = await self._entries_beside(path)
        entry = entries.get(str(path))
        if entry is None or not entry.is_file:
            files = [file for file, entry in entries.items() if entry.is_file]
            raise YouBenchaError(
                "REPO_FILE_UNKNOWN",
                f"The commit {self.commit[:12]} of {self.public_url} has no file {path}.",
                hint=did_you_mean(str(path), files) or (f"Beside it are: {first_few(files)}." if files else None),
            )
        if entry.size > limit:
            message = f"{path} in the commit {self.commit[:12]} of {self.public_url} has more than {limit:,} bytes."
            raise YouBenchaError("REPO_FILE_TOO_LARGE", message)
        return await git(self._store.git_dir, "cat-file", "blob", entry.object_id)

    async def paths(self) -> list[str]:
        """List the paths of all files of the commit."""
        listed = await git(self._store.git_dir, "ls-tree", "-r", "-z", "--name-only", "--full-tree", self.commit)
        return os.fsdecode(listed).split("\0")[:-1]

    async def _entries_beside(self, path: PurePosixPath) -> dict[str, _TreeEntry]:
        """List what is in the directory of a path, by full path."""
        if path.is_absolute() or ".." in path.parts:
            return {}
        directory = () if path.parent == PurePosixPath() else ("--", f"{path.parent}/")
        listed = await git(self._store.git_dir, "ls-tree", "-z", "-l", "--full-tree", self.commit, *directory)
        entries: dict[str, _TreeEntry] = {}
        for line in os.fsdecode(listed).split("\0")[:-1]:
            entry, _, name = line.partition("\t")
            mode, _, object_id, size = entry.split()
            entries[name] = _TreeEntry(mode.startswith("100"), object_id, int(size) if size.isdecimal() else 0)
        return entries

    async def write_tree(self, commit: str, directory: Path) -> None:
        """Write the files of a commit, without `.git`, in place of whatever is in `directory`."""

        async def make() -> None:
            await write_tree(self._store.objects, commit, directory.absolute())

        await self._again_if_damaged(make, commit, directory)

    async def find(self, name: str) -> str:
        """Return the full id of a branch or tag, otherwise of a commit, and fetch it if needed."""
        try:
            return await self.resolve(name)
        except YouBenchaError as error:
            if error.code != "REPO_BRANCH_UNKNOWN" or not COMMIT_ID.fullmatch(name):
                raise
        return await self.resolve(name, "commit")

    async def pack(self, commits: Sequence[str], near: Path) -> bytes:
        """Pack commits, without their history, for another machine (`unpack_commits`).

        A temporary directory is made beside `near`.
        """
        with scratch_git_dir(near, commits[0], self._store.objects) as scratch:
            wanted = "".join(f"--shallow {commit}\n" for commit in commits) + "\n".join(commits)
            return await scratch.git(*_PACK, "--stdout", stdin=wanted.encode())

    async def files_at(self, commit: str, near: Path) -> dict[str, Entry]:
        """Return all files of a commit, by their paths. A temporary directory is made beside `near`."""
        with scratch_git_dir(near, commit, self._store.objects) as scratch:
            entries = await entries_at(scratch, commit)
        return {os.fsdecode(path): entry for path, entry in entries.items()}

    async def write_patched(self, patch: Path | None, directory: Path) -> tuple[FileChange, ...]:
        """Write the files of this commit, with a patch applied if there is one, in place of what is in `directory`.

        Returns what the patch changed. Raises `PATCH_NOT_APPLICABLE`.
        """
        directory = directory.absolute()
        with writing_to(directory):
            _make_fresh(directory)
            with scratch_git_dir(directory, self.commit, self._store.objects, ANY_NAME) as scratch:
                index = scratch.path / "index"
                await scratch.git("read-tree", self.commit, index=index)
                if patch is not None and patch.stat().st_size:
                    try:
                        arguments = ("apply", "--cached", "--whitespace=nowarn", str(patch.absolute()))
                        await scratch.git(*arguments, index=index)
                    except GitFailed as failed:
                        raise _not_applicable(patch, self.commit, failed.reason) from failed
                await _write_index(scratch, index, directory)
                return await _difference(scratch, "diff-index", "--cached", self.commit, index=index)

    async def write_files(self, commit: str, paths: Collection[str], directory: Path) -> None:
        """Write some files of a commit into a tree that an agent may have changed, in place of what is there.

        No program may run in the tree meanwhile.
        """
        if not paths:
            return
        directory = directory.absolute()
        for _ in walk_accessible(directory):  # an agent's programs may have left directories without permissions
            pass
        with scratch_git_dir(directory, commit, self._store.objects) as scratch:
            index = scratch.path / "index"
            await scratch.git("read-tree", commit, index=index)
            names = b"".join(os.fsencode(path) + b"\0" for path in paths)
            await scratch.git("checkout-index", "--force", "-z", "--stdin", tree=directory, index=index, stdin=names)

    async def difference(self, commit: str, patch_file: Path) -> tuple[FileChange, ...]:
        """Return what another commit changes, and write the patch to `patch_file`."""
        patch_file = patch_file.absolute()
        with scratch_git_dir(patch_file, self.commit, self._store.objects) as scratch:
            return await _difference(scratch, "diff-tree", "-r", self.commit, commit, patch_file=patch_file)

    async def _again_if_damaged(self, make: Callable[[], Awaitable[None]], commit: str, directory: Path) -> None:
        try:
            with writing_to(directory):
                await make()
        except GitFailed as failed:
            if not await self._store.refetch():
                raise YouBenchaError(
                    "REPO_DAMAGED",
                    f"The files of {commit[:12]} cannot be read from {self.public_url}: {failed.reason}",
                    hint="Some objects are missing: `git fsck` lists them. A partial clone cannot be used.",
                ) from failed
            remove_tree(directory)
            with writing_to(directory):
                await make()


async def check_out(objects: Path, commit: str, branch: str, directory: Path) -> None:
    """Make a repository with only that commit in `directory`: no remotes, no other refs, no other objects.

    It contains no other information for an agent, and nothing that runs. Files have the bytes that are recorded in the
    repository: no filters, no conversion, no Git LFS; directories of submodules stay empty. Whatever was in
    `directory` is removed.
    """
    _make_fresh(directory)
    agents = directory / ".git"
    file_system = make_agents_git_dir(agents, commit, branch)
    index = agents / "index"
    links = {} if file_system.links else {"core.symlinks": "false"}
    with scratch_git_dir(directory, commit, objects, links) as scratch:
        writing = scratch.git("read-tree", "-u", "--reset", commit, tree=directory, index=index)
        wanted = f"--shallow {commit}\n{commit}\n"  # without the parents' objects
        packing = scratch.git(*_PACK, str(agents / "objects" / "pack" / "pack"), stdin=wanted.encode())
        try:
            await _both(writing, packing)
        except GitFailed as failed:
            raise _checkout_error(failed, commit, directory) from failed


async def write_tree(objects: Path, commit: str, directory: Path) -> None:
    """Write only the files of a commit, in place of whatever is in `directory`."""
    _make_fresh(directory)
    with scratch_git_dir(directory, commit, objects) as scratch:
        try:
            await scratch.git("read-tree", "-u", "--reset", commit, tree=directory, index=scratch.path / "index")
        except GitFailed as failed:
            raise _checkout_error(failed, commit, directory) from failed


async def write_recorded(recorded: StoredTree, directory: Path) -> None:
    """Write the files of a recorded tree. `directory` must not exist."""
    directory.mkdir()
    with scratch_git_dir(directory, recorded.id, recorded.git_dir / "objects", ANY_NAME) as scratch:
        index = scratch.path / "index"
        await scratch.git("read-tree", recorded.id, index=index)
        await _write_index(scratch, index, directory)


async def _write_index(scratch: GitDir, index: Path, directory: Path) -> None:
    await scratch.git("checkout-index", "--all", "--force", tree=directory, index=index)


async def _difference(
    scratch: GitDir, *arguments: str, index: Path | None = None, patch_file: Path | None = None
) -> tuple[FileChange, ...]:
    answer = scratch.path / "answer"
    command, *others = arguments
    await scratch.git(command, *DIFF_OPTIONS, f"--output={answer}", *others, index=index)
    return read_difference(answer, patch_file or scratch.path / "patch")


def pack_name(commits: Sequence[str]) -> str:
    """Name a repository with only these commits."""
    return hashlib.sha256("\n".join(commits).encode()).hexdigest()[:32]


async def unpack_commits(pack: bytes, commits: Sequence[str], git_dir: Path) -> None:
    """Make a bare repository with packed commits. HEAD is the first of them."""
    partial = git_dir.with_name(f".{git_dir.name}-{os.urandom(4).hex()}")
    try:
        make_git_dir(partial, commits[0])
        (partial / "shallow").write_text("".join(f"{commit}\n" for commit in commits))
        (partial / "packed-refs").write_text(f"{commits[0]} refs/heads/main\n")
        await git(partial, "index-pack", "--stdin", stdin=pack)
        try:
            partial.rename(git_dir)
        except OSError:  # another process was quicker
            if not git_dir.exists():
                raise
    finally:
        remove_tree(partial)


def _make_fresh(directory: Path) -> None:
    """Make an empty directory. An existing one, or a link, is removed."""
    if os.path.lexists(directory):
        remove_tree(directory)
    directory.mkdir(parents=True)


async def _both(first: Coroutine[Any, Any, bytes], second: Coroutine[Any, Any, bytes]) -> None:
    """Run both concurrently. If one fails or this is cancelled, the other is killed."""
    tasks = [asyncio.ensure_future(first), asyncio.ensure_future(second)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _checkout_error(failed: GitFailed, commit: str, directory: Path) -> YouBenchaError:
    """Describe why git cannot write: a problem of the disk, or names that it refuses, such as `.git/config`."""
    if re.search(_NO_ROOM, failed.reason):
        return not_writable(directory, failed.reason)
    if re.search(_REFUSED, failed.reason):
        return YouBenchaError(
            "REPO_HOSTILE",
            f"git refuses to write the files of commit {commit[:12]}: {failed.reason}",
            hint="Its tree contains file names that would be dangerous on this machine.",
        )
    return failed


async def submodules_in(directory: Path) -> list[str]:
    """Return the paths of submodules, right after `check_out`. git is only called if there may be one."""
    agents = directory / ".git"
    index = agents / "index"
    if not index.exists() or _SUBMODULE.to_bytes(4, "big") not in index.read_bytes():
        return []
    listed = await git(agents, "ls-files", "--stage", "-z", tree=directory)
    entries = (entry.partition(b"\t") for entry in listed.split(b"\0"))
    return [os.fsdecode(path) for entry, _, path in entries if entry.startswith(b"%o " % _SUBMODULE)]


def uses_large_files(directory: Path) -> bool:
    """Return whether the repository uses Git LFS."""
    try:
        with open_nofollow(directory, ".gitattributes") as file:
            return b"filter=lfs" in file.read(_MAX_ATTRIBUTES_BYTES)
    except OSError:
        return False


def _not_applicable(patch: Path, commit: str, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "PATCH_NOT_APPLICABLE",
        f"The patch {patch.name} cannot be applied to commit {commit[:12]}: {reason}",
        hint="Create it with `git diff --binary` against this commit; paths outside of the tree are refused.",
    )
