"""Random trees: whatever is done to the files, each earlier checkpoint restores exactly the tree of that time."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from pathlib import Path

from checkpoint_trees import opened, tree_of
from hypothesis import given, settings
from hypothesis import strategies as st

from git_repositories import git
from systems import posix_only

pytestmark = posix_only("names and modes")
NAMES = st.sampled_from([b"a", b"b", b"a.txt", b"a0", b"a-", b"\xff", b"\n", b" "])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
CONTENTS = st.sampled_from([b"", b"1", b"2", b"\0\r\n", b"x" * 300])
KINDS = st.sampled_from(["file", "program", "link", "remove", "directory"])
CHANGES = st.lists(st.tuples(PATHS, KINDS, CONTENTS), max_size=6)


def change(top: bytes, path: bytes, kind: str, content: bytes) -> None:
    """Make the path that kind of file, whatever is there or in the way."""
    above = top
    for part in path.split(b"/")[:-1]:
        above += b"/" + part
        if os.path.lexists(above) and not stat.S_ISDIR(os.lstat(above).st_mode):
            os.unlink(above)
        os.makedirs(above, exist_ok=True)
    full = top + b"/" + path
    if os.path.lexists(full):
        if stat.S_ISDIR(os.lstat(full).st_mode):
            shutil.rmtree(full)
        else:
            os.unlink(full)
    if kind == "link":
        os.symlink(content.replace(b"\0", b"")[:9] or b".", full)
    elif kind == "directory":
        os.mkdir(full)
    elif kind != "remove":
        Path(os.fsdecode(full)).write_bytes(content)
        os.chmod(full, 0o755 if kind == "program" else 0o644)


async def run(steps: list[list[tuple[bytes, str, bytes]]], chosen: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "tree"
        tree.mkdir()
        git(tree, "init", "--quiet")
        seen = []
        async with opened(tree, Path(directory) / "cache") as checkpoints:
            for number, changes in enumerate(steps):
                for each in changes:
                    change(os.fsencode(tree), *each)
                before = len(seen) and seen[-1]
                seen.append(tree_of(tree))
                taken = await checkpoints.take(number, "step")
                if before:
                    differing = {
                        path for path in before.keys() | seen[-1].keys() if before.get(path) != seen[-1].get(path)
                    }
                    assert taken.files_changed == len(differing)
            for number in (chosen % len(steps), 0, len(steps) - 1):
                await checkpoints.restore(str(number))
                assert tree_of(tree) == seen[number]
        git(tree, "fsck", "--strict")


@settings(max_examples=settings().max_examples // 4)
@given(st.lists(CHANGES, min_size=1, max_size=4), st.integers(0, 3))
def test_each_checkpoint_restores_its_tree(steps: list[list[tuple[bytes, str, bytes]]], chosen: int) -> None:
    asyncio.run(run(steps, chosen))
