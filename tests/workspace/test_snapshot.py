"""What changed since a snapshot, whatever an agent did to the repository meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from git_repositories import git
from systems import ON_LINUX, posix_only
from youbencha.errors import YouBenchaError
from youbencha.workspace import Snapshot

needs_posix = posix_only("links, pipes, names and paths that it does not have")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    path.mkdir()
    (path / "kept.txt").write_text("kept\n")
    (path / "changed.txt").write_bytes(b"before\n")
    (path / "deleted.txt").write_text("gone\n")
    return path


async def start(tree: Path) -> Snapshot:
    return await Snapshot.take(tree, tree.parent / "start.git")


async def diff(snapshot: Snapshot) -> bytes:
    return (await snapshot.changes(snapshot.git_dir / "diff.patch")).patch_file.read_bytes()


def restored(before: Path, patch: bytes) -> dict[str, bytes | str]:
    """What comes of the earlier state and the patch."""
    copy = before.with_name("applied")
    shutil.copytree(before, copy, symlinks=True)
    if patch:
        apply = ["git", "-c", "core.protectNTFS=false", "apply", "--binary", "--whitespace=nowarn"]
        subprocess.run(apply, cwd=copy, input=patch, check=True)
    return contents(copy)


def contents(tree: Path) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for folder, directories, names in os.walk(tree):
        directories[:] = [name for name in directories if name != ".git"]
        for name in [*names, *directories]:
            path = Path(folder) / name
            if path.is_symlink():
                found[str(path.relative_to(tree))] = str(path.readlink())
            elif path.is_file():
                found[str(path.relative_to(tree))] = path.read_bytes()
    return found


async def test_nothing_changed(tree: Path) -> None:
    snapshot = await start(tree)
    assert await diff(snapshot) == b""


async def test_new_changed_and_deleted(tree: Path) -> None:
    snapshot = await start(tree)
    (tree / "sub").mkdir()
    (tree / "sub" / "new.txt").write_text("new\n")
    (tree / "changed.txt").write_bytes(b"after\n")
    (tree / "deleted.txt").unlink()
    patch = (await diff(snapshot)).decode()
    assert "-before\n+after\n" in patch
    assert "deleted file mode 100644" in patch
    assert "+++ b/sub/new.txt" in patch
    assert "kept" not in patch


async def test_the_patch_is_the_whole_difference(tree: Path) -> None:
    """Applied to the earlier state, it gives the later one, byte for byte."""
    (tree / "binary").write_bytes(bytes(range(256)) * 20)
    (tree / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    before = tree.parent / "before"
    shutil.copytree(tree, before)
    snapshot = await start(tree)
    (tree / "binary").write_bytes(bytes(reversed(range(256))) * 20)
    (tree / "new-binary").write_bytes(os.urandom(5000))
    (tree / "latin.txt").write_bytes("caf\xe9 d\xe9j\xe0\n".encode("latin-1"))
    (tree / "crlf.txt").write_bytes(b"a\nb\r\n")
    (tree / "no-newline").write_bytes(b"end")
    (tree / "größe 漢 🙂.txt").write_text("ü\n")
    (tree / "-dash").write_text("x\n")
    (tree / "changed.txt").unlink()
    (tree / "changed.txt").mkdir()
    (tree / "changed.txt" / "inside").write_text("a directory in a file's place\n")
    patch = await diff(snapshot)
    assert restored(before, patch) == contents(tree)
    assert "größe 漢 🙂.txt".encode() in patch  # readable, not as numbers


@needs_posix
async def test_links_modes_and_unusual_names(tree: Path) -> None:
    before = tree.parent / "before"
    shutil.copytree(tree, before)
    snapshot = await start(tree)
    (tree / "link").symlink_to("/etc/passwd")
    (tree / "link-to-directory").symlink_to("..")
    (tree / "kept.txt").chmod(0o755)
    (tree / 'a "quoted" \t name\\with\nnewline').write_text("x\n")
    (tree / "git~1").write_text("a name that Windows would fear\n")
    os.mkfifo(tree / "pipe")
    if ON_LINUX:  # macOS has no such names
        with open(os.fsencode(tree) + b"/caf\xe9", "wb") as file:
            file.write(b"a name that is no UTF-8\n")
    patch = await diff(snapshot)
    assert b"root:" not in patch  # the link, not what it leads to
    assert b"old mode 100644\nnew mode 100755" in patch
    assert restored(before, patch) == contents(tree)
    assert b"pipe" not in patch


async def test_a_patch_larger_than_the_log_limit(tree: Path) -> None:
    snapshot = await start(tree)
    (tree / "large.txt").write_bytes(b"0123456789abcde\n" * 700_000)
    patch = await diff(snapshot)
    assert patch.count(b"\n+0123456789abcde") == 700_000
    assert b"TRUNCATED" not in patch


async def test_an_empty_tree(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    snapshot = await start(tree)
    assert await diff(snapshot) == b""
    (tree / "first").write_text("x\n")
    assert b"+++ b/first" in await diff(snapshot)


async def test_everything_deleted(tree: Path) -> None:
    snapshot = await start(tree)
    for path in tree.iterdir():
        path.unlink()
    assert (await diff(snapshot)).count(b"deleted file mode") == 3
    tree.rmdir()
    assert (await diff(snapshot)).count(b"deleted file mode") == 3


async def test_diff_twice(tree: Path) -> None:
    snapshot = await start(tree)
    (tree / "new").write_text("x\n")
    first = await diff(snapshot)
    assert await diff(snapshot) == first
    (tree / "new").unlink()
    assert await diff(snapshot) == b""


async def test_a_change_with_the_same_size_and_time(tree: Path) -> None:
    snapshot = await start(tree)
    path = tree / "changed.txt"
    before = path.stat()
    path.write_text("BEFORE\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert b"+BEFORE" in await diff(snapshot)


# -- agents that use git -----------------------------------------------------------------------------------------


async def test_committed_changes_are_shown(tree: Path) -> None:
    git(tree, "init", "--quiet")
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "-m", "start")
    snapshot = await start(tree)
    (tree / "changed.txt").write_text("after\n")
    git(tree, "commit", "--quiet", "-am", "mine")
    patch = await diff(snapshot)
    assert b"+after" in patch
    assert b".git/" not in patch
    git(tree, "reset", "--quiet", "--hard", "HEAD~1")
    assert await diff(snapshot) == b""
    shutil.rmtree(tree / ".git")
    (tree / "changed.txt").write_text("after\n")
    assert b"+after" in await diff(snapshot)


async def test_the_agents_repository_is_unchanged(tree: Path) -> None:
    git(tree, "init", "--quiet")
    before = contents(tree / ".git")
    snapshot = await start(tree)
    await diff(snapshot)
    assert contents(tree / ".git") == before


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_repository_inside_hides_nothing(tree: Path, commits: bool, when: str) -> None:
    inner = tree / "inner"
    snapshot = await start(tree) if when == "after" else None
    inner.mkdir()
    git(inner, "init", "--quiet")
    (inner / "file").write_text("one\n")
    if commits:
        git(inner, "add", ".")
        git(inner, "commit", "--quiet", "-m", "x")
    snapshot = snapshot or await start(tree)
    (inner / "file").write_text("two\n")
    patch = await diff(snapshot)
    assert b"+++ b/inner/file" in patch
    assert b"+two" in patch
    assert b"Subproject" not in patch


async def test_a_git_file_is_not_part_of_the_tree(tree: Path) -> None:
    snapshot = await start(tree)
    (tree / ".git").write_text("gitdir: /nowhere\n")
    (tree / "sub").mkdir()
    (tree / "sub" / ".GIT").write_text("gitdir: /nowhere\n")
    assert await diff(snapshot) == b""


@needs_posix
async def test_planted_programs_do_not_run(tree: Path) -> None:
    """Hooks, filters, monitors, drivers: in its repository, in one inside it, and in attributes."""
    marker = tree.parent / "it-ran"
    run_me = tree.parent / "run-me"
    run_me.write_text(f'#!/bin/sh\ntouch "{marker}"\ncat\n')
    run_me.chmod(0o755)
    snapshot = await start(tree)
    inner = tree / "inner"
    inner.mkdir()
    for repository in (tree, inner):
        git(repository, "init", "--quiet")
        (repository / "file").write_text("x\n")
        git(repository, "add", "file")
        git(repository, "commit", "--quiet", "-m", "x")
        for hook in (
            "pre-commit",
            "post-commit",
            "post-index-change",
            "post-checkout",
            "pre-auto-gc",
            "fsmonitor-watchman",
        ):
            path = repository / ".git" / "hooks" / hook
            path.parent.mkdir(exist_ok=True)
            shutil.copy(run_me, path)
        (repository / ".git" / "config").write_text(
            f'[core]\nfsmonitor = "{run_me}"\nhooksPath = "{repository}/.git/hooks"\npager = "{run_me}"\n'
            f'[filter "evil"]\nclean = "{run_me}"\nsmudge = "{run_me}"\nprocess = "{run_me}"\nrequired = true\n'
            f'[diff "evil"]\ncommand = "{run_me}"\ntextconv = "{run_me}"\n[diff]\nexternal = "{run_me}"\n'
        )
        (repository / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (tree / "changed.txt").write_text("after\n")
    patch = await diff(snapshot)
    assert b"+after" in patch
    assert not marker.exists()


@pytest.mark.parametrize(
    "attributes",
    ["* text eol=crlf", "* working-tree-encoding=UTF-16", "* ident", "* -diff", "* binary", "* export-ignore"],
)
async def test_attributes_change_nothing(tree: Path, attributes: str) -> None:
    snapshot = await start(tree)
    (tree / ".gitattributes").write_text(attributes + "\n")
    (tree / "changed.txt").write_bytes(b"$Id: mine $\r\n")
    patch = await diff(snapshot)
    assert b"+$Id: mine $\r\n" in patch


async def test_the_harnesss_git_settings_are_ignored(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tree.parent / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\nautocrlf = true\nexcludesFile = /nowhere\n[diff]\nnoprefix = true\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere")
    snapshot = await start(tree)
    (tree / "changed.txt").write_text("after\n")
    assert b"diff --git a/changed.txt b/changed.txt" in await diff(snapshot)


async def test_without_git(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tree))
    with pytest.raises(YouBenchaError, match="git is not on PATH") as caught:
        await start(tree)
    assert caught.value.code == "GIT_NOT_FOUND"
    assert caught.value.hint


async def test_a_git_failure_is_reported_with_its_reason(tree: Path) -> None:
    snapshot = await start(tree)
    (snapshot.git_dir / "HEAD").write_text("nonsense")
    with pytest.raises(YouBenchaError, match=r"git \S+ failed: \S+") as caught:
        await diff(snapshot)
    assert caught.value.code == "GIT_FAILED"


@needs_posix
async def test_directories_deeper_than_the_recursion_limit(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    snapshot = await Snapshot.take(tree, tmp_path / "git")
    here = os.open(tree, os.O_RDONLY)
    for _ in range(1200):  # one by one: the whole path is longer than a call may name
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    try:
        assert await diff(snapshot) == b""
    finally:
        subprocess.run(["rm", "-rf", tree], check=True)  # pytest's own clean-up would go too deep
