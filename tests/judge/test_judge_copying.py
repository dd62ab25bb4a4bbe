"""The copy that a judge works in: all the evidence, no instructions, no link to the original."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from judge_bench import contents

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.evaluators.judge.session import copy_for_judge
from youbencha.workspace.trees import remove_tree


def put(tree: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


def test_files_are_copied_with_their_modes(tmp_path: Path) -> None:
    tree = put(tmp_path / "tree", {"a.txt": "a", "deep/er/b.sh": "b"})
    (tree / "deep/er/b.sh").chmod(0o755)
    (tree / "empty").mkdir()
    assert copy_for_judge(tree, tmp_path / "copy") == []
    assert contents(tmp_path / "copy") == contents(tree)
    assert os.access(tmp_path / "copy/deep/er/b.sh", os.X_OK) or os.name == "nt"
    assert (tmp_path / "copy/empty").is_dir()


def test_instruction_files_are_renamed(tmp_path: Path) -> None:
    instructing = {
        "CLAUDE.md": "1",
        "sub/claude.md": "2",
        "AGENTS.md": "3",
        "GEMINI.md": "4",
        ".claude/settings.json": "5",
        ".claude/agents/agentic-judge.md": "6",
        ".github/agents/agentic-judge.md": "7",
        ".github/copilot-instructions.md": "8",
        ".mcp.json": "9",
    }
    harmless = {".github/workflows/ci.yml": "a", "docs/agents/x.md": "b", "src/claude.py": "c", "instructions/x": "d"}
    tree = put(tmp_path / "tree", {**instructing, **harmless})
    renamed = copy_for_judge(tree, tmp_path / "copy")
    assert renamed == sorted(
        [
            ".claude",
            ".github/agents",
            *(n for n in instructing if n.count("/") == 0),
            ".github/copilot-instructions.md",
            "sub/claude.md",
        ]
    )
    copied = contents(tmp_path / "copy")
    assert not set(copied) & set(instructing)
    assert set(harmless) <= set(copied)
    assert sorted(copied.values()) == sorted(contents(tree).values()), "all of it is there as evidence"


@posix_only("links need a privilege there")
def test_links_point_into_the_copy(tmp_path: Path) -> None:
    tree = put(tmp_path / "tree", {"a.txt": "a", "d/x": "x"})
    (tree / "absolute").symlink_to(tree / "a.txt")
    (tree / "relative").symlink_to("a.txt")
    (tree / "directory").symlink_to(tree / "d")
    (tree / "dangling").symlink_to("nowhere")
    (tree / "loop").symlink_to("loop")
    (tree / "outside").symlink_to("/etc/hostname")
    copy = tmp_path / "copy"
    copy_for_judge(tree, copy)
    (copy / "absolute").write_text("changed")
    (copy / "directory" / "x").write_text("changed")
    (copy / "relative").write_text("changed")
    assert (tree / "a.txt").read_text() == "a"
    assert (tree / "d/x").read_text() == "x"
    assert (copy / "a.txt").read_text() == "changed"
    assert (copy / "outside").readlink() == Path("/etc/hostname")
    assert (copy / "dangling").is_symlink()
    assert (copy / "loop").is_symlink()


@posix_only("links need a privilege there")
def test_a_link_to_a_renamed_file_still_works(tmp_path: Path) -> None:
    tree = put(tmp_path / "tree", {"CLAUDE.md": "the rules"})
    (tree / "AGENTS.md").symlink_to("CLAUDE.md")
    (tree / "GEMINI.md").symlink_to("/etc/passwd")
    copy_for_judge(tree, tmp_path / "copy")
    assert (tmp_path / "copy/AGENTS.md.judged").read_text() == "the rules"
    assert (tmp_path / "copy/GEMINI.md.judged").is_symlink(), "what is outside is not read for it"


@posix_only("there are no such files")
def test_pipes_and_sockets_are_skipped(tmp_path: Path) -> None:
    tree = put(tmp_path / "tree", {"a.txt": "a"})
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tree / "socket"))
        copy_for_judge(tree, tmp_path / "copy")
    assert sorted(contents(tmp_path / "copy")) == ["a.txt"]


@posix_only("files of holes, and paths")
def test_too_large_or_too_deep_files_do_not_prevent_judging(repository: Path, tmp_path: Path) -> None:
    for hole in (repository / "huge", repository / ".git/logs/huge"):
        hole.touch()
        os.truncate(hole, 5 * 1024**4)
    copy = tmp_path / "a-longer-name-than-that-of-the-tree"
    try:
        for top in (repository, repository / ".git" / "refs"):
            nest(top, 60)
        copy_for_judge(repository, copy)
        for hole in (copy / "huge", copy / ".git/logs/huge"):
            assert hole.stat().st_size == 5 * 1024**4
            assert hole.stat().st_blocks * 512 < 10_000_000
        assert (copy / "a.txt").read_text() == "two\n"
        assert (copy / ("d" * 200) / ("d" * 200) / "file").is_file()
    finally:
        for each in (repository, copy):
            remove_tree(each)


def nest(tree: Path, depth: int) -> None:
    """Directories in directories, each with a file: deeper than a path can name."""
    fd = os.open(tree, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 200, dir_fd=fd)
        above, fd = fd, os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(above)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.close(fd)


def test_a_copy_inside_the_tree_does_not_contain_itself(tmp_path: Path) -> None:
    tree = put(tmp_path / "tree", {"a.txt": "a", ".youbencha-eval/old/results.json": "{}"})
    copy_for_judge(tree, tree / ".youbencha-eval" / "scratch" / "copy")
    assert sorted(contents(tree / ".youbencha-eval/scratch/copy")) == ["a.txt"]


def test_our_own_files_are_not_copied(tmp_path: Path) -> None:
    tree = put(tmp_path / "tree", {"a.txt": "a", "deep/results/old.json": "{}", "results/theirs": "b"})
    copy_for_judge(tree, tmp_path / "copy", skip=[(tree / "deep" / "results").resolve()])
    assert sorted(contents(tmp_path / "copy")) == ["a.txt", "results/theirs"]


@posix_only("permissions are others there")
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_directory_is_an_error(tmp_path: Path) -> None:
    tree = put(tmp_path / "tree", {"hidden/a": "a"})
    (tree / "hidden").chmod(0)
    with pytest.raises(YouBenchaError, match="hidden"):
        copy_for_judge(tree, tmp_path / "copy")
    (tree / "hidden").chmod(0o700)


def test_a_missing_tree_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(YouBenchaError) as raised:
        copy_for_judge(tmp_path / "nothing", tmp_path / "copy")
    assert raised.value.code == "JUDGE_COPY_FAILED"


# -- git -------------------------------------------------------------------------------------------------------------


def git(tree: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=tree, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    tree = put(tmp_path / "tree", {"a.txt": "one\n"})
    git(tree, "init", "--quiet", "--initial-branch=main")
    git(tree, "add", "-A")
    git(tree, "commit", "--quiet", "-m", "the beginning")
    (tree / "a.txt").write_text("two\n")
    return tree


def test_the_judge_sees_the_history(repository: Path, tmp_path: Path) -> None:
    copy_for_judge(repository, tmp_path / "copy")
    assert "the beginning" in git(tmp_path / "copy", "log")
    assert "+two" in git(tmp_path / "copy", "diff")


def test_the_judges_commits_are_only_in_its_copy(repository: Path, tmp_path: Path) -> None:
    before = contents(repository)
    copy_for_judge(repository, tmp_path / "copy")
    git(tmp_path / "copy", "commit", "--quiet", "-am", "the judge was here")
    git(tmp_path / "copy", "gc", "--quiet", "--prune=now")
    assert contents(repository) == before


@posix_only("the commands are shell scripts")
def test_commands_in_the_agents_git_configuration_do_not_run(repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch '{tmp_path}/sprung'\n")
    trap.chmod(0o755)
    git(repository, "config", "core.fsmonitor", f"'{trap}'")
    git(repository, "config", "diff.external", f"'{trap}'")
    (repository / ".git/hooks/pre-commit").write_bytes(trap.read_bytes())
    (repository / ".git/hooks/pre-commit").chmod(0o755)
    (repository / ".git/config.worktree").write_text(f"[core]\n\tfsmonitor = '{trap}'\n")
    copy_for_judge(repository, tmp_path / "copy")
    git(tmp_path / "copy", "status")
    git(tmp_path / "copy", "diff")
    git(tmp_path / "copy", "commit", "--quiet", "-am", "x")
    assert not (tmp_path / "sprung").exists()
    git(repository, "status")
    assert (tmp_path / "sprung").exists(), "the trap would have sprung"


@pytest.mark.parametrize("what", ["file", "empty", "no objects"])
def test_an_invalid_git_directory_is_left_out(what: str, tmp_path: Path) -> None:
    tree = put(tmp_path / "tree", {"a.txt": "a"})
    if what == "file":
        (tree / ".git").write_text(f"gitdir: {tmp_path}/elsewhere\n")
    else:
        (tree / ".git").mkdir()
        (tree / ".git/HEAD").write_text("ref: refs/heads/main\n")
    if what == "empty":
        (tree / ".git/HEAD").unlink()
    copy_for_judge(tree, tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["a.txt"]
