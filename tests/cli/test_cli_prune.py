"""`yb prune`: old runs are removed, others are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from yb import yb
from youbencha.workspace import RunDirectory


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / ".youbencha-workspace"
    for _ in range(3):
        with RunDirectory.create(root) as run:
            (run.modified / "big.txt").parent.mkdir(exist_ok=True)
            (run.modified / "big.txt").write_text("x" * 1000)
            (run.artifacts / "results.json").write_text("{}")
    return root


def runs(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir())


def test_by_default_only_runs_older_than_a_week_are_removed(workspace: Path) -> None:
    done = yb("prune", "--yes", cwd=workspace.parent)
    assert done.returncode == 0
    assert "nothing to remove" in done.stdout
    assert len(runs(workspace)) == 3


def test_keeping_the_newest(workspace: Path) -> None:
    before = runs(workspace)
    done = yb("prune", "--keep", "1", "--yes", cwd=workspace.parent)
    assert done.returncode == 0, done.stderr
    assert "removed 2 runs" in done.stdout
    assert len(runs(workspace)) == 1
    assert runs(workspace)[0] in before


def test_a_dry_run_removes_nothing(workspace: Path) -> None:
    done = yb("prune", "--keep", "0", "--dry-run", cwd=workspace.parent)
    assert "would remove 3 runs" in done.stdout
    assert len(runs(workspace)) == 3


def test_without_a_terminal_or_yes_nothing_is_removed(workspace: Path) -> None:
    done = yb("prune", "--keep", "0", cwd=workspace.parent)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert len(runs(workspace)) == 3


def test_a_running_run_is_not_removed(workspace: Path) -> None:
    with RunDirectory.create(workspace) as going_on:
        yb("prune", "--keep", "0", "--yes", cwd=workspace.parent)
        assert runs(workspace) == [going_on.path.name]


def test_other_files_are_not_removed(workspace: Path) -> None:
    (workspace / "notes").mkdir()
    (workspace / "link").symlink_to(workspace.parent)
    yb("prune", "--keep", "0", "--yes", cwd=workspace.parent)
    assert sorted(os.listdir(workspace)) == [".gitignore", "link", "notes"]


def test_the_results_can_be_kept(workspace: Path) -> None:
    yb("prune", "--keep", "0", "--sources-only", "--yes", cwd=workspace.parent)
    assert len(runs(workspace)) == 3
    assert len(list(workspace.glob("*/artifacts/results.json"))) == 3
    assert not list(workspace.glob("*/src-modified"))


def test_an_invalid_age(workspace: Path) -> None:
    done = yb("prune", "--older-than", "tomorrow", cwd=workspace.parent)
    assert done.returncode == 2
    assert "7d" in done.stderr


@pytest.fixture
def dead(workspace: Path) -> tuple[Path, Path]:
    """A run with results that was killed, and what it had elsewhere."""
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom youbencha.workspace import RunDirectory\n"
        "run = RunDirectory.create(Path(sys.argv[1]), cache_dir=Path(sys.argv[2]))\n"
        "(run.artifacts / 'results.json').write_text('{}')\n"
        "print(run.path)\nprint(run.private, flush=True)\nos._exit(9)\n"
    )
    argv = [sys.executable, "-c", script, str(workspace), str(workspace.parent / "cache")]
    path, private = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()
    return Path(path), Path(private)


def test_private_files_of_a_dead_run_are_removed_at_any_age(workspace: Path, dead: tuple[Path, Path]) -> None:
    path, private = dead
    done = yb("prune", "--dry-run", cwd=workspace.parent)
    assert f"would remove the files of the crashed run {path.name}" in done.stdout
    assert private.is_dir()
    done = yb("prune", cwd=workspace.parent)
    assert done.returncode == 0, done.stderr
    assert f"removed the files of the crashed run {path.name}" in done.stdout
    assert "nothing to remove" in done.stdout
    assert not private.exists()
    assert (path / "artifacts" / "results.json").is_file()
    assert path.name not in yb("prune", cwd=workspace.parent).stdout
