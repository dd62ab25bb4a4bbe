"""What an agent changed, told by a git directory of our own beside its workspace.

The agent's own `.git` is never asked: it may have committed, rewritten history, or put commands into its
configuration (filters, hooks, monitors) that would then run on this machine.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, find_executable, run

_GIT_TIMEOUT_S = 60.0
_SETTINGS = {
    "core.autocrlf": "false",
    "core.hooksPath": os.devnull,
    "core.safecrlf": "false",
    "user.name": "youBencha",
    "user.email": "youbencha@localhost",
}


@dataclass(frozen=True)
class Snapshot:
    """The state of `tree` at one moment."""

    tree: Path
    git_dir: Path

    @classmethod
    async def take(cls, tree: Path, git_dir: Path) -> Self:
        snapshot = cls(tree, git_dir)
        await snapshot._git("init", "--quiet")
        await snapshot._git("add", "--all", "--force")
        await snapshot._git("commit", "--quiet", "--allow-empty", "--message", "start")
        return snapshot

    async def diff(self) -> str:
        """Everything that is different now, new and binary files included, as a patch."""
        await self._git("add", "--all", "--force")
        return await self._git("diff", "--cached", "--binary", "--no-ext-diff", "--no-textconv", "HEAD")

    async def _git(self, *arguments: str) -> str:
        env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(self.git_dir)}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
        git = find_executable("git", env)
        if git is None:
            raise YouBenchaError("GIT_NOT_FOUND", "git is not on PATH.", hint="Install git, then try again.")
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        where = (f"--git-dir={self.git_dir}", f"--work-tree={self.tree}")
        result = await run(
            Command(argv=(str(git), *where, *settings, *arguments), cwd=self.tree, env=env),
            limits=Limits(timeout_s=_GIT_TIMEOUT_S),
        )
        if result.exit.code != 0:
            raise YouBenchaError("GIT_FAILED", f"git {arguments[0]} failed: {result.output.strip()}")
        return result.output
