"""Lay files over a tree before an agent works in it, and take them away when it has ended; or take out files of it.

Paths of files that are laid belong to the harness: whatever is there at the end is removed, and a file that was there
before is put back. Paths of files that are taken out belong to the agent: they are put back only where it made nothing
of its own. Nothing else is touched, and no link is followed: the agent may have put one in place of any directory.
No program may run in the tree meanwhile, and its directories must be accessible.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.files import nofollow_directory
from youbencha.text import shown
from youbencha.workspace.git import GitFailed, git
from youbencha.workspace.git_dir import scratch_git_dir
from youbencha.workspace.given_files import GivenFile, given_file, invalid, not_writable
from youbencha.workspace.trees import remove_tree


class Overlay:
    """The files that were laid over one tree."""

    def __init__(self, tree: Path, kept: Path) -> None:
        """`kept` is a directory for the originals of files that are replaced, which an agent cannot change."""
        self._tree, self._kept = tree, kept
        self._originals: dict[str, GivenFile | str | None] = {}
        """Each path that was laid, and what was there before: a file, of which there is a copy, or a link's target."""
        self._made: list[Path] = []
        """Directories that were made, outer ones first."""
        self._taken_out: dict[str, GivenFile | str] = {}
        """Each path that was taken out, and what was there, as in `_originals`."""

    def check(self, files: Sequence[GivenFile]) -> None:
        """Raise `AGENT_FILES_INVALID` if something in the tree is in the way."""
        for file in files:
            target = self._tree / file.path
            blocked = next((each for each in self._above(target) if _exists(each) and not _is_directory(each)), None)
            if blocked is None and _exists(target) and not _can_be_kept(target):
                blocked = target
            if blocked is not None:
                name = shown(blocked.relative_to(self._tree))
                raise invalid(
                    f"{shown(file.path)} cannot be laid over the checkout: {name} is in the way",
                    "rename the file, or remove it from `files`",
                )

    def lay(self, files: Sequence[GivenFile]) -> None:
        """Put the files into the tree. Raises YouBenchaError; what was done until then can be taken away."""
        self.check(files)
        try:
            self._kept.mkdir(mode=0o700, exist_ok=True)
            for file in files:
                self._lay(file)
        except OSError as error:
            raise not_writable(self._tree, error) from error

    def take_out(self, paths: Sequence[str]) -> None:
        """Remove files and directories of the tree, before any are laid over it. What does not exist is ignored."""
        try:
            self._kept.mkdir(mode=0o700, exist_ok=True)
            for path in paths:
                target = self._tree / path
                if self._is_reachable(target) and _exists(target):
                    for file in _files_in(target):
                        self._taken_out[file.relative_to(self._tree).as_posix()] = self._keep(file)
                    remove_tree(target)
        except OSError as error:
            raise not_writable(self._tree, error) from error

    def _lay(self, file: GivenFile) -> None:
        target = self._tree / file.path
        for directory in self._above(target):
            if not _exists(directory):
                directory.mkdir()
                self._made.append(directory)
        self._originals[file.path] = self._keep(target) if _exists(target) else None
        file.write(target)

    def _keep(self, target: Path) -> GivenFile | str:
        if target.is_symlink():
            return str(target.readlink())
        original = given_file(target, target.name)
        copy = self._kept / str(len(self._originals) + len(self._taken_out))
        original.write(copy)
        return original._replace(source=copy)

    def take_away(self) -> list[str]:
        """Remove the files, and put back what was there before. May be called again.

        Returns the paths where the agent had put a directory, which was removed with everything in it. A file whose
        directory the agent replaced, by a link for example, is not put back: it counts as deleted by the agent.
        """
        replaced = []
        try:
            for path, original in self._originals.items():
                target = self._tree / path
                if original is not None:
                    self._make_way(target)
                if not self._is_reachable(target):
                    continue
                if _is_directory(target):
                    replaced.append(path)
                remove_tree(target)
                if original is not None:
                    _restore(original, target)
            for directory in reversed(self._made):
                if self._is_reachable(directory) and _is_directory(directory):
                    with suppress(OSError):  # it is not empty: the agent's own files stay
                        directory.rmdir()
            self._put_back()
        except OSError as error:
            raise YouBenchaError(
                "AGENT_FILES_NOT_REMOVABLE",
                f"The agent's files cannot be taken away from {self._tree}: {error.filename} {error.strerror}",
            ) from error
        self._originals, self._made, self._taken_out = {}, [], {}
        return replaced

    def _put_back(self) -> None:
        """Put back what was taken out, where the agent made nothing of its own."""
        for path, original in self._taken_out.items():
            target = self._tree / path
            if self._is_blocked(target) or _exists(target):
                continue
            self._make_way(target)
            _restore(original, target)

    async def hide_from_git(self, commit: str) -> None:
        """Let `git status` not show the files in the tree's own repository. Only a help for the agent.

        `commit` is any id of the repository. A tree whose `.git` is unusual stays as it is.
        """
        git_dir = self._tree / ".git"
        if not _is_directory(git_dir):
            return
        with suppress(OSError, GitFailed):
            tracked = await self._skip_tracked(git_dir / "index", commit)
            excluded = b"".join(_as_pattern(path) for path in self._originals if path not in tracked)
            await asyncio.to_thread(_exclude, git_dir, excluded)

    async def _skip_tracked(self, index: Path, commit: str) -> Collection[str]:
        """Mark the files that are in the index, and return them."""
        with scratch_git_dir(self._kept, commit) as scratch:
            listed = await git(scratch, "ls-files", "-z", index=index)
            tracked = {os.fsdecode(path) for path in listed.split(b"\0")} & {*self._originals, *self._taken_out}
            if tracked:
                names = b"".join(os.fsencode(path) + b"\0" for path in sorted(tracked))
                arguments = ("update-index", "--skip-worktree", "-z", "--stdin")
                await git(scratch, *arguments, tree=self._tree, index=index, stdin=names)
        return tracked

    def _make_way(self, target: Path) -> None:
        """Make the missing directories above a file that is put back, unless something else is there."""
        for directory in self._above(target):
            if not _exists(directory):
                directory.mkdir()
            elif not _is_directory(directory):
                return

    def _is_blocked(self, target: Path) -> bool:
        """Whether a link or a file is where a directory above it was."""
        return any(_exists(directory) and not _is_directory(directory) for directory in self._above(target))

    def _is_reachable(self, target: Path) -> bool:
        """Whether all directories above it are directories, and no links."""
        return all(_is_directory(directory) for directory in self._above(target))

    def _above(self, target: Path) -> Iterator[Path]:
        """The directories between the tree and a file, outer ones first."""
        return reversed([each for each in target.parents if self._tree in each.parents])


_exists = os.path.lexists


def _files_in(target: Path) -> Iterator[Path]:
    """The files and links in a directory, or the one file."""
    if not _is_directory(target):
        yield target
    for folder, directories, files in os.walk(target):
        links = [name for name in directories if not _is_directory(Path(folder, name))]
        yield from (Path(folder, name) for name in sorted((*files, *links)))


def _restore(original: GivenFile | str, target: Path) -> None:
    if isinstance(original, str):
        target.symlink_to(original)
    else:
        original.write(target)


def _is_directory(path: Path) -> bool:
    try:
        about = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISDIR(about.st_mode) and not getattr(about, "st_reparse_tag", 0)


def _can_be_kept(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _as_pattern(path: str) -> bytes:
    """A line of an exclude file for exactly this path; a line end in it cannot be written, and `?` stands for it."""
    return b"/" + re.sub(rb"[\\*?\[\] \t]", rb"\\\g<0>", os.fsencode(path)).replace(b"\n", b"?") + b"\n"


def _exclude(git_dir: Path, lines: bytes) -> None:
    if lines:
        with nofollow_directory(git_dir, "info") as info:
            info.append("exclude", lines)
