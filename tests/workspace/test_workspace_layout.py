"""The directory of a run: created, locked, emptied, removed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from git_repositories import git
from systems import linux_only, posix_only
from youbencha.errors import YouBenchaError
from youbencha.files import write_atomically
from youbencha.store.prune import old_runs, remove_run
from youbencha.workspace import RunDirectory
from youbencha.workspace.run_dir import new_run_name, run_started_at
from youbencha.workspace.trees import remove_tree

needs_posix = posix_only("links and modes")


def test_contents_of_a_new_run_directory(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "deep" / "root") as run:
        assert re.fullmatch(r"run-\d{4}-\d\d-\d\d-\d{6}-[0-9a-f]{12}", run.path.name)
        assert sorted(os.listdir(run.path)) == [".lock", "artifacts", "src-modified"]
        assert json.loads((run.path / ".lock").read_text())["pid"] == os.getpid()
    with RunDirectory.create(tmp_path / "deep" / "root", "mine") as named:
        assert named.path.name.startswith("mine-")


def test_an_existing_name_is_not_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(("run-2026-01-01-000000-aaaaaaaaaaaa",) * 3 + ("run-2026-01-01-000000-bbbbbbbbbbbb",))
    monkeypatch.setattr("youbencha.workspace.run_dir.new_run_name", lambda _: next(names))
    with RunDirectory.create(tmp_path) as first, RunDirectory.create(tmp_path) as second:
        assert first.path.name.endswith("-aaaaaaaaaaaa")
        assert second.path.name.endswith("-bbbbbbbbbbbb")


def test_a_thousand_names_of_one_second_are_different_and_recognised() -> None:
    names = {new_run_name("run") for _ in range(1000)}
    assert len(names) == 1000
    assert all(run_started_at(name) for name in names)


@pytest.mark.parametrize("digits", ["abcdef", "abcdef012345"])
def test_names_of_every_version_are_recognised(digits: str) -> None:
    assert run_started_at(f"mine-2026-01-31-120000-{digits}") == datetime(2026, 1, 31, 12).astimezone()


@pytest.mark.parametrize("digits", ["", "abcde", "abcdef0", "abcdef01234g", "abcdef0123456"])
def test_other_names_are_not_runs(digits: str) -> None:
    assert run_started_at(f"mine-2026-01-31-120000-{digits}") is None


def test_the_users_repository_stays_clean(source: Path) -> None:
    with RunDirectory.create(source / ".youbencha-workspace"):
        assert git(source, "status", "--porcelain", "--untracked-files=all") == ""


def test_an_existing_root_is_unchanged(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path):
        assert not (tmp_path / ".gitignore").exists()


def test_an_unwritable_root(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(YouBenchaError) as caught:
        RunDirectory.create(tmp_path / "file" / "root")
    assert caught.value.code == "WORKSPACE_NOT_WRITABLE"
    assert caught.value.hint


@linux_only("a size limit for what a process may write")
def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    script = (
        "import resource, signal, sys\nfrom pathlib import Path\nfrom youbencha.errors import YouBenchaError\n"
        "from youbencha.workspace import RunDirectory\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "try:\n    RunDirectory.create(Path(sys.argv[1]))\nexcept YouBenchaError as error:\n    print(error.code)\n"
    )
    argv = [sys.executable, "-B", "-c", script, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == "WORKSPACE_NOT_WRITABLE", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_delete_sources_keeps_results(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path) as run:
        (run.artifacts / "results.json").write_text("{}")
        (run.modified / "file").write_text("x")
        run.delete_sources()
        assert os.listdir(run.path) == ["artifacts"]
        assert os.listdir(run.artifacts) == ["results.json"]


def test_remove_deletes_everything(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "root") as run:
        run.remove()
        assert os.listdir(tmp_path / "root") == [".gitignore"]


@needs_posix
def test_only_the_agents_files_are_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    with RunDirectory.create(tmp_path / "root") as run:
        (run.modified / "link").symlink_to(outside)
        (run.modified / "file-link").symlink_to(outside / "precious")
        closed = run.modified / "closed" / "deeper"
        closed.mkdir(parents=True)
        (closed / "file").write_text("x")
        (closed / "file").chmod(0o400)
        (closed / "link").symlink_to(outside)
        closed.chmod(0o500)
        closed.parent.chmod(0o000)
        with open(os.fsencode(run.modified) + (b"/caf\xe9" if sys.platform == "linux" else b"/cafe"), "wb"):
            pass
        os.mkfifo(run.modified / "pipe")
        run.expected.symlink_to(outside)
        run.delete_sources()
        assert os.listdir(run.path) == ["artifacts"]
    assert (outside / "precious").read_text() == "x"


@needs_posix
def test_paths_longer_than_a_system_call_accepts(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("a-long-name", dir_fd=here)
        deeper = os.open("a-long-name", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    remove_tree(top)
    assert list(tmp_path.iterdir()) == []


def test_files_are_written_atomically(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["results.json"]
    with pytest.raises(YouBenchaError) as caught:
        write_atomically(tmp_path / "nowhere" / "x", b"x")
    assert caught.value.code == "ARTIFACTS_NOT_WRITABLE"
    (tmp_path / "directory").mkdir()
    with pytest.raises(YouBenchaError):
        write_atomically(tmp_path / "directory", b"x")
    assert sorted(os.listdir(tmp_path)) == ["directory", "results.json"]


# -- old runs -----------------------------------------------------------------------------------------------------


def past_run(root: Path, days: float, *, complete: bool = True) -> Path:
    made = datetime.now() - timedelta(days=days)
    path = root / f"run-{made:%Y-%m-%d-%H%M%S}-{os.urandom(3).hex()}"
    (path / "artifacts").mkdir(parents=True)
    (path / "src-modified").mkdir()
    (path / "src-modified" / "file").write_bytes(b"x" * 1000)
    (path / ".lock").write_text('{"pid": 1}')
    if complete:
        (path / "artifacts" / "results.json").write_bytes(b"{}")
    return path


def test_runs_by_age_and_number(tmp_path: Path) -> None:
    paths = [past_run(tmp_path, days) for days in (10, 5, 1)]
    assert [run.path for run in old_runs(tmp_path)] == paths
    assert [run.path for run in old_runs(tmp_path, older_than=timedelta(days=2))] == paths[:2]
    assert [run.path for run in old_runs(tmp_path, keep=1)] == paths[:2]
    assert [run.path for run in old_runs(tmp_path, older_than=timedelta(days=2), keep=2)] == paths[:1]
    assert old_runs(tmp_path, keep=9) == []
    assert [run.path for run in old_runs(tmp_path, keep=0)] == paths
    first = old_runs(tmp_path)[0]
    assert abs(datetime.now().astimezone() - first.created_at - timedelta(days=10)) < timedelta(hours=2)
    assert first.size_bytes > 0
    assert old_runs(tmp_path / "nowhere") == []


@posix_only("files of holes, and hard links")
def test_the_size_of_a_run_is_its_disk_usage(tmp_path: Path) -> None:
    tree = past_run(tmp_path, 1) / "src-modified"
    (tree / "holes").touch()
    os.truncate(tree / "holes", 5 * 1024**4)
    (tree / "data").write_bytes(os.urandom(3_000_000))
    for number in range(9):
        (tree / f"same-{number}").hardlink_to(tree / "data")
    (run,) = old_runs(tmp_path)
    assert run.size_bytes < 10_000_000
    on_disk = sum((path.lstat().st_blocks for path in (tree / "data", tree / "file", tree / "holes")), 0) * 512
    assert run.size_bytes >= on_disk


def test_dead_runs_are_recognised(tmp_path: Path) -> None:
    past_run(tmp_path, 1, complete=False)
    (run,) = old_runs(tmp_path)
    assert (run.complete, run.in_use) == (False, False)


def test_only_run_directories_are_listed(tmp_path: Path) -> None:
    (tmp_path / "run-2026-01-01-000000-abcdef").mkdir()  # the name alone
    (tmp_path / "my-project" / "artifacts").mkdir(parents=True)  # the directory alone
    (tmp_path / "run-2026-99-99-000000-abcdef" / "artifacts").mkdir(parents=True)
    (tmp_path / "run-2026-01-01-000000-aaaaaa").write_text("a file")
    elsewhere = past_run(tmp_path / "elsewhere", 1)
    try:
        (tmp_path / "run-2026-01-01-000000-bbbbbb").symlink_to(elsewhere)
    except OSError:
        pytest.skip("no links here")
    assert old_runs(tmp_path) == []


def test_a_running_run_is_not_removed(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path) as going_on:
        (run,) = old_runs(tmp_path)
        assert run.in_use
        with pytest.raises(YouBenchaError) as caught:
            remove_run(run)
        assert caught.value.code == "RUN_IN_USE"
        assert going_on.modified.is_dir()
    (run,) = old_runs(tmp_path)
    assert not run.in_use
    remove_run(run)
    assert old_runs(tmp_path) == []
    remove_run(run)  # gone is gone


def test_a_killed_run_is_not_in_use(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom youbencha.workspace import RunDirectory\n"
        "run = RunDirectory.create(Path(sys.argv[1]))\nprint(run.path.name, flush=True)\n"
        "input()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        name = process.stdout.readline().strip()
        (run,) = old_runs(tmp_path)
        assert (run.path.name, run.in_use) == (name, True)
        process.stdin.write("\n")
    (run,) = old_runs(tmp_path)
    assert (run.in_use, run.complete) == (False, False)


def test_removing_only_the_sources(tmp_path: Path) -> None:
    path = past_run(tmp_path, 3)
    remove_run(old_runs(tmp_path)[0], sources_only=True)
    assert os.listdir(path) == ["artifacts"]
    assert old_runs(tmp_path)[0].complete
