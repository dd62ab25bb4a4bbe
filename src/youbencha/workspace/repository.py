"""A repository to start from: which commit, and everything that is made from it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.progress import StepProgress
from youbencha.workspace.git import GitFailed, git
from youbencha.workspace.git_dir import is_ref_name, make_agents_git_dir, make_git_dir, probe, scratch_git_dir
from youbencha.workspace.run_dir import not_writable, writing_to
from youbencha.workspace.snapshot import Snapshot
from youbencha.workspace.source import RefKind, Refs, RemoteUrl, read_source, short_name
from youbencha.workspace.store import LocalStore, Store
from youbencha.workspace.trees import remove_tree
from youbencha.workspace.walk import NAME, files_in, keep_rules

_NO_BRANCH = "main"

_SUBMODULE = 0o160000

_ENOUGH = 65536

_REFUSED = r"(?i)invalid path|malformed"

_NO_ROOM = (
    r"(?i)unable to (write|create|append)|cannot (create|write|mkdir)|could not write|write error"
    r"|No space left|File too large|Disk quota|Read-only file system"
)


def _silent(_step: str, _detail: str = "") -> None:
    pass


async def open_repository(
    source: str,
    *,
    base: Path,
    cache_dir: Path | None = None,
    branch: str | None = None,
    commit: str | None = None,
    refs: Refs | None = None,
    progress: StepProgress = _silent,
) -> Repository:
    """Find a repository (https, ssh, file URL, or a path from `base`) and the commit to start from.

    Without `branch` (which may also be a tag) and `commit`: the default branch. With both, the commit is taken, and
    the branch is only its name. A full commit that was fetched before needs no network. What is not committed in a
    repository on this machine is left out. `refs` are the repository's, if they are known: then it is not asked.
    """
    place = read_source(source, base)
    store: Store = _mirror(place, cache_dir, progress) if isinstance(place, RemoteUrl) else LocalStore(place)
    store.known_refs = refs
    name = short_name(branch) if branch is not None else None
    if commit is not None:
        return Repository(store, await store.commit(commit), name, progress)
    known = await store.refs()
    found = await store.bring(known.pick(name, "branch", store.public_url))
    return Repository(store, found, name or known.default_branch, progress)


def _mirror(place: RemoteUrl, cache_dir: Path | None, progress: StepProgress) -> Store:
    from youbencha.user_dirs import default_cache_dir
    from youbencha.workspace.store import Mirror

    return Mirror(place, cache_dir or default_cache_dir(), progress)


class Repository:
    """One commit of a repository. Make one with `open_repository`."""

    def __init__(self, store: Store, commit: str, branch: str | None, progress: StepProgress) -> None:
        self._store = store
        self._progress = progress
        self.commit = commit
        """In full."""
        self.branch = branch
        """The branch or tag that was asked for, or the default one. None if only a commit was named."""

    @property
    def public_url(self) -> str:
        """The address without credentials."""
        return self._store.public_url

    @property
    def refs(self) -> Refs | None:
        """Its branches and tags, as they were found; None if nothing asked for them."""
        return self._store.known_refs

    async def check_out(self, directory: Path) -> None:
        """Make a git repository of this one commit and nothing else. What was in that place is removed.

        It has one branch, so that `git status`, `log` and `commit` work there; no remotes, no tags, no history.
        """
        directory = directory.absolute()

        async def make() -> None:
            await check_out(self._store.objects, self.commit, self._local_branch(), directory)

        await self._again_if_damaged(make, self.commit, directory)
        if submodules := await submodules_in(directory):
            self._progress(f"submodules are not fetched; these directories are empty: {', '.join(submodules)}")
        if uses_large_files(directory):
            self._progress("files that the repository keeps in Git LFS are not fetched; pointers are in their place")

    async def snapshot(self, directory: Path, git_dir: Path, *, ignored: bool = False) -> Snapshot:
        """Take a snapshot of a directory right after `check_out`, before anything else has touched it.

        As a rule that needs no look at the files: it is the commit. Where it is not (a file system that keeps no
        links, a tree with submodules, which stay empty), it is taken.
        """
        directory, git_dir = directory.absolute(), git_dir.absolute()
        with writing_to(git_dir):
            make_git_dir(git_dir, self.commit)
            for file in (directory / ".git" / "objects" / "pack").iterdir():
                shutil.copyfile(file, git_dir / "objects" / "pack" / file.name)
        if await submodules_in(directory) or not probe(git_dir).exact:
            start = Snapshot(directory, git_dir, self.commit, self.commit, ignored=True)
            return (await start.retake())._replace(ignored=ignored)
        if NAME in (directory / ".git" / "index").read_bytes():
            keep_rules(directory, files_in(directory).files, git_dir)
        return Snapshot(directory, git_dir, self.commit, self.commit, ignored)

    async def resolve(self, name: str, source: RefKind = "branch") -> str:
        """The commit that another branch, tag or commit is at the moment, in full. It is at hand afterwards."""
        if source == "commit":
            return await self._store.commit(name)
        return await self._store.bring((await self._store.refs()).pick(name, source, self.public_url))

    async def write_tree(self, commit: str, directory: Path) -> None:
        """Write the files of a commit, without git's own. What was in that place is removed."""

        async def make() -> None:
            await write_tree(self._store.objects, commit, directory.absolute())

        await self._again_if_damaged(make, commit, directory)

    def _local_branch(self) -> str:
        return self.branch if self.branch is not None and is_ref_name(self.branch) else _NO_BRANCH

    async def _again_if_damaged(self, make: Callable[[], Awaitable[None]], commit: str, directory: Path) -> None:
        try:
            with writing_to(directory):
                await make()
        except GitFailed as failed:
            if not await self._store.renew():
                raise YouBenchaError(
                    "REPO_DAMAGED",
                    f"The files of {commit[:12]} cannot be read from {self.public_url}: {failed.reason}",
                    hint="Some objects are missing there: `git fsck` says which. A partial clone cannot be used.",
                ) from failed
            remove_tree(directory)
            with writing_to(directory):
                await make()


async def check_out(objects: Path, commit: str, branch: str, directory: Path) -> None:
    """Make a repository of that one commit in `directory`: no remotes, no other refs, no objects but its own.

    Nothing in it tells an agent more, or could run. Files are the very bytes that the repository holds: no filter, no
    conversion, no large file from elsewhere; directories of submodules stay empty. What was there before is removed.
    """
    _make_fresh(directory)
    agents = directory / ".git"
    keeps = make_agents_git_dir(agents, commit, branch)
    index = agents / "index"
    links = {} if keeps.links else {"core.symlinks": "false"}
    with scratch_git_dir(directory, commit) as scratch:
        writing = git(
            scratch, "read-tree", "-u", "--reset", commit, tree=directory, index=index, objects=objects, settings=links
        )
        # Without its parents (`--shallow`), so that no object of theirs comes along; and deltas only as they are.
        packing = git(
            scratch,
            *("pack-objects", "--revs", "--quiet", "--window=0", "--compression=1", "--delta-base-offset"),
            str(agents / "objects" / "pack" / "pack"),
            objects=objects,
            stdin=f"--shallow {commit}\n{commit}\n".encode(),
        )
        try:
            await _both(writing, packing)
        except GitFailed as failed:
            raise _checkout_error(failed, commit, directory) from failed


async def write_tree(objects: Path, commit: str, directory: Path) -> None:
    """The files alone, in place of whatever was there."""
    _make_fresh(directory)
    with scratch_git_dir(directory, commit) as scratch:
        try:
            how = ("read-tree", "-u", "--reset", commit)
            await git(scratch, *how, tree=directory, index=scratch / "index", objects=objects)
        except GitFailed as failed:
            raise _checkout_error(failed, commit, directory) from failed


def _make_fresh(directory: Path) -> None:
    """Never into something that is there, least of all by way of a link."""
    if os.path.lexists(directory):
        remove_tree(directory)
    directory.mkdir(parents=True)


async def _both(first: Coroutine[Any, Any, bytes], second: Coroutine[Any, Any, bytes]) -> None:
    """At the same time. If one fails or we are cancelled, the other is ended too."""
    tasks = [asyncio.ensure_future(first), asyncio.ensure_future(second)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _checkout_error(failed: GitFailed, commit: str, directory: Path) -> YouBenchaError:
    """Describe why git cannot write: the place, or names that it refuses, such as `.git/config`."""
    if re.search(_NO_ROOM, failed.reason):
        return not_writable(directory, failed.reason)
    if re.search(_REFUSED, failed.reason):
        return YouBenchaError(
            "REPO_HOSTILE",
            f"git refuses to write the files of commit {commit[:12]}: {failed.reason}",
            hint="Its tree holds names that would be dangerous on this machine.",
        )
    return failed


async def submodules_in(directory: Path) -> list[str]:
    """Return the paths of submodules, right after `check_out`. git is only asked where there may be one."""
    agents = directory / ".git"
    index = agents / "index"
    if not index.exists() or _SUBMODULE.to_bytes(4, "big") not in index.read_bytes():
        return []
    listed = await git(agents, "ls-files", "--stage", "-z", tree=directory)
    entries = (entry.partition(b"\t") for entry in listed.split(b"\0"))
    return [os.fsdecode(path) for about, _, path in entries if about.startswith(b"%o " % _SUBMODULE)]


def uses_large_files(directory: Path) -> bool:
    """Whether the repository keeps files elsewhere, so that only pointers to them are here."""
    try:
        with (directory / ".gitattributes").open("rb") as file:
            return b"filter=lfs" in file.read(_ENOUGH)
    except OSError:
        return False
