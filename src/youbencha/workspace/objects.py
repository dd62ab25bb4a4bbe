"""Commits in a store of objects: which id is meant, and whether it is there."""

from __future__ import annotations

from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.workspace.git import GitFailed, git

_LENGTHS = (40, 64)
_AT_LEAST = 4


def is_full_id(text: str) -> bool:
    return len(text) in _LENGTHS and all(character in "0123456789abcdefABCDEF" for character in text)


async def commit_at(git_dir: Path, object_id: str) -> str | None:
    """The commit that a full id means: itself, or what the tag of that id names. None if it is not there."""
    try:
        output = await git(git_dir, "rev-parse", "--quiet", "--verify", f"{object_id}^{{commit}}")
    except GitFailed:
        return None
    return output.decode().strip()


async def has_object(git_dir: Path, object_id: str) -> bool:
    try:
        await git(git_dir, "cat-file", "-e", object_id)
    except GitFailed:
        return False
    return True


async def commit_beginning(git_dir: Path, prefix: str, where: str) -> str | None:
    """The one commit whose id begins so. Never a branch that happens to have such a name."""
    if is_full_id(prefix):
        return await commit_at(git_dir, prefix.lower())
    if len(prefix) < _AT_LEAST:
        raise unknown_commit(prefix, where)
    candidates = await git(git_dir, "rev-parse", f"--disambiguate={prefix.lower()}")
    if not candidates:
        return None
    about = await git(git_dir, "cat-file", "--batch-check=%(objecttype) %(objectname)", stdin=candidates)
    commits = [line.split()[1] for line in about.decode().splitlines() if line.startswith("commit ")]
    if len(commits) > 1:
        raise YouBenchaError(
            "REPO_COMMIT_UNKNOWN",
            f"{len(commits)} commits of the repository {where} begin with {prefix}.",
            hint=f"Write more of it: {', '.join(commits[:3])}.",
        )
    return commits[0] if commits else None


def unknown_commit(written: str, where: str, hint: str | None = None) -> YouBenchaError:
    return YouBenchaError(
        "REPO_COMMIT_UNKNOWN",
        f"The repository {where} has no commit {written}.",
        hint=hint or "Check the id; a commit that is on no branch must be named in full.",
    )
