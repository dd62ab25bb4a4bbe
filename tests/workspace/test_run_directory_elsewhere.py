"""A run directory whose agent works in a user's directory, which is never created, restored or removed."""

from __future__ import annotations

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
