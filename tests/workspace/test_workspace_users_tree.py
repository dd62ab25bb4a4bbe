"""`yb eval` on a user's directory: its changes are exact, and it is never modified."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_repositories import commit, files, git, head
from systems import posix_only
from youbencha.workspace import Changes, RunDirectory
from youbencha.workspace.working_tree import uncommitted_changes


async def look(directory: Path, tmp_path: Path, **about: object) -> Changes | None:
    place = tmp_path / f"ours-{os.urandom(3).hex()}"
    return await uncommitted_changes(directory, place / "start.git", tmp_path / "patch", **about)  # type: ignore[arg-type]


async def changed(directory: Path, tmp_path: Path, **about: object) -> list[tuple[str, str]]:
    changes = await look(directory, tmp_path, **about)
    assert changes is not None
    return [(change.path, change.kind) for change in changes.files]


def everything(directory: Path) -> dict[str, tuple[bytes, int, int]]:
    """Without the times of git's objects: it renews them when it meets one again, so that no clean-up takes it."""
    return {
        str(path): (path.read_bytes(), "objects" in path.parts or path.stat().st_mtime_ns, path.stat().st_mode)
        for path in directory.rglob("*")
        if path.is_file()
    }


async def test_since_the_last_commit(source: Path, tmp_path: Path) -> None:
    (source / "README.md").write_bytes(b"mine\n")
    (source / "new.txt").write_text("new\n")
    (source / "staged.txt").write_text("staged\n")
    git(source, "add", "staged.txt")
    (source / "src" / "code.py").unlink()
    before = everything(source)
    changes = await look(source, tmp_path)
    assert changes is not None
    assert [(change.path, change.kind) for change in changes.files] == [
        ("README.md", "modified"),
        ("new.txt", "added"),
        ("src/code.py", "deleted"),
        ("staged.txt", "added"),
    ]
    assert changes.base_commit == changes.current_commit == head(source)
    assert b"-third\n+mine\n" in changes.patch_file.read_bytes()
    assert everything(source) == before


async def test_a_subdirectory(source: Path, tmp_path: Path) -> None:
    commit(source, {"src/deep/kept.py": "x\n"})
    (source / "README.md").write_text("outside\n")
    (source / "src" / "deep" / "new.py").write_text("x\n")
    assert await changed(source / "src", tmp_path) == [("deep/new.py", "added")]
    (source / "fresh").mkdir()
    (source / "fresh" / "a").write_text("x\n")
    assert await changed(source / "fresh", tmp_path) == [("a", "added")]


async def test_no_repository_no_commit(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert await look(tmp_path / "plain", tmp_path) is None
    git(tmp_path / "plain", "init", "--quiet")
    assert await look(tmp_path / "plain", tmp_path) is None


async def test_ignored_files(source: Path, tmp_path: Path) -> None:
    commit(source, {".gitignore": "*.log\nout/\n", "src/.gitignore": "local\n"})
    for name in ("a.log", "src/b.log", "src/local", "out/x", "local"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("x\n")
    assert await changed(source, tmp_path) == [("local", "added")]
    assert await changed(source / "src", tmp_path) == []
    assert await look(source / "out", tmp_path) is None  # git knows nothing of it


async def test_our_own_files_do_not_count(source: Path, tmp_path: Path) -> None:
    with RunDirectory.create(source / "results-of-mine", "eval") as run:
        (run.artifacts / "x").write_text("x\n")
        other = source / "elsewhere"
        other.mkdir()
        (other / "x").write_text("x\n")
        for name in (".youbencha-workspace", "src/.youbencha-eval"):
            (source / name).mkdir()
            (source / name / "x").write_text("x\n")
        where = (run.private / "start.git", run.artifacts / "patch")
        changes = await uncommitted_changes(source, *where, left_out=[other])
    assert changes is not None
    assert changes.files == ()


async def test_a_linked_working_tree(source: Path, tmp_path: Path) -> None:
    git(source, "worktree", "add", "--quiet", str(tmp_path / "linked"), "solution")
    (tmp_path / "linked" / "SOLUTION").write_text("another\n")
    changes = await look(tmp_path / "linked", tmp_path)
    assert changes is not None
    assert [change.path for change in changes.files] == ["SOLUTION"]
    assert changes.base_commit == head(source, "solution")


async def test_configured_line_ends(source: Path, tmp_path: Path) -> None:
    """Written with CRLF, recorded with LF: nothing has changed."""
    git(source, "config", "core.autocrlf", "true")
    (source / "README.md").write_bytes(b"third\r\n")
    assert await changed(source, tmp_path) == []
    git(source, "config", "core.autocrlf", "false")
    assert await changed(source, tmp_path) == [("README.md", "modified")]


@posix_only("a script in a program's place")
async def test_no_program_is_run(source: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f'#!/bin/sh\ntouch "{tmp_path}/it-ran"\ncat\n')
    trap.chmod(0o755)
    (source / ".gitattributes").write_text("* filter=trap diff=trap\n")
    git(source, "config", "filter.trap.clean", str(trap))
    git(source, "config", "diff.trap.command", str(trap))
    git(source, "config", "core.fsmonitor", str(trap))
    (source / "README.md").write_text("mine\n")
    assert await changed(source, tmp_path) == [(".gitattributes", "added"), ("README.md", "modified")]
    assert not (tmp_path / "it-ran").exists()


async def test_repositories_inside_hide_nothing(source: Path, tmp_path: Path) -> None:
    inner = source / "inner"
    inner.mkdir()
    git(inner, "init", "--quiet")
    (inner / "file").write_text("x\n")
    assert await changed(source, tmp_path) == [("inner/file", "added")]
    assert files(inner) == {"file": "x\n"}


@pytest.mark.parametrize("name", ["with space", "ü", ":(top)", "-x"])
async def test_directories_with_unusual_names(source: Path, tmp_path: Path, name: str) -> None:
    commit(source, {f"{name}/a": "x\n", ".gitignore": "b\n"})
    (source / name / "a").write_text("y\n")
    (source / name / "b").write_text("y\n")
    assert await changed(source / name, tmp_path) == [("a", "modified")]
