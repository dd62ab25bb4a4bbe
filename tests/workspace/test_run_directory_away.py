"""A run directory whose agent works elsewhere, where no instructions are above it, until its tree is settled."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.store.prune import old_runs, orphaned_directories, remove_run
from youbencha.workspace import RunDirectory
from youbencha.workspace.run_dir import find_private

pytestmark = posix_only("links and devices")

NAMES = ("CLAUDE.md", ".claude/rules")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a project, a cache and a directory for temporary files."""
    for name in ("project", "home/cache", "temporary"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return tmp_path


def run_in(places: Path) -> RunDirectory:
    return RunDirectory.create(places / "project/results", cache_dir=places / "home/cache", away_from=NAMES)


def plant(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("Be brief.\n")


CHOSEN = {
    "nothing": ([], "home/cache/runs"),
    "in the project": (["project/CLAUDE.md"], "home/cache/runs"),
    "in the home": (["home/CLAUDE.md"], "temporary"),
    "in the cache": (["home/cache/runs/CLAUDE.md"], "temporary"),
    "a directory": (["home/.claude/rules/one.md"], "temporary"),
    "for other purposes": (["home/.claude/settings.json"], "home/cache/runs"),
}


@pytest.mark.parametrize("what", CHOSEN)
def test_the_agent_works_where_nothing_is_above_it(places: Path, what: str) -> None:
    files, chosen = CHOSEN[what]
    for file in files:
        plant(places / file)
    with run_in(places) as run:
        assert run.modified.parent.parent == run.private.parent == places / chosen
        assert run.path.parent == places / "project/results"


def test_a_link_is_resolved(places: Path) -> None:
    plant(places / "other/CLAUDE.md")
    (places / "home/cache").rmdir()
    (places / "home/cache").symlink_to(places / "other")
    with run_in(places) as run:
        assert run.private.parent == places / "temporary"


def test_it_is_an_error_if_there_is_no_such_place(places: Path) -> None:
    plant(places / "CLAUDE.md")
    with pytest.raises(YouBenchaError) as raised:
        run_in(places)
    assert raised.value.code == "INSTRUCTIONS_ABOVE_WORKSPACE"
    assert str(places / "CLAUDE.md") in raised.value.message
    assert os.listdir(places / "project/results") == [".gitignore"]


def test_the_tree_is_moved_at_the_end(places: Path) -> None:
    with run_in(places) as run:
        run.modified.joinpath("file").write_text("x")
        inode = run.modified.stat().st_ino
        assert (run.path / "src-modified/file").read_text() == "x", "people can look at it meanwhile"
        run.settle()
        assert run.modified == run.path / "src-modified"
    assert not run.modified.is_symlink()
    assert run.modified.stat().st_ino == inode, "it was not copied"
    assert (run.modified / "file").read_text() == "x"
    assert os.listdir(places / "home/cache/runs") == []


def test_a_closed_run_has_its_tree(places: Path) -> None:
    with run_in(places) as run:
        run.modified.joinpath("file").write_text("x")
    assert (run.path / "src-modified/file").read_text() == "x"
    assert not (run.path / "src-modified").is_symlink()


DISK, MEMORY = Path("/var/tmp"), Path("/dev/shm")
two_disks = pytest.mark.skipif(
    not (os.access(DISK, os.W_OK) and os.access(MEMORY, os.W_OK)) or DISK.stat().st_dev == MEMORY.stat().st_dev,
    reason="there is only one disk",
)


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(dir=DISK))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def in_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(dir=MEMORY))
    monkeypatch.setattr("tempfile.tempdir", str(made))
    yield made
    shutil.rmtree(made)


@two_disks
def test_to_another_disk(on_disk: Path, in_memory: Path) -> None:
    with RunDirectory.create(on_disk / "results", cache_dir=in_memory, away_from=("no-such-file",)) as run:
        assert run.private.is_relative_to(in_memory)
        run.modified.joinpath("file").write_text("x")
        run.modified.joinpath("link").symlink_to("file")
    assert (run.path / "src-modified/link").read_text() == "x"
    assert not (run.path / "src-modified").is_symlink()
    assert os.listdir(in_memory / "runs") == []


@two_disks
def test_the_disk_of_the_results_is_preferred(on_disk: Path, in_memory: Path) -> None:
    with RunDirectory.create(in_memory / "results", cache_dir=on_disk, away_from=("no-such-file",)) as run:
        assert run.private.parent == in_memory


@pytest.mark.parametrize("end", ["remove", "delete_sources"])
def test_a_tree_that_is_not_kept_is_not_moved(places: Path, end: str) -> None:
    run = run_in(places)
    run.modified.joinpath("file").write_text("x")
    getattr(run, end)()
    assert os.listdir(places / "home/cache/runs") == []
    assert not (run.path / "src-modified").is_symlink()
    assert not (run.path / "src-modified").exists()


def test_a_tree_that_the_agent_moved_away_is_found(places: Path) -> None:
    with run_in(places) as run:
        run.hand_over()
        shutil.rmtree(run.modified.parent)
        assert run.reclaim() != ()
        assert list(run.modified.iterdir()) == []


def test_a_killed_run_leaves_nothing_for_long(places: Path) -> None:
    run = run_in(places)
    run.modified.joinpath("file").write_text("x")
    run._held.close()  # as the end of its process does
    assert {*orphaned_directories(run.path.parent)[run.path]} == {run.private, run.modified.parent}
    assert {*find_private(run.name, places / "home/cache")} == {run.private, run.modified.parent}
    (stored,) = old_runs(run.path.parent)
    remove_run(stored)
    assert os.listdir(places / "home/cache/runs") == []
    assert not run.path.exists()
