"""A run directory whose agent works in a user's directory, which is never created, restored or removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.workspace import RunDirectory

pytestmark = posix_only("links")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    path.mkdir()
    (path / "file").write_text("mine")
    return path


@pytest.fixture
def run(tree: Path, tmp_path: Path) -> RunDirectory:
    return RunDirectory.create_at(tree / ".ralph" / "loops" / "1", tree=tree, cache_dir=tmp_path / "cache")


def test_only_the_run_directory_is_made_and_removed(run: RunDirectory, tree: Path) -> None:
    assert run.modified == tree
    assert {path.name for path in run.path.iterdir()} == {".lock", "artifacts"}
    run.hand_over()
    assert run.reclaim() == ()
    run.delete_sources()
    assert {path.name for path in run.path.iterdir()} == {"artifacts"}
    run.remove()
    assert (tree / "file").read_text() == "mine"
    assert not run.path.exists()


def test_a_run_that_cannot_be_made_leaves_the_tree(run: RunDirectory, tree: Path) -> None:
    with pytest.raises(YouBenchaError, match="Cannot write the workspace"):
        RunDirectory.create_at(run.path, tree=tree)
    run.close()
    assert (tree / "file").read_text() == "mine"


def test_a_tree_that_the_agent_removed_is_not_made_again(tmp_path: Path, tree: Path) -> None:
    with RunDirectory.create_at(tmp_path / "run", tree=tree, cache_dir=tmp_path / "cache") as run:
        run.hand_over()
        shutil.rmtree(tree)
        assert run.reclaim() == ()
    assert not tree.exists()


@pytest.mark.parametrize("name", [".ralph", ".ralph/loops"])
def test_links_on_the_way_are_not_followed(run: RunDirectory, tree: Path, tmp_path: Path, name: str) -> None:
    """An agent in a container could otherwise have any directory of the host removed."""
    elsewhere = tmp_path / "elsewhere"
    below = elsewhere / run.path.relative_to(tree / name)
    below.mkdir(parents=True)
    (below / "precious").write_text("x")
    run.hand_over()
    shutil.rmtree(tree / name)
    (tree / name).symlink_to(elsewhere)
    found = run.reclaim()
    run.remove()
    assert "was replaced by a link" in found[0]
    assert (below / "precious").read_text() == "x"
    assert not (tree / name).is_symlink()
    assert (tree / "file").read_text() == "mine"


def test_a_file_on_the_way(run: RunDirectory, tree: Path) -> None:
    run.hand_over()
    shutil.rmtree(tree / ".ralph")
    (tree / ".ralph").write_text("x")
    run.reclaim()
    assert run.artifacts.is_dir()
    run.close()
