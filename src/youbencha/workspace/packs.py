"""Take some commits of a repository to another machine: their files, without their history."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from youbencha.workspace.git import git
from youbencha.workspace.git_dir import make_git_dir, scratch_git_dir
from youbencha.workspace.trees import remove_tree


def name_of(commits: Sequence[str]) -> str:
    """The name of a repository with only these commits."""
    return hashlib.sha256("\n".join(commits).encode()).hexdigest()[:32]


async def pack_commits(objects: Path, commits: Sequence[str], near: Path) -> bytes:
    """Pack commits without their parents. A temporary directory is made beside `near`."""
    with scratch_git_dir(near, commits[0]) as scratch:
        return await git(
            scratch,
            *("pack-objects", "--revs", "--quiet", "--stdout", "--window=0", "--compression=1", "--delta-base-offset"),
            objects=objects,
            stdin="".join(f"--shallow {commit}\n" for commit in commits).encode() + "\n".join(commits).encode(),
        )


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
