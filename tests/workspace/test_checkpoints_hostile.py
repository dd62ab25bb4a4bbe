"""Checkpoints of trees and repositories in which an agent has set traps."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from checkpoint_trees import LOOP, opened, tree_of, users_state

from git_repositories import commit, git, head
from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.workspace.checkpoints import REFS

pytestmark = posix_only("links, pipes and modes")
REF = f"{REFS}/{LOOP}"
HOOKS = ("post-checkout", "post-commit", "pre-commit", "post-index-change", "reference-transaction", "pre-auto-gc")


def set_traps(repository: Path, trace: Path) -> None:
    """Hooks, filters, monitors and commands of the configuration that leave a trace if they are run."""
    trap = f"touch '{trace}'; cat"
    for hook in HOOKS:
        path = repository / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{trap}\n")
        path.chmod(0o755)
    lines = ["[core]", f'\tfsmonitor = "{trap}"', f'\tsshCommand = "{trap}"', f'\tpager = "{trap}"']
    lines += ['[filter "trap"]', *(f'\t{name} = "{trap}"' for name in ("clean", "smudge")), "\trequired = true"]
    lines += ['[diff "trap"]', f'\tcommand = "{trap}"', f'\ttextconv = "{trap}"']
    with (repository / ".git" / "config").open("a") as config:
        config.write("\n".join(lines) + "\n")
    (repository / ".gitattributes").write_text("* filter=trap diff=trap\n")
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("* filter=trap diff=trap\n")


async def test_nothing_that_the_repository_names_is_run(source: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    set_traps(source, trace)
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        (source / "README.md").write_text("changed")
        (source / "new").write_text("new")
        await checkpoints.take(1, "one")
        assert "+changed" in await checkpoints.diff(0)
        await checkpoints.restore("0")
        await checkpoints.list()
        await checkpoints.remove()
    assert not trace.exists()
    git(source, "status")
    assert trace.exists(), "git itself falls into the trap, so that it is one"


async def test_a_configuration_that_git_cannot_read(source: Path, tmp_path: Path) -> None:
    """A pipe that would block git for ever, and nonsense."""
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        os.mkfifo(tmp_path / "pipe")
        (source / ".git" / "config").write_text(f"[include]\n\tpath = {tmp_path / 'pipe'}\n")
        (source / "new").write_text("new")
        assert (await checkpoints.take(1, "one")).files_changed == 1
        (source / ".git" / "config").write_text("[[[")
        await checkpoints.restore("0")
        assert not (source / "new").exists()


async def test_a_tree_full_of_surprises(source: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    os.mkfifo(source / "pipe")
    for name in ("huge", "huge2"):
        (source / name).touch()
        os.truncate(source / name, 1 << 40)
    (source / "out").symlink_to(outside)
    (source / "loop").symlink_to("loop")
    (source / ".git.txt").write_text("harmless")
    names = [b"new\nline", b"not \xff utf-8", b":(glob)magic", b"-rf", b"*", b"[a]", b'"quoted"', b"back\\slash", b" "]
    top = os.fsencode(source)
    for name in names:
        Path(os.fsdecode(top + b"/" + name)).write_bytes(name)
    for name in (b".GIT", b"sub\xff/.git"):
        Path(os.fsdecode(top + b"/" + name)).mkdir(parents=True)
        Path(os.fsdecode(top + b"/" + name + b"/file")).write_bytes(b"x")
    before = {path: about for path, about in tree_of(source).items() if not path.startswith(b".GIT")}
    async with opened(source, tmp_path / "cache") as checkpoints:
        taken = await checkpoints.take(0, "start")
        assert taken.warning == "not in the checkpoint, because too large or not readable: huge, huge2"
        recorded = git(source, "ls-tree", "-r", "-z", "--name-only", f"{REF}/0").split("\0")
        assert not {"pipe", "huge", "huge2", "out/secret", ".GIT/file"} & set(recorded)
        for name in names:
            Path(os.fsdecode(top + b"/" + name)).unlink()
        (source / "out").unlink()
        assert (await checkpoints.take(1, "one")).warning is None, "it was said before"
        await checkpoints.restore("0")
    after = {path: about for path, about in tree_of(source).items() if not path.startswith(b".GIT")}
    assert after == before
    assert (source / "pipe").exists()


async def test_directories_that_became_links(source: Path, tmp_path: Path) -> None:
    """Nothing is written or removed behind a link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "code.py").write_text("of somebody else")
    (outside / "deep").mkdir()
    (outside / "deep" / "file").write_text("too")
    commit(source, {"a/deep/file": "1", "a/b": "2"})
    before, elsewhere = tree_of(source), tree_of(outside)
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        for name in ("src", "a"):
            shutil.rmtree(source / name)
            (source / name).symlink_to(outside)
        await checkpoints.take(1, "one")
        linked = tree_of(source)
        await checkpoints.restore("0")
        assert tree_of(source) == before
        assert tree_of(outside) == elsewhere
        await checkpoints.restore("1")
        assert tree_of(source) == linked
    assert tree_of(outside) == elsewhere


async def test_a_link_in_the_repository_is_not_followed(source: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with opened(source, tmp_path / "cache") as checkpoints:
        (source / ".git" / "refs" / "youbencha").symlink_to(outside)
        with pytest.raises(YouBenchaError, match="could not be written") as caught:
            await checkpoints.take(0, "start")
    assert caught.value.code == "CHECKPOINT_FAILED"
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("packed", [False, True])
async def test_refs_that_were_removed_are_written_again(source: Path, tmp_path: Path, packed: bool) -> None:
    async with opened(source, tmp_path / "cache") as checkpoints:
        first = await checkpoints.take(0, "start")
        (source / "a").write_text("1")
        second = await checkpoints.take(1, "one")
        if packed:
            git(source, "pack-refs", "--all")
            assert (await checkpoints.take(2, "two")).warning is None, "git gc packs refs"
        git(source, "update-ref", f"{REF}/0", head(source))
        git(source, "update-ref", "-d", f"{REF}/1")
        if packed:
            git(source, "update-ref", "-d", f"{REF}/2")
        taken = await checkpoints.take(3, "three")
        assert taken.warning == "the refs of checkpoints were removed or moved, and were written again"
    assert [git(source, "rev-parse", f"{REF}/{number}") for number in (0, 1)] == [first.commit, second.commit]


async def test_an_earlier_ref_that_was_removed(source: Path, tmp_path: Path) -> None:
    async with opened(source, tmp_path / "cache") as checkpoints:
        first = await checkpoints.take(0, "start")
        await checkpoints.take(1, "one")
        git(source, "update-ref", "-d", f"{REF}/0")
        assert (await checkpoints.take(2, "two")).warning is not None
        assert (await checkpoints.take(3, "three")).warning is None
    assert git(source, "rev-parse", f"{REF}/0") == first.commit


async def test_objects_behind_a_link(source: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        for number in range(256):
            if not (source / ".git" / "objects" / f"{number:02x}").exists():
                (source / ".git" / "objects" / f"{number:02x}").symlink_to(tmp_path / "outside")
        for number in range(20):
            (source / str(number)).write_text(str(number))
        with pytest.raises(YouBenchaError, match="objects were replaced by a link"):
            await checkpoints.take(1, "one")
    assert list((tmp_path / "outside").iterdir()) == []


async def test_commits_that_are_lost(source: Path, tmp_path: Path) -> None:
    """The next checkpoint is complete again."""
    commit(source, {f"file{number}": str(number) for number in range(20)})
    async with opened(source, tmp_path / "cache") as checkpoints:
        (source / "new").write_text("new")
        await checkpoints.take(0, "start")
        git(source, "update-ref", "-d", f"{REF}/0")
        git(source, "gc", "--quiet", "--prune=now")
        taken = await checkpoints.take(1, "one")
        assert taken.warning == "the commits of earlier checkpoints were removed from the repository: 0"
        with pytest.raises(YouBenchaError, match="has no checkpoint 0"):
            await checkpoints.restore("0")
        (source / "new").unlink()
        await checkpoints.restore("1")
        assert (source / "new").read_text() == "new"
    git(source, "fsck", "--strict")


async def test_objects_that_were_removed_are_written_again(source: Path, tmp_path: Path) -> None:
    """A diff refers to objects that are on no ref. The checkpoint that misses them fails, and the next is complete."""
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        (source / "new").write_text("new")
        time.sleep(0.06)  # until its time is certain, so that it is not read again
        assert "+new" in await checkpoints.diff(0)
        git(source, "gc", "--quiet", "--prune=now")
        with pytest.raises(YouBenchaError) as caught:
            await checkpoints.take(1, "one")
        assert caught.value.code == "CHECKPOINT_FAILED"
        assert (await checkpoints.take(2, "two")).files_changed == 1
    assert git(source, "show", f"{REF}/2:new") == "new"
    git(source, "fsck", "--strict")


async def test_the_repository_was_made_anew(source: Path, tmp_path: Path) -> None:
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        shutil.rmtree(source / ".git")
        with pytest.raises(YouBenchaError, match="could not be written"):
            await checkpoints.take(1, "one")
        git(source, "init", "--quiet")
        taken = await checkpoints.take(2, "two")
    assert taken.warning == "the commits of earlier checkpoints were removed from the repository: 0"
    assert git(source, "show", f"{REF}/2:README.md") == "third"
    git(source, "fsck", "--strict")


async def test_a_content_that_is_lost(source: Path, tmp_path: Path) -> None:
    """Nothing is changed if a part of the checkpoint is missing."""
    async with opened(source, tmp_path / "cache") as checkpoints:
        (source / "a").write_text("only here")
        await checkpoints.take(0, "start")
        name = git(source, "rev-parse", f"{REF}/0:a")
        (source / ".git" / "objects" / name[:2] / name[2:]).unlink()
        (source / "a").unlink()
        (source / "b").write_text("new")
        with pytest.raises(YouBenchaError, match="The content of a is no longer in the repository"):
            await checkpoints.restore("0")
        assert (source / "b").exists()


async def test_a_ref_that_leads_to_a_hostile_commit(source: Path, tmp_path: Path) -> None:
    """A tree with `..` in a path: an agent can write any object."""
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
    blob = git(source, "hash-object", "-w", "--stdin", stdin=b"evil")
    tree = b"100644 evil\0" + bytes.fromhex(blob)
    for _ in range(3):
        name = git(source, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=tree)
        tree = b"40000 ..\0" + bytes.fromhex(name)
    name = git(source, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=tree)
    git(source, "update-ref", f"{REF}/0", git(source, "commit-tree", name, "-m", "evil"))
    async with opened(source, tmp_path / "cache") as checkpoints:
        with pytest.raises(YouBenchaError, match="The checkpoint 0 was replaced"):
            await checkpoints.restore("0")
    assert not list(tmp_path.rglob("evil"))


async def test_a_directory_without_permissions(source: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (source / "closed").mkdir()
    (source / "closed" / "file").write_text("1")
    (source / "unreadable").write_text("1")
    (source / "unreadable").chmod(0)
    (source / "closed").chmod(0)
    try:
        async with opened(source, tmp_path / "cache") as checkpoints:
            taken = await checkpoints.take(0, "start")
            await checkpoints.restore("0")
    finally:
        (source / "closed").chmod(0o755)
    assert taken.warning == "not in the checkpoint, because too large or not readable: unreadable"
    assert (source / "closed" / "file").read_text() == "1"


async def test_very_deep_directories(source: Path, tmp_path: Path) -> None:
    """Deeper than the longest path: those are left out."""
    here = os.open(source, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    state = users_state(source / ".git")
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        (source / "new").write_text("1")
        await checkpoints.restore("0")
    assert users_state(source / ".git") == state
    assert not (source / "new").exists()


async def test_many_levels_of_directories(source: Path, tmp_path: Path) -> None:
    """Each level is not a call of git, which took 2 s for 300."""
    (source / ".gitignore").write_text("*.log\n/d/ignored\n")
    deepest = source
    for _ in range(300):
        deepest /= "d"
        deepest.mkdir()
    for directory in (deepest, source.joinpath(*["d"] * 25), source / "d" / "ignored"):
        directory.mkdir(exist_ok=True)
        (directory / "file").write_text("1")
        (directory / "x.log").write_text("1")
    (deepest / "x.log").unlink()
    async with opened(source, tmp_path / "cache") as checkpoints:
        began = time.monotonic()
        await checkpoints.take(0, "start")
        assert time.monotonic() - began < 5
        assert (await checkpoints.take(1, "again")).files_changed == 0
        names = git(source, "ls-tree", "-r", "--name-only", f"{REF}/0").splitlines()
    deep = [name for name in names if name.startswith("d/")]
    assert deep == ["/".join(["d"] * 300 + ["file"]), "/".join(["d"] * 25 + ["file"])]
