"""Which new files do not count, because the repository itself ignores them: `__pycache__`, `node_modules`, …

The rules are those of the start: all its `.gitignore` files, kept aside where an agent does not edit them by chance,
and no others (neither the agent's own nor those of the person who runs it). An agent that edits `.gitignore` hides
nothing. A file that was there at the start counts, whatever the rules say.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

from youbencha.workspace.git import ONLY_RECORDED, GitFailed, git
from youbencha.workspace.walk import Found

NAME = b".gitignore"
_RULES = "start-rules"
_LARGEST = 4 * 1024 * 1024
_HERE = b"./"
"""Before every path: a name that begins with a colon would mean something else to git."""
_LONG_ENOUGH = 1000
_NONE_IGNORED = "it ended with status 1"


def keep_rules(tree: Path, paths: Iterable[bytes], git_dir: Path) -> None:
    """Copy those of `paths` that are rules; the tree is as it was at the start."""
    rules = git_dir / _RULES
    if rules.exists():
        shutil.rmtree(rules)
    for path in paths:
        if path == NAME or path.endswith(b"/" + NAME):
            name = os.fsdecode(path)
            source = tree / name
            if not source.is_symlink() and source.is_file() and source.stat().st_size <= _LARGEST:
                (rules / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, rules / name)


async def keep_rules_of(commit: str, git_dir: Path, objects: Path) -> None:
    """The same from a commit that is not checked out as it is."""
    listed = await git(git_dir, "ls-tree", "-r", "-z", "--full-tree", commit, objects=objects)
    for entry in listed.split(b"\0"):
        about, _, path = entry.partition(b"\t")
        if about.startswith(b"100") and (path == NAME or path.endswith(b"/" + NAME)):
            file = git_dir / _RULES / os.fsdecode(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(await git(git_dir, "cat-file", "blob", about.split()[2].decode(), objects=objects))


async def ignored_among(found: Found, git_dir: Path, prefix: bytes = b"") -> set[bytes]:
    """Those that the rules of the start ignore, which are for `prefix` and the path. Costs nothing without rules."""
    asked = {prefix + path: path for path in found.files}
    asked |= {_shorter(prefix + path): path for path in found.too_deep}
    return {asked[path] for path in await _ignored(asked, git_dir)}


def _shorter(path: bytes) -> bytes:
    """A path that is too long for git, cut: as a rule some directory far above is what is ignored."""
    return path[:_LONG_ENOUGH].rpartition(b"/")[0] + b"/..." if len(path) > _LONG_ENOUGH else path


async def _ignored(paths: Collection[bytes], git_dir: Path) -> set[bytes]:
    rules = git_dir / _RULES
    if not paths or not rules.exists():
        return set()
    try:
        asked = b"".join(_HERE + path + b"\0" for path in paths)
        how = ("check-ignore", "--no-index", "--stdin", "-z")
        output = await git(git_dir, *how, tree=rules, stdin=asked, settings=ONLY_RECORDED)
    except GitFailed as failed:
        if failed.reason == _NONE_IGNORED:
            return set()
        raise
    return {path.removeprefix(_HERE) for path in output.split(b"\0") if path}
