"""List the files of a user's tree that count, with what `lstat` says about them, quickly enough for every iteration.

Files that existed at the start count, whatever the ignore rules say. New ones count unless the present rules ignore
them, or they are in the cache of a tool. git is asked only about names that were not there before, or if an ignore
file has changed. Anything called `.git`, at any level, is left out, and so are directories that cannot be read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from youbencha.files import is_directory
from youbencha.workspace.git import ONLY_RECORDED
from youbencha.workspace.walk import LONGEST, NAME, ignored_by_rules

_RESERVED = 256
"""Bytes of the longest path that git may need for itself."""
_MOST_ROUNDS = 20
"""Calls of git for new directories, one for each level. All that is deeper is one call: an agent may nest 2,000."""


class Stamp(NamedTuple):
    """Changes whenever a file does: programs cannot set `ctime`."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


class _Found(NamedTuple):
    files: dict[bytes, Stamp]
    undecided: dict[bytes, Stamp | None]
    """Directories have a slash at the end, and no stamp."""
    rules: dict[bytes, Stamp]
    """The ignore files."""


class Scanner:
    """Scans one directory of a working tree again and again."""

    def __init__(
        self, top: Path, prefix: bytes, git_dir: Path, settings: Mapping[str, str], left_out: Collection[bytes]
    ) -> None:
        self._top = top
        self._prefix = prefix
        self._directory = os.fsencode(top) + b"/" + prefix
        self._git_dir, self._settings = git_dir, {**ONLY_RECORDED, **settings}
        self._left_out = left_out
        self._kept: set[bytes] = set()
        self._kept_directories: set[bytes] = set()
        self._ignored: dict[bytes, bool] = {}
        self._rules: dict[bytes, Stamp] | None = None

    def keep(self, paths: Iterable[bytes]) -> None:
        """Make files count, even if they are ignored."""
        for path in paths:
            self._kept.add(path)
            while (slash := path.rfind(b"/", 0, -1)) >= 0 and path[: slash + 1] not in self._kept_directories:
                path = path[: slash + 1]
                self._kept_directories.add(path)

    async def scan(self) -> dict[bytes, Stamp]:
        found = await self._scan()
        if self._rules is not None and found.rules != self._rules:
            self._ignored.clear()
            found = await self._scan()
        self._rules = found.rules
        return found.files

    async def _scan(self) -> _Found:
        found = await asyncio.to_thread(self._walk, [b""])
        found.rules.update(self._rules_above())
        undecided, rounds = found.undecided, 0
        while undecided:
            rounds += 1
            await self._decide(undecided)
            counting = {path: stamp for path, stamp in undecided.items() if stamp and not self._ignored[path]}
            is_whole = rounds > _MOST_ROUNDS
            starts = [path for path in undecided if path.endswith(b"/") and not is_whole and self._is_entered(path)]
            more = await asyncio.to_thread(self._walk, starts, whole=rounds == _MOST_ROUNDS)
            found.files.update(counting)
            found.files.update(more.files)
            found.rules.update(more.rules)
            undecided = more.undecided
        return found

    def _is_entered(self, directory: bytes) -> bool:
        return not self._ignored[directory] or directory in self._kept_directories

    def _walk(self, starts: list[bytes], *, whole: bool = False) -> _Found:
        """Look at directories and those below. `whole`: also at those of which it is not known if they are ignored."""
        found = _Found({}, {}, {})
        while starts:
            below = starts.pop()
            try:
                with os.scandir(self._directory + below) as entries:
                    for entry in entries:
                        if entry.name.lower() != b".git":
                            self._meet(entry, below + entry.name, found, starts, whole=whole)
            except OSError:  # not readable, removed meanwhile, or too deep
                continue
        return found

    def _meet(self, entry: os.DirEntry[bytes], path: bytes, found: _Found, starts: list[bytes], *, whole: bool) -> None:
        if path in self._left_out or len(self._directory) + len(path) > LONGEST - _RESERVED:
            return
        if is_directory(entry):
            path += b"/"
            known = path in self._ignored
            if not known:
                found.undecided[path] = None
            if self._is_entered(path) if known else whole:
                starts.append(path)
        elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
            ignored = False if path in self._kept else self._ignored.get(path)
            if ignored and entry.name != NAME:
                return
            stamp = _stamp(entry.stat(follow_symlinks=False))
            if entry.name == NAME:
                found.rules[path] = stamp
            if ignored is None:
                found.undecided[path] = stamp
            elif not ignored:
                found.files[path] = stamp

    def _rules_above(self) -> dict[bytes, Stamp]:
        """The ignore files between the top of the working tree and the directory."""
        found = {}
        for parent in Path(os.fsdecode(self._directory)).parents if self._prefix else ():
            if parent.is_relative_to(self._top):
                path = os.fsencode(parent) + b"/" + NAME
                try:
                    found[path] = _stamp(os.lstat(path))
                except OSError:
                    continue
        return found

    async def _decide(self, paths: Iterable[bytes]) -> None:
        """Ask git which are ignored, by the files in the tree."""
        asked = {self._prefix + path.rstrip(b"/"): path for path in paths}
        ignored = await ignored_by_rules(self._top, asked, self._git_dir, self._settings)
        self._ignored.update((path, name in ignored) for name, path in asked.items())


def _stamp(about: os.stat_result) -> Stamp:
    return Stamp(about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)
