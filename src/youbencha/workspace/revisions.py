"""Write trees for a validation: a recorded one, a commit with a patch applied, and single files of a commit.

The patch is an agent's, and so may be the tree that files are written to. git applies the patch to an index, where it
refuses `.git` and paths outside the tree; and it replaces links that are in the way of a file, and follows none.

What could be recorded can be written: names that are dangerous only on other systems (`git~1`) are not refused.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.workspace.diff import DIFF_OPTIONS, FileChange, StoredTree, read_difference
from youbencha.workspace.git import AS_RECORDED, GitFailed, git
from youbencha.workspace.git_dir import scratch_git_dir


async def write_recorded(recorded: StoredTree, directory: Path) -> None:
    """Write the files of a recorded tree. `directory` must not exist."""
    directory.mkdir()
    with scratch_git_dir(directory, recorded.id) as scratch:
        index, objects = scratch / "index", recorded.git_dir / "objects"
        await git(scratch, "read-tree", recorded.id, index=index, objects=objects, settings=AS_RECORDED)
        await _write_index(scratch, index, objects, directory)


async def write_patched(objects: Path, commit: str, patch: Path | None, directory: Path) -> tuple[FileChange, ...]:
    """Write the files of a commit with a patch applied; return what the patch changed.

    `directory` must be empty. Raises `PATCH_NOT_APPLICABLE`.
    """
    with scratch_git_dir(directory, commit) as scratch:
        index, answer = scratch / "index", scratch / "answer"
        await git(scratch, "read-tree", commit, index=index, objects=objects)
        if patch is not None and patch.stat().st_size:
            try:
                arguments = ("apply", "--cached", "--whitespace=nowarn", str(patch.absolute()))
                await git(scratch, *arguments, index=index, objects=objects, settings=AS_RECORDED)
            except GitFailed as failed:
                raise _not_applicable(patch, commit, failed.reason) from failed
        await _write_index(scratch, index, objects, directory)
        options = ("--cached", *DIFF_OPTIONS, f"--output={answer}")
        await git(scratch, "diff-index", *options, commit, index=index, objects=objects)
        return read_difference(answer, scratch / "patch")


async def _write_index(git_dir: Path, index: Path, objects: Path, directory: Path) -> None:
    arguments = ("checkout-index", "--all", "--force")
    await git(git_dir, *arguments, tree=directory, index=index, objects=objects, settings=AS_RECORDED)


async def write_files(objects: Path, commit: str, paths: Collection[str], directory: Path) -> None:
    """Write files of a commit into a tree, in place of whatever is there. No program may run in the tree meanwhile."""
    make_writable(directory)
    with scratch_git_dir(directory, commit) as scratch:
        index = scratch / "index"
        await git(scratch, "read-tree", commit, index=index, objects=objects)
        names = b"".join(os.fsencode(path) + b"\0" for path in paths)
        arguments = ("checkout-index", "--force", "-z", "--stdin")
        await git(scratch, *arguments, tree=directory, index=index, objects=objects, stdin=names)


async def difference(objects: Path, before: str, after: str, patch_file: Path) -> tuple[FileChange, ...]:
    """Compare two commits, and write the patch to `patch_file`."""
    with scratch_git_dir(patch_file, before) as git_dir:
        answer = git_dir / "answer"
        await git(git_dir, "diff-tree", "-r", *DIFF_OPTIONS, f"--output={answer}", before, after, objects=objects)
        return read_difference(answer, patch_file)


def make_writable(tree: Path) -> None:
    """Let the owner write to every directory: an agent's programs may have left others. Links are not followed."""
    waiting = [os.fspath(tree)]
    while waiting:
        directory = waiting.pop()
        os.chmod(directory, os.stat(directory).st_mode | 0o700)  # noqa: PTH101, PTH116 - quicker, and there may be many
        with os.scandir(directory) as entries:
            waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _not_applicable(patch: Path, commit: str, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "PATCH_NOT_APPLICABLE",
        f"The patch {patch.name} cannot be applied to commit {commit[:12]}: {reason}",
        hint="It must be made by git, for this commit, with binary files; paths outside of the tree are refused.",
    )
