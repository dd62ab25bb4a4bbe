"""A repository to start from: which commit, and everything that is made from it."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.workspace.checkout import check_out, submodules_in, uses_large_files, write_tree
from youbencha.workspace.git import GitFailed
from youbencha.workspace.git_dir import make_git_dir, probe
from youbencha.workspace.head import is_ref_name
from youbencha.workspace.ignored import NAME, keep_rules
from youbencha.workspace.layout import writing_to
from youbencha.workspace.local import LocalStore
from youbencha.workspace.refs import RefKind, short_name
from youbencha.workspace.removal import remove_tree
from youbencha.workspace.snapshot import Snapshot
from youbencha.workspace.source import RemotePlace, read_source
from youbencha.workspace.store import Store
from youbencha.workspace.walk import files_in

_NO_BRANCH = "main"


def _silent(_: str) -> None:
    pass


async def open_repository(
    source: str,
    *,
    base: Path,
    cache_dir: Path | None = None,
    branch: str | None = None,
    commit: str | None = None,
    progress: Callable[[str], None] = _silent,
) -> Repository:
    """Find a repository (https, ssh, file URL, or a path from `base`) and the commit to start from.

    Without `branch` (which may also be a tag) and `commit`: the default branch. With both, the commit is taken, and
    the branch is only its name. A full commit that was fetched before needs no network. What is not committed in a
    repository on this machine is no part of it.
    """
    place = read_source(source, base)
    store: Store = _mirror(place, cache_dir, progress) if isinstance(place, RemotePlace) else LocalStore(place)
    name = short_name(branch) if branch is not None else None
    if commit is not None:
        return Repository(store, await store.commit(commit), name, progress)
    refs = await store.refs()
    found = await store.bring(refs.pick(name, "branch", store.public_url))
    return Repository(store, found, name or refs.default_branch, progress)


def _mirror(place: RemotePlace, cache_dir: Path | None, progress: Callable[[str], None]) -> Store:
    from youbencha.workspace.cache import default_cache_dir
    from youbencha.workspace.mirror import Mirror

    return Mirror(place, cache_dir or default_cache_dir(), progress)


class Repository:
    """One commit of a repository. Make one with `open_repository`."""

    def __init__(self, store: Store, commit: str, branch: str | None, progress: Callable[[str], None]) -> None:
        self._store = store
        self._progress = progress
        self.commit = commit
        """In full."""
        self.branch = branch
        """The branch or tag that was asked for, or the default one. None if only a commit was named."""

    @property
    def public_url(self) -> str:
        """Without credentials."""
        return self._store.public_url

    async def check_out(self, directory: Path) -> None:
        """As a git repository that holds this one commit and nothing else. What was in that place is removed.

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
        """How a directory is right after `check_out`, before anything else has touched it.

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
        """The files of a commit that `resolve` told, and nothing of git. What was in that place is removed."""

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
