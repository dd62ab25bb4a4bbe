"""Linked working trees for loops beside another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_checkpoints_hostile import set_traps

from git_repositories import commit, git, head
from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.workspace.working_tree import add_worktree, list_worktrees, remove_worktree

pytestmark = posix_only("checkpoints")


async def test_a_worktree_is_made_and_removed(source: Path) -> None:
    (source / "README.md").write_text("not committed")
    made = await add_worktree(source / "src", "one")
    assert made == source.parent / "source-worktrees" / "one" / "src"
    assert (made / "code.py").read_text() == "print(1)\n"
    assert (made.parent / "README.md").read_text() == "third\n"
    assert git(made, "rev-parse", "--abbrev-ref", "HEAD") == "ralph/one"
    assert git(made, "status", "--porcelain") == ""
    (found,) = await list_worktrees(source)
    assert (found.name, found.merged) == ("one", True)
    await remove_worktree(source, found)
    assert not made.parent.exists()
    assert await list_worktrees(source) == []
    assert git(source, "branch", "--list", "ralph/*") == ""


async def test_work_that_is_not_merged_is_kept(source: Path) -> None:
    made = await add_worktree(source, "one")
    (made / "new").write_text("1")
    (found,) = await list_worktrees(source)
    with pytest.raises(YouBenchaError, match="contains modified or untracked files"):
        await remove_worktree(source, found)
    last = commit(made, {"new": "2"})
    (found,) = await list_worktrees(made)
    assert not found.merged, "also seen from the working tree itself"
    with pytest.raises(YouBenchaError, match="its branch ralph/one is not merged"):
        await remove_worktree(source, found)
    (made / "new").write_text("3")
    await remove_worktree(source, found, force=True)
    assert not made.exists()
    assert head(source, "ralph/one") == last, "commits are not lost"


async def test_other_worktrees_are_none_of_ours(source: Path, tmp_path: Path) -> None:
    git(source, "worktree", "add", "--quiet", "-b", "ralph/other", str(tmp_path / "other"))
    git(source, "worktree", "add", "--quiet", "-b", "mine", str(source.parent / "source-worktrees" / "mine"))
    assert await list_worktrees(source) == []


async def test_no_hook_and_no_filter_is_run(source: Path, tmp_path: Path) -> None:
    commit(source, {".gitattributes": "* filter=trap\n"})
    trace = tmp_path / "trace"
    set_traps(source, trace)
    made = await add_worktree(source, "one")
    (found,) = await list_worktrees(source)
    (made / "README.md").write_text("x")
    with pytest.raises(YouBenchaError):
        await remove_worktree(source, found)
    await remove_worktree(source, found, force=True)
    assert not trace.exists()


async def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "--quiet")
    with pytest.raises(YouBenchaError, match="Cannot create") as caught:
        await add_worktree(tmp_path / "new", "one")
    assert caught.value.hint is not None
    assert "at least one commit" in caught.value.hint
    with pytest.raises(YouBenchaError, match="is not in a git repository"):
        await add_worktree(tmp_path, "one")
