"""What an agent removed beside its tree is made again before anything there is read or written; and `yb prune`."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_repositories import Opener, files
from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.locks import try_lock
from youbencha.store.prune import old_runs, orphaned_directories, remove_all_orphaned, remove_orphaned, remove_run
from youbencha.workspace import RunDirectory, Snapshot
from youbencha.workspace.run_dir import make_private
from youbencha.workspace.sanitize import strip_set_uid

pytestmark = posix_only("shell scripts, links and modes")


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.mkdir()
    (path / "file").write_text("mine\n")
    return path


@pytest.fixture
def run(tmp_path: Path, precious: Path) -> Iterator[RunDirectory]:
    """The harness has written a log, and hands over."""
    with RunDirectory.create(tmp_path / "root", cache_dir=tmp_path / "cache") as made:
        (made.artifacts / "events.jsonl").write_text("ours\n")
        (made.artifacts / "agent-logs").mkdir()
        (made.artifacts / "agent-logs" / "log").write_text("ours\n")
        (made.private / "start").write_text("ours\n")
        made.hand_over()
        yield made
    assert files(precious) == {"file": "mine\n"}


def agent(run: RunDirectory, script: str) -> None:
    """A real one, that works where agents work."""
    subprocess.run(["sh", "-ec", script], cwd=run.modified, check=True, timeout=60)


def in_order(run: RunDirectory) -> bool:
    """All is where it was, and can be used; and a second look finds nothing."""
    assert sorted(os.listdir(run.path)) == [".lock", "artifacts", "src-modified"]
    for path in (run.path, run.artifacts, run.modified):
        mode = path.lstat().st_mode
        assert stat.S_ISDIR(mode)
        assert mode & stat.S_IRWXU == stat.S_IRWXU
    assert old_runs(run.path.parent)[0].in_use
    return run.reclaim() == ()


def test_nothing_to_reclaim(run: RunDirectory) -> None:
    agent(run, "echo x > file")
    assert in_order(run)
    assert files(run.artifacts) == {"events.jsonl": "ours\n", "agent-logs/log": "ours\n"}


def test_private_files_are_not_beside_the_tree(run: RunDirectory, tmp_path: Path) -> None:
    assert sorted(os.listdir(run.path)) == [".lock", "artifacts", "src-modified"]
    assert run.private.parent == tmp_path / "cache" / "runs"
    assert re.fullmatch(re.escape(run.path.name) + "-[0-9a-f]{16}", run.private.name)
    assert stat.S_IMODE(run.private.stat().st_mode) == 0o700
    assert run.private.name not in (run.path / ".lock").read_text()
    run.close()
    assert not run.private.exists()
    assert run.path.exists()


def test_private_even_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    with RunDirectory.create(tmp_path / "root", cache_dir=tmp_path / "file") as run:
        assert run.private.parent == tmp_path / "tmp"
        assert stat.S_IMODE(run.private.stat().st_mode) == 0o700
    assert os.listdir(tmp_path / "tmp") == []


DAMAGE = {
    "artifacts-link": ("rm -r ../artifacts; ln -s ../../precious ../artifacts", "artifacts was removed or replaced"),
    "artifacts-file": ("rm -r ../artifacts; echo x > ../artifacts", "artifacts was removed or replaced"),
    "artifacts-gone": ("rm -r ../artifacts", "artifacts was removed"),
    "all-closed": ("chmod 000 ../artifacts .. .", ""),
    "all-gone": ('rm -rf "$(dirname "$PWD")"', "run-.* was removed"),
    "root-gone": ('cd ../..; rm -rf "$PWD"', "run-.* was removed"),
    "tree-gone": ('rm -r "$PWD"', "src-modified was removed"),
    "tree-link": ('d=$PWD; cd ..; rm -r "$d"; ln -s ../../precious "$d"', "src-modified was removed or replaced"),
    "tree-file": ('d=$PWD; cd ..; rm -r "$d"; echo x > "$d"', "src-modified was removed or replaced"),
    "lock-gone": ("rm ../.lock", ""),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_repaired(run: RunDirectory, damage: str) -> None:
    script, reported = DAMAGE[damage]
    agent(run, script)
    assert re.search(reported, "\n".join(run.reclaim()))
    assert in_order(run)
    assert set(files(run.artifacts)) <= {"events.jsonl", "agent-logs/log"}


@pytest.mark.parametrize(
    "script", ["echo x > {}/new", "echo x > {}/start", "touch {}/start", "rm {}/start", "rm -r {}"], ids=range(5)
)
def test_tampering_with_private_files_is_reported(run: RunDirectory, script: str) -> None:
    agent(run, script.format(f"'{run.private}'"))
    (reported,) = run.reclaim()
    assert "results may be wrong" in reported
    assert run.private.is_dir()
    assert in_order(run)


# -- what is read and written afterwards --------------------------------------------------------------------------


@pytest.mark.parametrize("instead", ["nothing", "a link", "a file"])
async def test_a_replaced_tree_counts_as_deleted(run: RunDirectory, precious: Path, instead: str) -> None:
    (run.modified / "a").write_text("x\n")
    start = await Snapshot.take(run.modified, run.private / "start.git")
    (run.modified / "a").unlink()
    run.modified.rmdir()
    if instead == "a link":
        (precious / "a").write_text("x\n")
        (precious / ".git").mkdir()
        (precious / ".git" / "HEAD").write_text("a" * 40)
        run.modified.symlink_to(precious)
    elif instead == "a file":
        run.modified.write_text("x\n")
    for _ in range(2):
        changes = await start.changes(run.artifacts / "patch")
        assert [(change.path, change.kind) for change in changes.files] == [("a", "deleted")]
        assert changes.current_commit is None
        run.reclaim()
    if instead == "a link":
        (precious / "a").unlink()
        (precious / ".git" / "HEAD").unlink()


@pytest.mark.parametrize("what", ["link", "file", "directory", "closed"])
async def test_nothing_is_written_into_an_existing_directory(
    opener: Opener, source: Path, tmp_path: Path, what: str
) -> None:
    outside, repository = tmp_path / "outside", await opener(source)
    outside.mkdir()
    for place in (tmp_path / "work" / "expected", tmp_path / "work" / "modified"):
        place.parent.mkdir(exist_ok=True)
        match what:
            case "link":
                place.symlink_to(outside)
            case "file":
                place.write_text("x")
            case _:
                (place / "planted").mkdir(parents=True)
                (place / "README.md").symlink_to(outside / "README.md")
                place.chmod(0o000 if what == "closed" else 0o755)
    await repository.write_tree(repository.commit, tmp_path / "work" / "expected")
    await repository.check_out(tmp_path / "work" / "modified")
    for name in ("expected", "modified"):
        assert files(tmp_path / "work" / name) == {"README.md": "third\n", "src/code.py": "print(1)\n"}
        assert not (tmp_path / "work" / name).is_symlink()
    assert os.listdir(outside) == []


async def test_the_patch_replaces_a_planted_file(run: RunDirectory, precious: Path) -> None:
    start = await Snapshot.take(run.modified, run.private / "start.git")
    (run.modified / "new").write_text("x\n")
    patch = run.artifacts / "git-diff.patch"
    patch.symlink_to(precious / "file")
    await start.changes(patch)
    assert not patch.is_symlink()
    assert b"+++ b/new" in patch.read_bytes()
    patch.unlink()
    patch.mkdir()
    with pytest.raises(YouBenchaError) as caught:
        await start.changes(patch)
    assert caught.value.code == "ARTIFACTS_NOT_WRITABLE"
    assert sorted(os.listdir(run.artifacts)) == ["agent-logs", "events.jsonl", "git-diff.patch"]


# -- prune --------------------------------------------------------------------------------------------------------


def died(tmp_path: Path) -> tuple[Path, Path]:
    """A run that was killed: where it is, and what it had elsewhere."""
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom youbencha.workspace import RunDirectory\n"
        "run = RunDirectory.create(Path(sys.argv[1]), cache_dir=Path(sys.argv[2]))\n"
        "(run.private / 'x').touch()\nprint(run.path)\nprint(run.private, flush=True)\nos._exit(9)\n"
    )
    argv = [sys.executable, "-c", script, str(tmp_path / "root"), str(tmp_path / "cache")]
    path, private = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.split("\n")[:2]
    return Path(path), Path(private)


def test_private_files_of_a_dead_run_are_removed(tmp_path: Path) -> None:
    path, private = died(tmp_path)
    _, other = died(tmp_path)
    (run,) = [run for run in old_runs(tmp_path / "root") if run.path == path]
    assert private.is_dir()
    remove_run(run)
    assert not path.exists()
    assert not private.exists()
    assert other.is_dir()


def test_a_lock_file_cannot_name_other_directories(tmp_path: Path, precious: Path) -> None:
    path, private = died(tmp_path)
    (precious / f"{path.name}-other").mkdir()
    (precious / f"{path.name}-{'0' * 16}").symlink_to(tmp_path / "cache")
    for note in (str(precious), str(private), "..", "", 7, None, "/\0"):
        (path / ".lock").write_text(json.dumps({"private_parent": note}))
        remove_run(old_runs(tmp_path / "root")[0], sources_only=True)
        path.joinpath("src-modified").mkdir()
    assert private.is_dir()
    assert len(os.listdir(precious)) == 3
    for text in ("[]", "{", "\xff", "7"):
        (path / ".lock").write_text(text)
        remove_run(old_runs(tmp_path / "root")[0], sources_only=True)


def test_leftovers_of_a_dead_run_are_removed_at_any_age(tmp_path: Path) -> None:
    """And nothing else: not the run, nor what a run that goes on has."""
    root = tmp_path / "root"
    path, private = died(tmp_path)
    home = private.with_name(f"{path.name}-{'0' * 16}")
    home.mkdir()
    with RunDirectory.create(root, cache_dir=tmp_path / "cache") as going_on:
        scratch = going_on.new_scratch()
        for parents in (None, [str(private.parent)]):
            assert {run: sorted(found) for run, found in orphaned_directories(root, parents).items()} == {
                path: sorted([home, private])
            }
        for run, places in orphaned_directories(root).items():
            assert remove_orphaned(run, places)
        assert going_on.private.is_dir()
        assert scratch.is_dir()
        assert not remove_orphaned(going_on.path, [going_on.private])
        assert going_on.private.is_dir()
    assert (private.exists(), home.exists()) == (False, False)
    assert path.joinpath("src-modified").is_dir()
    assert orphaned_directories(root) == {}


def test_a_new_run_cleans_up_after_dead_runs(tmp_path: Path) -> None:
    path, private = died(tmp_path)
    with RunDirectory.create(tmp_path / "root", cache_dir=tmp_path / "cache") as run:
        remove_all_orphaned(run.path.parent, run.private.parent)
        assert os.listdir(tmp_path / "cache" / "runs") == [run.private.name]
    assert path.is_dir()
    assert not private.exists()


def test_runs_of_another_workspace_are_not_touched(tmp_path: Path) -> None:
    _, private = died(tmp_path)
    assert orphaned_directories(tmp_path / "elsewhere", [str(private.parent)]) == {}


def test_a_run_being_created_is_not_dead(tmp_path: Path) -> None:
    """Its lock is there, but not taken yet, and empty."""
    path, private = died(tmp_path)
    (path / ".lock").write_text("")
    assert orphaned_directories(tmp_path / "root", [str(private.parent)]) == {}


def test_no_note_leads_to_other_directories(tmp_path: Path, precious: Path) -> None:
    path, private = died(tmp_path)
    (precious / f"{path.name}-other").mkdir()
    (precious / f"{path.name}-{'0' * 16}").symlink_to(tmp_path / "cache")
    (precious / f"another-2026-01-01-000000-abcdef-{'0' * 16}").mkdir()
    for note in (str(precious), str(private), "..", "", 7, None, "/\0"):
        (path / ".lock").write_text(json.dumps({"private_parent": note}))
        assert orphaned_directories(tmp_path / "root") == {}
    for text in ("[]", "{", "\xff", "7"):
        (path / ".lock").write_text(text)
        assert orphaned_directories(tmp_path / "root") == {}
    note = tmp_path / "note"
    note.write_text(json.dumps({"private_parent": str(private.parent)}))
    (path / ".lock").unlink()
    (path / ".lock").symlink_to(note)
    assert orphaned_directories(tmp_path / "root", [str(private.parent)]) == {}
    (path / ".lock").unlink()
    os.mkfifo(path / ".lock")
    assert orphaned_directories(tmp_path / "root", [str(private.parent)]) == {}
    moved = path.rename(tmp_path / "moved")
    path.symlink_to(moved)
    (moved / ".lock").unlink()
    note.rename(moved / ".lock")
    assert orphaned_directories(tmp_path / "root", [str(private.parent)]) == {}


@pytest.mark.parametrize("trap", ["link", "hard link", "pipe", "directory"])
def test_hostile_lock_files(tmp_path: Path, precious: Path, trap: str) -> None:
    path, _ = died(tmp_path)
    lock = path / ".lock"
    lock.unlink()
    match trap:
        case "link":
            lock.symlink_to(precious / "file")
        case "hard link":
            lock.hardlink_to(precious / "file")
        case "pipe":
            os.mkfifo(lock)
        case "directory":
            lock.mkdir()
    remove_run(old_runs(tmp_path / "root")[0])
    assert not path.exists()
    assert files(precious) == {"file": "mine\n"}


AS_NOBODY = """
import asyncio, os, stat, sys
from pathlib import Path
import _strptime, concurrent.futures.thread, json, tempfile, shutil, subprocess  # they cannot be read later
from youbencha.workspace import RunDirectory, Snapshot; from youbencha.store.prune import old_runs, remove_run
import youbencha.store.prune, youbencha.user_dirs
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
top = Path(sys.argv[1])

async def main():
    run = RunDirectory.create(top / "root", cache_dir=top / "cache")
    for name in ("a/file", "b/deep/file", "c/file"):
        (run.modified / name).parent.mkdir(parents=True)
        (run.modified / name).write_text("x\\n")
    start = await Snapshot.take(run.modified, run.private / "start.git")
    run.hand_over()
    (run.modified / "a" / "new").write_text("x\\n")
    (run.modified / "a" / "new").chmod(0)
    (run.modified / "b" / "deep" / "new").symlink_to("/")
    for name, mode in (("a", 0), ("b/deep", 0), ("b", 0o400), ("c", 0o400), ("../artifacts", 0), ("", 0)):
        (run.modified / name).chmod(mode)
    run.path.chmod(0)
    (top / "root").chmod(0o500)
    print(len(run.reclaim()))
    print([change.path for change in (await start.changes(run.artifacts / "patch")).files])
    (top / "root").chmod(0o700)
    for path in (run.modified / "b", run.modified, run.path):
        path.chmod(0)
    run.close()
    other = RunDirectory.create(top / "root", cache_dir=top / "cache")
    other.close()
    for old in old_runs(top / "root"):
        remove_run(old)
    print(os.listdir(top / "root"))

asyncio.run(main())
"""


def test_removed_permissions_are_restored(tmp_path: Path) -> None:
    """As a user who is not root: `nobody`, if we are root."""
    import shutil
    import tempfile

    place = tempfile.mkdtemp(dir="/tmp")
    try:
        if os.geteuid() == 0:
            os.chown(place, 65534, 65534)
        argv = [sys.executable, "-c", AS_NOBODY, place]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert done.stdout.splitlines() == ["0", "['a/new', 'b/deep/new']", "['.gitignore']"], done.stderr
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", place], check=True)
        shutil.rmtree(place)


def taken(path: Path) -> int:
    """Somebody else's open file, locked."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    assert try_lock(fd)
    return fd


def test_a_run_with_a_foreign_lock_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    def quicker(name: str, cache_dir: Path | None, parents: list[Path] | None) -> Path:
        held.append(taken(tmp_path / "root" / name / ".lock"))
        return make_private(name, cache_dir, parents)

    monkeypatch.setattr("youbencha.workspace.run_dir.make_private", quicker)
    with pytest.raises(YouBenchaError, match="another process took its lock"):
        RunDirectory.create(tmp_path / "root", cache_dir=tmp_path / "cache")
    os.close(held[0])
    assert sorted(os.listdir(tmp_path / "root")) == [".gitignore"]
    assert os.listdir(tmp_path / "cache" / "runs") == []


SCRATCH_TRICKS = (
    "touch '{0}/planted'; chmod 500 '{0}'",
    "rm -r '{0}'",
    "rm -r '{0}'; ln -s '{1}' '{0}'",
    "rm -r \"$(dirname '{0}')\"",
)


def test_the_scratch_directory_is_clean_for_a_judge(run: RunDirectory, precious: Path) -> None:
    scratch = run.scratch
    for trick in SCRATCH_TRICKS:
        agent(run, trick.format(scratch, precious))
        run.reclaim()
        assert stat.S_IMODE(scratch.lstat().st_mode) == 0o700
        assert stat.S_ISDIR(scratch.lstat().st_mode)
        assert os.listdir(scratch) == []


def test_only_the_user_enters_a_run_directory(run: RunDirectory, tmp_path: Path) -> None:
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
    agent(run, 'rm -r "$(dirname "$PWD")"')
    run.reclaim()
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
    with RunDirectory.create_at(tmp_path / "here", cache_dir=tmp_path / "cache") as made:
        assert stat.S_IMODE(made.path.stat().st_mode) == 0o700


def test_no_set_uid_program_is_left(run: RunDirectory, precious: Path) -> None:
    (precious / "file").chmod(0o4755)
    agent(
        run,
        """
        for name in shell group .git/hook closed/deep linked; do
            mkdir -p $(dirname $name); cp /bin/true $name; chmod 755 $name
        done
        chmod u+s shell .git/hook closed/deep linked; chmod g+s group; ln linked again; chmod 000 closed
        ln ../../../precious/file hosts; ln -s /bin/su link; mkdir directory; chmod g+s directory; mkfifo pipe
        """,
    )
    run.reclaim()
    assert re.search(
        r"removed: \.git/hook, again, closed/deep, group, hosts and 2 more", strip_set_uid(run.modified) or ""
    )
    left = [path for path in run.modified.rglob("*") if path.is_file() and not path.is_symlink()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in left} == {0o755}
    assert (run.modified / "hosts").read_text() == "mine\n"
    assert stat.S_IMODE((precious / "file").stat().st_mode) == 0o4755  # that is not the agent's
    assert strip_set_uid(run.modified) is None
