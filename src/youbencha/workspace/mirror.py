"""A copy of a remote repository on this machine, so that its second run needs next to nothing from the network.

`<cache>/mirrors/<name>-<hash of the address>/mirror.git` holds all branches and tags that were ever fetched. Nothing
is cleaned up in it, so what was fetched once stays. It appears in one move when it is whole, and one process at a
time writes to it; reading needs no lock. The address is not written into it, and so no password either.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.workspace.git import GitFailed
from youbencha.workspace.git_dir import make_git_dir
from youbencha.workspace.lock import lock_file
from youbencha.workspace.objects import commit_beginning, has_object, is_full_id, unknown_commit
from youbencha.workspace.refs import Refs, from_listing
from youbencha.workspace.remote import FETCH_S, ask_remote
from youbencha.workspace.removal import remove_tree
from youbencha.workspace.source import RemotePlace

_REFSPECS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_FETCH = ("fetch", "--quiet", "--no-tags", "--prune", "--no-write-fetch-head", "--no-recurse-submodules")
_LIST = ("ls-remote", "--symref")
_LISTED = ("HEAD", "refs/heads/*", "refs/tags/*")
_PARTIAL = ".partial-"
_Identity = tuple[int, int]
"""Tells one mirror from the next in the same place."""
_UNDER_WAY = ".fetching"
"""Exists while something is fetched. Found by the next who has the lock, it says that a fetch was killed."""


class Mirror:
    def __init__(self, place: RemotePlace, cache_dir: Path, progress: Callable[[str], None]) -> None:
        self.public_url = place.public_url
        self._place = place
        self._home = cache_dir.absolute() / "mirrors" / _directory_name(place)
        self._git_dir = self._home / "mirror.git"
        self._progress = progress
        self._refs: Refs | None = None
        self._known: _Identity | None = None
        """Which mirror we have read from."""

    @property
    def objects(self) -> Path:
        return self._git_dir / "objects"

    async def refs(self) -> Refs:
        """Asked for once: a run is about one state of the repository."""
        if self._refs is None:
            self._make_home()
            self._refs = from_listing(await ask_remote(self._place, self._home, *_LIST, after=_LISTED))
        return self._refs

    async def commit(self, written: str) -> str:
        found = await self._have(written)
        if found is None:
            await self.refs()
            await self._update(written)
            found = await self._have(written)
        if found is None:
            raise unknown_commit(written, self.public_url)
        self._known = _identity(self._git_dir)
        return found

    async def bring(self, object_id: str) -> str:
        return await self.commit(object_id)

    async def renew(self) -> bool:
        """Whoever comes second finds it done by the first."""
        async with self._locked():
            if _identity(self._git_dir) == self._known:
                self._progress(f"the mirror of {self.public_url} is damaged: fetching it anew")
                await self.refs()
                await self._build()
            self._known = _identity(self._git_dir)
        return True

    async def _have(self, written: str) -> str | None:
        if not self._git_dir.exists():
            return None
        try:
            return await commit_beginning(self._git_dir, written, self.public_url)
        except GitFailed:  # damaged: as if it were not there
            return None

    async def _update(self, wanted: str) -> None:
        async with self._locked():
            if await self._have(wanted):  # another fetched it while we waited
                return
            if not self._usable() or not await self._fetched():
                await self._build()
            elif wanted in await self._offered() and not await has_object(self._git_dir, wanted):
                await self._build()  # git says that it is here, but it is not
            if is_full_id(wanted) and not await has_object(self._git_dir, wanted):
                # On no branch; most servers give it all the same to who knows its name.
                await self._fetch(self._git_dir, f"+{wanted}:refs/youbencha/{wanted}", prune=False)

    async def _fetched(self) -> bool:
        """False if the mirror is not fit for it."""
        try:
            await self._fetch(self._git_dir, *_REFSPECS)
        except GitFailed:
            return False
        return True

    async def _offered(self) -> frozenset[str]:
        return frozenset((await self.refs()).ids.values())

    def _usable(self) -> bool:
        """Whether there is a mirror, of the same kind as the repository is now."""
        try:
            config = (self._git_dir / "config").read_text()
        except OSError:
            return False
        return ("sha256" in config) == (self._object_id_length() == 64)

    def _object_id_length(self) -> int:
        return next((len(value) for value in (self._refs.ids.values() if self._refs else ())), 40)

    async def _build(self) -> None:
        """Aside, then in one move. What was there before was in nobody's way until then."""
        partial = self._home / f"{_PARTIAL}{os.urandom(4).hex()}"
        try:
            make_git_dir(partial, "0" * self._object_id_length(), attributes=None)
            self._progress(f"fetching {self.public_url} into the cache")
            await self._fetch(partial, *_REFSPECS)
            if self._git_dir.exists():
                self._git_dir.rename(self._home / f"{_PARTIAL}{os.urandom(4).hex()}")
            partial.rename(self._git_dir)
        except GitFailed as failed:
            raise _not_writable(self._home, failed.reason) from failed
        finally:
            self._clear()

    async def _fetch(self, git_dir: Path, *refspecs: str, prune: bool = True) -> None:
        how = _FETCH if prune else tuple(option for option in _FETCH if option != "--prune")
        mark = git_dir / _UNDER_WAY
        mark.touch()
        await ask_remote(self._place, git_dir, *how, timeout_s=FETCH_S, after=refspecs)
        mark.unlink()

    def _clear(self) -> None:
        """What killed processes left. Only for who holds the lock."""
        for path in self._home.glob(f"{_PARTIAL}*"):
            remove_tree(path)
        if (self._git_dir / _UNDER_WAY).exists():
            for pattern in ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*"):
                for path in self._git_dir.glob(pattern):
                    path.unlink(missing_ok=True)
            (self._git_dir / _UNDER_WAY).unlink(missing_ok=True)

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        self._make_home()
        try:
            with lock_file(self._home / ".lock") as lock:
                await lock.wait(f"fetch of {self.public_url}", self._progress)
                self._clear()
                yield
        except OSError as error:
            raise _not_writable(self._home, error.strerror or str(error)) from error

    def _make_home(self) -> None:
        try:
            self._home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _not_writable(self._home, error.strerror or str(error)) from error


def _not_writable(home: Path, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "CACHE_NOT_WRITABLE",
        f"Cannot keep a mirror of the repository in {home}: {reason}",
        hint="Make room there, or set `cache_dir` in the settings to a directory that you may write to.",
    )


def _directory_name(place: RemotePlace) -> str:
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", place.key.rpartition("/")[2])[-40:].strip("-.") or "repository"
    return f"{readable}-{hashlib.sha256(place.key.encode()).hexdigest()[:16]}"


def _identity(git_dir: Path) -> _Identity | None:
    try:
        about = (git_dir / "config").stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns
