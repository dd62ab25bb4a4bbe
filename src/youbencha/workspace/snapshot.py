"""What an agent changed, told by a git directory of our own beside its workspace.

The agent's own `.git` is never asked: it may have committed, rewritten history, or put commands into its
configuration (filters, hooks, monitors) that would then run on this machine. Nor is git left to walk the tree: it
takes a repository inside it for a submodule, hides what is in there, and fails if that has no commit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, find_executable, run

_GIT_TIMEOUT_S = 120.0
_SETTINGS = {
    "core.autocrlf": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.protectHFS": "false",  # names that would be dangerous elsewhere are only recorded here, never checked out
    "core.protectNTFS": "false",
    "core.quotePath": "false",
    "core.safecrlf": "false",
}
_ATTRIBUTES = "* -text !eol -ident !filter !working-tree-encoding !diff\n"
"""Over whatever `.gitattributes` says: bytes are recorded as they are."""


@dataclass(frozen=True)
class Snapshot:
    """The state of `tree` at one moment."""

    tree: Path
    git_dir: Path
    start: str
    """What git calls that state."""

    @classmethod
    async def take(cls, tree: Path, git_dir: Path) -> Self:
        tree, git_dir = tree.absolute(), git_dir.absolute()
        (git_dir / "info").mkdir(parents=True, exist_ok=True)
        (git_dir / "info" / "attributes").write_text(_ATTRIBUTES)
        await _git(git_dir, "init", "--quiet", "--template=", "--bare")
        return cls(tree, git_dir, await _record(tree, git_dir))

    async def diff(self) -> bytes:
        """Everything that is different now, as a patch: new, ignored and binary files too, whatever was committed."""
        now = await _record(self.tree, self.git_dir)
        patch = self.git_dir / "diff.patch"  # not by way of a terminal log, which is bounded and holds text only
        how = ("-r", "-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", f"--output={patch}")
        await _git(self.git_dir, "diff-tree", *how, self.start, now)
        return patch.read_bytes()


async def _record(tree: Path, git_dir: Path) -> str:
    """Every file anew, not only those whose times have changed: times can be set."""
    await _git(git_dir, "read-tree", "--empty")
    names = b"".join(name + b"\0" for name in _files(os.fsencode(tree)))
    if names:
        await _git(git_dir, "update-index", "--add", "--remove", "-z", "--stdin", tree=tree, stdin=names)
    return (await _git(git_dir, "write-tree")).strip()


def _files(tree: bytes) -> Iterator[bytes]:
    """Files and links, as paths below the tree. What is neither (a pipe, a socket) has no content to compare."""
    waiting = [b""]  # not by recursion: an agent may nest directories deeper than Python does calls
    while waiting:
        below = waiting.pop()
        for entry in _entries(os.path.join(tree, below)):  # noqa: PTH118 - names need not be text
            path = below + entry.name
            if entry.name.lower() == b".git":
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path + b"/")
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                yield path


def _entries(directory: bytes) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except FileNotFoundError:  # the agent may have removed it, the whole tree even
        return []
    except OSError as error:
        raise YouBenchaError(
            "GIT_FAILED",
            f"Cannot read {os.fsdecode(directory)}: {error.strerror}",
            hint="The agent made a directory that cannot be read; what is in it cannot be told.",
        ) from error


async def _git(git_dir: Path, *arguments: str, tree: Path | None = None, stdin: bytes | None = None) -> str:
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(git_dir)}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
    git = find_executable("git", env)
    if git is None:
        raise YouBenchaError("GIT_NOT_FOUND", "git is not on PATH.", hint="Install git, then try again.")
    settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    where = [f"--git-dir={git_dir}", *([f"--work-tree={tree}"] if tree else [])]
    result = await run(
        Command(argv=(str(git), *where, *settings, *arguments), cwd=tree or git_dir, env=env, stdin=stdin),
        limits=Limits(timeout_s=_GIT_TIMEOUT_S),
    )
    if result.exit.code != 0:
        reason = "it took too long" if result.timed_out else result.output.strip()
        raise YouBenchaError("GIT_FAILED", f"git {arguments[0]} failed: {reason}")
    return result.output
