"""Trees for the tests of checkpoints."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from youbencha.workspace.checkpoints import Checkpoints

LOOP = "20261117-101500-abcdef"


@asynccontextmanager
async def opened(tree: Path, cache_dir: Path, loop_id: str = LOOP) -> AsyncIterator[Checkpoints]:
    checkpoints = await Checkpoints.open(tree, loop_id, cache_dir=cache_dir)
    try:
        yield checkpoints
    finally:
        checkpoints.close()
        assert os.listdir(cache_dir / "runs") == []


def tree_of(top: Path) -> dict[bytes, tuple[str, bytes]]:
    """All files and links but those of git and of the loop, with kind and content."""
    found = {}
    for folder, directories, names in os.walk(os.fsencode(top)):
        if folder == os.fsencode(top) and b".ralph" in directories:
            directories.remove(b".ralph")
        links = [name for name in directories if os.path.islink(folder + b"/" + name)]
        directories[:] = [name for name in directories if name != b".git" and name not in links]
        for name in (*names, *links):
            path = folder + b"/" + name
            mode = os.lstat(path).st_mode
            if name == b".git":
                continue
            if stat.S_ISLNK(mode):
                found[os.path.relpath(path, os.fsencode(top))] = ("link", os.readlink(path))
            elif stat.S_ISREG(mode):
                kind = "program" if mode & stat.S_IXUSR else "file"
                with open(path, "rb") as file:
                    found[os.path.relpath(path, os.fsencode(top))] = (kind, file.read(1 << 20))
    return found


def users_state(git_dir: Path) -> dict[str, bytes]:
    """Everything of a repository that belongs to its user: not the objects, and not our refs."""
    left_out = ("objects/", "refs/youbencha/")
    names = [path.relative_to(git_dir).as_posix() for path in git_dir.rglob("*") if path.is_file()]
    return {name: (git_dir / name).read_bytes() for name in names if not name.startswith(left_out)}
