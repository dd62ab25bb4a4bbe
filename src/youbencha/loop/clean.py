"""Find and remove what earlier loops left in a directory. A loop that is running is never touched."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.loop.directory import LoopDirectory
from youbencha.store.layout import LOOPS_DIR, RALPH_DIR
from youbencha.store.loop_lock import running_loop
from youbencha.store.loops import loop_ids
from youbencha.user_dirs import default_cache_dir
from youbencha.workspace.checkpoints import Checkpoints, loops_with_checkpoints
from youbencha.workspace.run_dir import remove_private
from youbencha.workspace.trees import remove_tree, size_on_disk
from youbencha.workspace.working_tree import Worktree, list_worktrees, locate, remove_worktree

_DAY_S = 86_400


class Leftover(NamedTuple):
    """Something that can be removed."""

    what: str
    size_bytes: int
    remove: Callable[[], Awaitable[None]]


class Cleaning(NamedTuple):
    """What to remove from a directory."""

    tree: Path
    older_than_days: float
    cache_dir: Path | None = None
    force: bool = False
    """Working trees, too, that have changes which are not committed or not merged."""

    async def leftovers(self) -> list[Leftover]:
        """Loops that have not changed for so many days, and their working trees, the oldest first."""
        _refuse_links(self.tree)
        return [*self._loops_in(self.tree), *await self._worktrees()]

    def agents_files(self) -> list[Leftover]:
        """Everything else in `.ralph`: scratchpad, tasks, memories, events. Raises YouBenchaError if a loop runs."""
        if running := running_loop(self.tree, self.cache_dir):
            raise YouBenchaError(
                "LOOP_RUNNING",
                f"A loop is running in {self.tree}: {running}. Its scratchpad, tasks and memories are in use.",
                hint="Wait for it, stop it, or leave out --all.",
            )
        ralph = self.tree / RALPH_DIR
        names = sorted(set(os.listdir(ralph)) - {LOOPS_DIR}) if ralph.is_dir() else []  # noqa: PTH208
        return [
            Leftover(f"{RALPH_DIR}/{name}", size_on_disk(ralph / name), partial(_remove, ralph / name))
            for name in names
        ]

    def _loops_in(self, directory: Path) -> list[Leftover]:
        running = running_loop(directory, self.cache_dir)
        known = loops_with_checkpoints(directory)
        found = []
        for loop_id in sorted(loop_ids(directory)):
            loop = LoopDirectory(directory, loop_id)
            if self._is_old(loop.path) and not (running and running.loop_id in (loop_id, None)):
                remove = partial(self._remove_loop, loop, known)
                found.append(Leftover(f"loop {loop_id}", size_on_disk(loop.path), remove))
        return found

    async def _worktrees(self) -> list[Leftover]:
        location = locate(Path(os.path.realpath(self.tree)))
        if location is None:
            return []
        found = []
        for worktree in await list_worktrees(self.tree):
            directory = worktree.path / location.prefix
            if not running_loop(directory, self.cache_dir) and self._is_old(worktree.path):
                remove = partial(self._remove_worktree, worktree, directory)
                found.append(Leftover(f"working tree {worktree.path}", size_on_disk(worktree.path), remove))
        return found

    def _is_old(self, path: Path) -> bool:
        return path.lstat().st_mtime <= time.time() - self.older_than_days * _DAY_S

    async def _remove_loop(self, loop: LoopDirectory, known: Collection[str]) -> None:
        await self._remove_checkpoints(loop.loop_id, known)
        remove_tree(loop.events_file)
        remove_tree(loop.path)
        remove_private(loop.loop_id, self.cache_dir or default_cache_dir())

    async def _remove_worktree(self, worktree: Worktree, directory: Path) -> None:
        """Its loops' checkpoints are in the repository: they are removed only if the files can be."""
        loops, known = loop_ids(directory), loops_with_checkpoints(directory)
        await remove_worktree(self.tree, worktree, force=self.force)
        for loop_id in loops:
            await self._remove_checkpoints(loop_id, known)

    async def _remove_checkpoints(self, loop_id: str, known: Collection[str]) -> None:
        """Remove those of a loop, if it is `known` to have any. They are in the repository of all working trees."""
        if loop_id in known:
            with closing(await Checkpoints.open(self.tree, loop_id, cache_dir=self.cache_dir)) as checkpoints:
                await checkpoints.remove()


async def _remove(path: Path) -> None:
    remove_tree(path)


def _refuse_links(tree: Path) -> None:
    """Raise if an agent has replaced a directory by a link: what it leads to must not be removed."""
    for path in (tree / RALPH_DIR, tree / RALPH_DIR / LOOPS_DIR):
        if path.is_symlink():
            raise YouBenchaError(
                "WORKSPACE_NOT_REMOVABLE",
                f"{path} is a symbolic link, which youBencha does not follow.",
                hint="Remove it by hand.",
            )
