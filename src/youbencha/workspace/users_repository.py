"""Read a user's repository with a git directory of our own, in which an agent has written nothing.

Its configuration is ours, its refs are links to those of the repository, and the repository's objects are an additional
store. So no hook, filter or other program that the repository names is run, and a broken configuration does no harm.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Self
from weakref import finalize

from youbencha.errors import YouBenchaError
from youbencha.files import read_file, read_nofollow
from youbencha.workspace.diff import Entry
from youbencha.workspace.git import GitFailed, git, users_settings
from youbencha.workspace.git_dir import is_ref_name, make_git_dir
from youbencha.workspace.run_dir import make_private
from youbencha.workspace.snapshot import entries_at
from youbencha.workspace.store import common_dir
from youbencha.workspace.trees import remove_tree
from youbencha.workspace.working_tree import Location, locate

_SMALL, _LARGEST_CONFIG = 4096, 1 << 20
_ID_LENGTHS = {"sha1": 40, "sha256": 64}


def located(directory: Path) -> Location:
    """Where the repository of a directory is. Raises YouBenchaError if there is none."""
    location = locate(Path(os.path.realpath(directory)))
    if location is None:
        raise YouBenchaError(
            "REPO_NOT_FOUND",
            f"{directory} is not in a git repository, which checkpoints and working trees need.",
            hint="Make it one (`git init`), or do without: `event_loop: {checkpoint_interval: 0}` in ralph.yml.",
        )
    return location


class UsersRepository:
    """The repository that a directory is in."""

    def __init__(self, location: Location, private: Path) -> None:
        self.top = location.top
        self.prefix = os.fsencode(location.prefix)
        """The path of the directory, with a slash at the end; empty for the top."""
        self.common = Path(os.path.realpath(common_dir(location.git_dir)))
        """With the objects and refs, which linked working trees share."""
        self.objects = self.common / "objects"
        self.hash_name = _hash_name(self.common)
        self.git_dir = private / "reading.git"
        self._git_dir_of_tree = location.git_dir
        self.close = finalize(self, remove_tree, private)
        """Removes the private directory."""

    @classmethod
    def open(cls, directory: Path, name: str, cache_dir: Path | None = None) -> Self:
        """Open the repository of a directory. Raises YouBenchaError if there is none.

        The name of the private directory begins with `name`. It is in the cache, by default the user's.
        """
        repository = cls(located(directory), make_private(name, cache_dir))
        try:
            repository._make_git_dir()
        except BaseException:
            repository.close()
            raise
        return repository

    def _make_git_dir(self) -> None:
        if (self.common / "reftable").is_dir():
            raise YouBenchaError(
                "REPO_UNSUPPORTED",
                f"The repository {self.top} keeps its refs in reftables, which checkpoints do not support yet.",
                hint="Convert them to files with `git refs migrate`, or do without: `checkpoint_interval: 0`.",
            )
        make_git_dir(self.git_dir, "0" * _ID_LENGTHS[self.hash_name])
        (self.git_dir / "refs").rmdir()
        for name in ("refs", "packed-refs"):
            (self.git_dir / name).symlink_to(self.common / name)
        with suppress(OSError):
            rules = read_file(self.common / "info" / "exclude", _LARGEST_CONFIG)
            (self.git_dir / "info" / "exclude").write_bytes(rules)

    async def git(self, *arguments: str, stdin: bytes | None = None, index: Path | None = None) -> bytes:
        return await git(self.git_dir, *arguments, stdin=stdin, index=index, objects=self.objects)

    async def head(self) -> str | None:
        """The commit of HEAD, which may be that of a linked working tree; None if there is no commit yet."""
        try:
            name = read_nofollow(self._git_dir_of_tree, "HEAD", _SMALL).decode().strip().removeprefix("ref: ")
            if name.startswith("-") or not is_ref_name(name):
                return None
            return (await self.git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")).decode().strip()
        except (OSError, ValueError, GitFailed):
            return None

    async def tracked(self, head: str | None) -> set[bytes]:
        """The files in the user's index and in HEAD, relative to the directory."""
        paths: set[bytes] = set(await self.entries_at(head)) if head else set()
        with suppress(GitFailed):  # an index of a kind that needs the repository's configuration
            paths.update((await self.git("ls-files", "-z", index=self._git_dir_of_tree / "index")).split(b"\0"))
        below = len(self.prefix)
        return {path[below:] for path in paths if path.startswith(self.prefix)} - {b""}

    async def entries_at(self, commit: str) -> dict[bytes, Entry]:
        return await entries_at(self.git_dir, commit, objects=self.objects)

    async def message(self, commit: str) -> str:
        return (await self.git("cat-file", "commit", commit)).decode("utf-8", "replace").partition("\n\n")[2]

    async def ids_in(self, commit: str) -> set[str]:
        """The ids of all files and directories of a commit."""
        output = await self.git("ls-tree", "-r", "-t", "-z", "--full-tree", commit)
        return {line.split(b"\t", 1)[0].rsplit(b" ", 1)[1].decode() for line in output.split(b"\0") if line}

    async def commits_among(self, ids: list[str]) -> set[str]:
        """Those that are commits, and exist."""
        asked = "".join(f"{each}\n" for each in ids).encode()
        about = (await self.git("cat-file", "--batch-check", stdin=asked)).decode().splitlines()
        return {each for each, line in zip(ids, about, strict=True) if line.startswith(f"{each} commit ")}

    async def ignore_settings(self) -> dict[str, str]:
        """The user's own ignore file, which is not that of the repository."""
        written = (await users_settings(self.git_dir, r"^core\.excludesfile$")).get("core.excludesfile")
        default = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "git" / "ignore"
        return {"core.excludesFile": os.path.expanduser(written or default)}  # noqa: PTH111 - there may be no home


def _hash_name(common: Path) -> str:
    try:
        config = read_nofollow(common, "config", _LARGEST_CONFIG).decode("utf-8", "replace")
    except OSError:
        return "sha1"
    return "sha256" if re.search(r"^\s*objectformat\s*=\s*sha256\b", config, re.IGNORECASE | re.MULTILINE) else "sha1"
