"""Checkpoints of a user's tree: what they record, what they leave alone, and how a tree is restored from them."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from checkpoint_trees import LOOP, opened, tree_of, users_state

from git_repositories import commit, commit_many, git, head
from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.workspace import recording
from youbencha.workspace.checkpoints import REFS, loops_with_checkpoints
from youbencha.workspace.listing import MAX_FILE_BYTES

pytestmark = posix_only("directories are opened, and links are not followed")
REF = f"{REFS}/{LOOP}"


def listed(repository: Path, name: str) -> list[str]:
    return git(repository, "ls-tree", "-r", "--name-only", f"{REF}/{name}").splitlines()


async def test_what_is_recorded(source: Path, tmp_path: Path) -> None:
    """Tracked, untracked and deleted files, modes, links, binary files; neither ignored ones nor `.ralph`."""
    commit(source, {".gitignore": "*.o\nbuild/\n", "forced.o": "", "gone": "x", "run.sh": "#!/bin/sh\n"})
    git(source, "add", "-f", "forced.o")
    git(source, "commit", "-qm", "forced")
    (source / "gone").unlink()
    (source / "run.sh").chmod(0o755)
    (source / "binary").write_bytes(bytes(range(256)))
    (source / "link").symlink_to("nowhere/at all")
    for name in ("x.o", "build/a", "build/b/c", ".ralph/agent/scratchpad.md", "new/deep/file"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    async with opened(source, tmp_path / "cache") as checkpoints:
        taken = await checkpoints.take(0, "start")
    assert (taken.number, taken.files_changed, taken.warning) == (0, 0, None)
    assert git(source, "rev-parse", f"{REF}/0") == taken.commit
    assert listed(source, "0") == [
        ".gitignore", "README.md", "binary", "forced.o", "link", "new/deep/file", "run.sh", "src/code.py",
    ]  # fmt: skip
    modes = git(source, "ls-tree", f"{REF}/0", "run.sh", "link", "binary")
    assert [line.split()[0] for line in modes.splitlines()] == ["100644", "120000", "100755"]
    assert git(source, "rev-parse", f"{REF}/0^") == head(source)
    git(source, "fsck", "--strict")


async def test_caches_of_tools_are_neither_recorded_nor_removed(source: Path, tmp_path: Path) -> None:
    """Unless they are tracked. Restoring a checkpoint does not change the user's caches."""
    commit(source, {".tox/tracked": "1"})
    for name in (".pytest_cache/old", "src/__pycache__/code.pyc"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("1")
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        for name in (".pytest_cache/new", ".tox/tracked", "new/__pycache__/a.pyc", "new/a.py"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text("2")
        assert (await checkpoints.take(1, "one")).files_changed == 2
        assert (await checkpoints.restore("0")).paths == (".tox/tracked", "new/a.py")
    assert not [name for name in listed(source, "1") if "cache" in name]
    assert (source / ".tox/tracked").read_text() == "1"
    assert all((source / name).exists() for name in (".pytest_cache/old", ".pytest_cache/new", "new/__pycache__/a.pyc"))


async def test_files_changed_is_compared_with_the_checkpoint_before(source: Path, tmp_path: Path) -> None:
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        (source / "a").write_text("1")
        (source / "README.md").unlink()
        assert (await checkpoints.take(1, "one")).files_changed == 2
        same = await checkpoints.take(2, "two")
        (source / "src/code.py").chmod(0o755)
        assert "src/code.py" in await checkpoints.diff(2)
        assert (await checkpoints.take(3, "three")).files_changed == 1, "a diff in between must not count as one"
        found = await checkpoints.list()
    assert same.files_changed == 0
    assert git(source, "rev-parse", f"{REF}/2") == git(source, "rev-parse", f"{REF}/1")
    assert [(each.number, each.files_changed) for each in found] == [(0, 0), (1, 2), (2, 0), (3, 1)]


async def test_nothing_of_the_user_is_touched(source: Path, tmp_path: Path) -> None:
    """Index, HEAD, branches, stash, reflogs and configuration are the same, byte by byte; so are the files."""
    (source / "README.md").write_text("stashed")
    git(source, "stash", "--quiet")
    (source / "staged").write_text("staged")
    git(source, "add", "staged")
    (source / "README.md").write_text("not staged")
    before, files = users_state(source / ".git"), tree_of(source)
    assert {"index", "HEAD", "refs/heads/main", "refs/stash", "logs/refs/stash"} <= before.keys()
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        assert users_state(source / ".git") == before
        (source / "new").write_text("new")
        await checkpoints.take(1, "one")
        await checkpoints.diff(0, 1)
        await checkpoints.restore("0")
    assert users_state(source / ".git") == before
    assert tree_of(source) == files
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.remove()
    assert users_state(source / ".git") == before
    assert git(source, "for-each-ref", "refs/youbencha") == ""


async def test_changes_that_hide_are_found(source: Path, tmp_path: Path) -> None:
    """The same size and the same times; and writes within one tick of the clock."""
    file = source / "README.md"
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        for number in range(1, 30):
            about = file.stat()
            file.write_text(f"{number:05}\n")
            os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
            await checkpoints.take(number, "hidden")
            assert git(source, "show", f"{REF}/{number}:README.md") == f"{number:05}"
        time.sleep(0.06)  # until all times are certain
        await checkpoints.take(30, "settled")
        about = file.stat()
        other = source / "other"
        other.write_text("99999\n")
        os.utime(other, ns=(about.st_atime_ns, about.st_mtime_ns))
        other.replace(file)
        assert (await checkpoints.take(31, "replaced")).files_changed == 1


async def test_a_coarse_clock(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes within one tick leave the same times: the file is read again, until its time is certain."""
    tick = 20_000_000

    def coarse(about: os.stat_result) -> recording._Stamp:
        times = (about.st_mtime_ns // tick * tick, about.st_ctime_ns // tick * tick)
        return recording._Stamp(about.st_mode, about.st_size, *times, about.st_ino)

    monkeypatch.setattr(recording, "_stamp", coarse)
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        for number in range(1, 30):
            (source / "README.md").write_text(f"{number:05}\n")
            assert (await checkpoints.take(number, "again")).files_changed == 1


async def test_ignore_rules_of_today_apply_to_new_files(source: Path, tmp_path: Path) -> None:
    """A build directory that is ignored later is left out; a file of the start is not."""
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        for number in range(3):
            (source / "node_modules" / str(number)).mkdir(parents=True)
            (source / "node_modules" / str(number) / "index.js").write_text("1")
        assert (await checkpoints.take(1, "before")).files_changed == 3
        (source / ".gitignore").write_text("node_modules/\nsrc/\n")
        await checkpoints.take(2, "after")
        assert listed(source, "2") == [".gitignore", "README.md", "src/code.py"]
        (source / "src/other.py").write_text("")
        (source / ".gitignore").write_text("node_modules/\n")
        await checkpoints.take(3, "again")
    assert listed(source, "3") == [".gitignore", "README.md", "src/code.py", "src/other.py"]


async def test_rules_of_the_user_and_of_the_repository(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "git").mkdir(parents=True)
    (tmp_path / "config" / "git" / "ignore").write_text("*.swp\n")
    (source / ".git" / "info" / "exclude").write_text("private\n")
    for name in ("a.swp", "private", "public"):
        (source / name).touch()
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
    assert listed(source, "0") == ["README.md", "public", "src/code.py"]


async def test_restore(source: Path, tmp_path: Path) -> None:
    (source / "run").write_text("x")
    (source / "run").chmod(0o750)
    (source / "link").symlink_to("run")
    (source / "secret").write_text("s")
    (source / "secret").chmod(0o600)
    (source / "README.md").chmod(0o666)
    before = tree_of(source)
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        (source / "run").chmod(0o640)
        (source / "secret").write_text("changed")
        (source / "README.md").write_text("changed")
        (source / "link").unlink()
        (source / "link").mkdir()
        (source / "link" / "file").write_text("1")
        (source / "new" / "deep").mkdir(parents=True)
        (source / "new" / "deep" / "file").write_text("1")
        (source / "src/code.py").unlink()
        (source / "src").rmdir()
        (source / "src").write_text("a file now")
        after = tree_of(source)
        expected = ("README.md", "link", "link/file", "new/deep/file", "run", "secret", "src", "src/code.py")
        assert await checkpoints.changes("0") == expected
        assert tree_of(source) == after
        restored = await checkpoints.restore("0")
        assert tree_of(source) == before
        assert restored.paths == expected
        assert not (source / "new").exists(), "directories that are empty now are removed"
        modes = [oct((source / name).stat().st_mode)[-3:] for name in ("secret", "run", "README.md")]
        assert modes == ["600", "750", "666"]
        await checkpoints.restore(restored.kept_as)
        assert tree_of(source) == after
        assert await checkpoints.changes(restored.kept_as) == ()


async def test_restore_leaves_ignored_files_alone(source: Path, tmp_path: Path) -> None:
    """Those that are ignored now, and those that were ignored then: the agent removed the rule."""
    commit(source, {".gitignore": ".env\n*.log\n"})
    (source / ".env").write_text("the user's")
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        (source / ".gitignore").write_text("*.tmp\n")
        (source / "a.tmp").write_text("ignored now")
        (source / "new").write_text("new")
        await checkpoints.take(1, "one")
        await checkpoints.restore("0")
    assert {path.name for path in source.iterdir()} == {".git", ".gitignore", ".env", "a.tmp", "README.md", "src"}


async def test_restore_keeps_what_was_ignored_since(source: Path, tmp_path: Path) -> None:
    """A file of an earlier checkpoint that is ignored now is replaced, and its present content is kept."""
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        (source / "notes").write_text("one")
        await checkpoints.take(1, "one")
        (source / ".gitignore").write_text("notes\n")
        (source / "notes").write_text("two")
        await checkpoints.take(2, "two")
        restored = await checkpoints.restore("1")
        assert (source / "notes").read_text() == "one"
        assert git(source, "show", f"{REF}/{restored.kept_as}:notes") == "two"


async def test_restore_names_files_that_it_cannot_recreate(source: Path, tmp_path: Path) -> None:
    """Of two files that were not recorded, the one that still exists stays, and the one that is gone is named."""
    for name in ("large one", "large two"):
        with (source / name).open("wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        (source / "large one").unlink()
        (source / "large two").write_text("small")
        (source / "new").write_text("x")
        await checkpoints.take(1, "one")
    async with opened(source, tmp_path / "cache") as checkpoints:
        assert await checkpoints.missing("0") == ("large one",)
        assert (await checkpoints.restore("0")).paths == ("new",)
        assert await checkpoints.missing("1") == ()
    assert (source / "large two").read_text() == "small"


async def test_restore_refuses_what_it_would_lose(source: Path, tmp_path: Path) -> None:
    commit(source, {".gitignore": "*.o\n", "data": "small", "other": "x"})
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        with (source / "data").open("wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
        taken = await checkpoints.take(1, "one")
        assert taken.warning == "not in the checkpoint, because too large or not readable: data"
        (source / "other").write_text("y")
        with pytest.raises(YouBenchaError, match="data would be replaced") as caught:
            await checkpoints.restore("0")
        assert caught.value.code == "RESTORE_WOULD_LOSE"
        (source / "data").unlink()
        (source / "data").mkdir()
        (source / "data" / "ignored.o").write_text("precious")
        with pytest.raises(YouBenchaError, match=r"data/ignored.o is in the way of data"):
            await checkpoints.restore("0")
        assert (source / "other").read_text() == "y"
        (source / "data" / "ignored.o").unlink()
        (source / "data" / "empty").mkdir()
        await checkpoints.restore("0")
    assert (source / "data").read_text() == "small"


async def test_an_unknown_checkpoint(source: Path, tmp_path: Path) -> None:
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        with pytest.raises(YouBenchaError, match="has no checkpoint 7") as caught:
            await checkpoints.restore("7")
    assert caught.value.hint == "There are: 0."


async def test_diff_is_text_and_bounded(source: Path, tmp_path: Path) -> None:
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        (source / "README.md").write_text("fourth\n")
        (source / "latin").write_bytes(b"caf\xe9\n")
        (source / "binary").write_bytes(b"\0" * 100)
        now = await checkpoints.diff(0)
        await checkpoints.take(1, "one")
        assert await checkpoints.diff(0, 1) == now
        assert await checkpoints.diff(1) == ""
        assert "-third\n+fourth\n" in now
        assert "+caf\N{REPLACEMENT CHARACTER}" in now
        assert "Binary files /dev/null and b/binary differ" in now
        assert "3 files changed" in now
        exact = await checkpoints.patch("0", "1", style="exact")
        (source / "long").write_text("a line\n" * 500_000)
        assert (await checkpoints.diff(1)).endswith("… the rest is not shown\n")
    git(source, "clean", "-qfd")
    git(source, "checkout", "-q", ".")
    subprocess.run(["git", "apply"], cwd=source, input=exact, check=True)
    assert (source / "latin").read_bytes() == b"caf\xe9\n"
    assert (source / "binary").read_bytes() == b"\0" * 100


async def test_a_loop_goes_on(source: Path, tmp_path: Path) -> None:
    """Another process continues: a file of the start still counts, and the parent is the last checkpoint."""
    commit(source, {"kept": "1"})
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        (source / "a").write_text("1")
        await checkpoints.take(1, "one")
    (source / ".gitignore").write_text("kept\n")
    (source / "a").write_text("2")
    async with opened(source, tmp_path / "cache") as checkpoints:
        assert (await checkpoints.take(2, "two")).files_changed == 2
        assert (await checkpoints.take(2, "two again")).files_changed == 0
    assert "kept" in listed(source, "2")
    assert git(source, "rev-parse", f"{REF}/2^") == git(source, "rev-parse", f"{REF}/1")
    assert loops_with_checkpoints(source / "src") == [LOOP]


async def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "--quiet")
    async with opened(tmp_path / "new", tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "empty")
        (tmp_path / "new" / "a").write_text("1")
        assert (await checkpoints.take(1, "one")).files_changed == 1
        await checkpoints.restore("0")
    assert tree_of(tmp_path / "new") == {}
    git(tmp_path / "new", "fsck", "--strict")


async def test_not_a_repository(tmp_path: Path) -> None:
    with pytest.raises(YouBenchaError, match="is not in a git repository") as caught:
        async with opened(tmp_path, tmp_path / "cache"):
            pass
    assert caught.value.code == "REPO_NOT_FOUND"


async def test_a_linked_working_tree(source: Path, tmp_path: Path) -> None:
    git(source, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    before = users_state(source / ".git")
    (tmp_path / "linked" / "new").write_text("1")
    async with opened(tmp_path / "linked", tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        (tmp_path / "linked" / "new").unlink()
        await checkpoints.restore("0")
    assert (tmp_path / "linked" / "new").read_text() == "1"
    assert users_state(source / ".git") == before
    assert "new" in listed(source, "0")


async def test_a_directory_of_a_repository(source: Path, tmp_path: Path) -> None:
    """Only the directory is recorded; rules above it apply, also when they change."""
    commit(source, {".gitignore": "*.o\n", "src/lib/x.py": "", "src/forced.o": ""})
    git(source, "add", "-f", "src/forced.o")
    git(source, "commit", "-qm", "forced")
    (source / "src/a.o").touch()
    async with opened(source / "src", tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        assert listed(source, "0") == ["code.py", "forced.o", "lib/x.py"]
        (source / ".gitignore").write_text("")
        (source / "elsewhere").touch()
        await checkpoints.take(1, "one")
        assert listed(source, "1") == ["a.o", "code.py", "forced.o", "lib/x.py"]
        await checkpoints.restore("0")
    assert (source / "elsewhere").exists()


@pytest.mark.parametrize("length", [40, 64])
async def test_both_kinds_of_hashes(tmp_path: Path, length: int) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    git(tree, "init", "--quiet", f"--object-format={'sha256' if length == 64 else 'sha1'}")
    commit(tree, {"a": "1", "b/c": "2"})
    async with opened(tree, tmp_path / "cache") as checkpoints:
        assert len((await checkpoints.take(0, "start")).commit) == length
        (tree / "b/c").write_text("3")
        await checkpoints.take(1, "one")
        await checkpoints.restore("0")
    assert (tree / "b/c").read_text() == "2"
    git(tree, "fsck", "--strict")


async def test_repositories_inside(source: Path, tmp_path: Path) -> None:
    """Their files are recorded as any others, not as submodules; their `.git` is left alone."""
    inner = source / "vendor" / "inner"
    inner.mkdir(parents=True)
    git(inner, "init", "--quiet")
    commit(inner, {"code": "1"})
    git(source, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "module")
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        assert {"vendor/inner/code", "module/code"} <= set(listed(source, "0"))
        state = users_state(inner / ".git")
        (inner / "code").write_text("2")
        (source / "module" / "code").unlink()
        (source / "src" / ".git").mkdir()  # planted: git would now hide what is in there
        (source / "src" / "code.py").write_text("hidden")
        assert (await checkpoints.take(1, "one")).files_changed == 3
        await checkpoints.restore("0")
    assert (inner / "code").read_text() == (source / "module" / "code").read_text() == "1"
    assert users_state(inner / ".git") == state


async def test_rules_apply_in_repositories_inside(source: Path, tmp_path: Path) -> None:
    """Their own, those above them, and those of a repository in one of them."""
    commit(source, {".gitignore": "*.log\n"})
    for inner in (source / "inner", source / "inner" / "deeper"):
        inner.mkdir()
        git(inner, "init", "--quiet")
        (inner / ".gitignore").write_text("build/\n")
        for name in ("build/out", "a.log", "kept", "__pycache__/a.pyc", ".git/planted"):
            (inner / name).parent.mkdir(exist_ok=True)
            (inner / name).write_text("1")
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
    inside = [name for name in listed(source, "0") if name.startswith("inner/")]
    assert inside == ["inner/.gitignore", "inner/deeper/.gitignore", "inner/deeper/kept", "inner/kept"]


async def test_line_ends_and_filters_are_not_converted(source: Path, tmp_path: Path) -> None:
    commit(source, {".gitattributes": "* text eol=crlf ident\n"})
    (source / "dos").write_bytes(b"one\r\n$Id$\r\n")
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        (source / "dos").write_bytes(b"one\n")
        await checkpoints.take(1, "one")
        await checkpoints.restore("0")
    assert (source / "dos").read_bytes() == b"one\r\n$Id$\r\n"


async def test_many_files(source: Path, tmp_path: Path) -> None:
    """Objects that are in a pack are not written again."""
    commit_many(source, 1000)
    git(source, "reset", "--quiet", "--hard")
    before = git(source, "count-objects")
    async with opened(source, tmp_path / "cache") as checkpoints:
        await checkpoints.take(0, "start")
        assert int(git(source, "count-objects").split()[0]) == int(before.split()[0]) + 1, "the commit"
        (source / "d1/e1/f1.txt").write_text("changed")
        assert (await checkpoints.take(1, "one")).files_changed == 1
    assert git(source, "diff", "--stat", "--summary", f"{REF}/0", f"{REF}/1").endswith("1 deletion(-)")
