"""`ralph diff`, `ralph restore`, `ralph clean`, and the lock of a directory, as a person uses them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from git_repositories import git
from systems import posix_only
from yb import Done, yb
from youbencha.errors import YouBenchaError
from youbencha.loop.directory import LoopDirectory, new_loop_id
from youbencha.store.loop_lock import loop_lock, running_loop
from youbencha.store.loops import LoopState, loop_ids
from youbencha.workspace.checkpoints import Checkpoints
from youbencha.workspace.working_tree import add_worktree

CACHE = "cache"

pytestmark = posix_only("checkpoints")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / CACHE))
    path = tmp_path / "tree"
    path.mkdir()
    git(path, "init", "--quiet")
    (path / "code.py").write_text("one\n")
    git(path, "add", ".")
    git(path, "commit", "--quiet", "-m", "first")
    return path


def ralph(*arguments: str, cwd: Path) -> Done:
    return yb("loop", *arguments, cwd=cwd)


def make_loop(tree: Path, *contents: str) -> LoopDirectory:
    """A loop that has ended, with a checkpoint for each content of `code.py`."""
    directory = LoopDirectory(tree, new_loop_id())
    directory.create()
    directory.save(
        LoopState(
            loop_id=directory.loop_id, config_file=None, started_at="2026-11-17T10:00:00Z", objective="do it",
            iterations=len(contents), outcome="completed",
        )
    )  # fmt: skip

    async def take() -> None:
        with closing(await Checkpoints.open(tree, directory.loop_id)) as checkpoints:
            for number, content in enumerate(contents):
                (tree / "code.py").write_text(content)
                await checkpoints.take(number, f"iteration {number}")

    if contents:
        asyncio.run(take())
    return directory


def refs(tree: Path) -> list[str]:
    return git(tree, "for-each-ref", "--format=%(refname)", "refs/youbencha").splitlines()


def test_diff(tree: Path) -> None:
    make_loop(tree, "one\n", "two\n", "three\n")
    (tree / "code.py").write_text("four\n")
    assert "-one\n+four\n" in ralph("diff", cwd=tree).stdout
    assert "-two\n+four\n" in ralph("diff", "1", cwd=tree).stdout
    assert "-one\n+three\n" in ralph("diff", "0", "2", cwd=tree).stdout
    assert ralph("diff", "--stat", cwd=tree).stdout.splitlines()[-1].startswith(" 1 file changed")
    wrong = ralph("diff", "9", cwd=tree)
    assert (wrong.returncode, "There are: 0, 1, 2." in wrong.stderr) == (2, True)


def test_restore_asks_and_can_be_undone(tree: Path) -> None:
    loop = make_loop(tree, "one\n", "two\n")
    (tree / "code.py").write_text("three\n")
    (tree / "new").write_text("new")
    asked = ralph("restore", "1", cwd=tree)
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    assert asked.stdout.split() == ["code.py", "new"], "it shows what would change"
    assert (tree / "code.py").read_text() == "three\n"
    done = ralph("restore", "1", "--yes", cwd=tree)
    assert "restored 2 files; `ralph restore before-restore-1` undoes this" in done.stdout
    assert (tree / "code.py").read_text() == "two\n"
    assert not (tree / "new").exists()
    assert "as they were" in ralph("restore", "1", "--yes", cwd=tree).stdout
    ralph("restore", "before-restore-1", "--yes", "--loop", loop.loop_id, cwd=tree)
    assert (tree / "new").read_text() == "new"
    listed = ralph("restore", cwd=tree).stdout
    assert "    0  " in listed
    assert "1 file changed" in listed
    assert "before-restore-2" in listed
    assert git(tree, "status", "--porcelain", "--untracked-files=all") == "M code.py\n?? new"


def test_restore_after_all_files_were_removed(tree: Path) -> None:
    """They are restored with their permissions, and the restoration can be undone."""
    (tree / "run.sh").write_text("true\n")
    (tree / "run.sh").chmod(0o711)
    (tree / "key.pem").write_text("key\n")
    (tree / "key.pem").chmod(0o600)
    make_loop(tree, "one\n", "two\n")
    for path in tree.iterdir():
        if path.is_file():
            path.unlink()
    assert ralph("diff", "1", cwd=tree).stdout.count("deleted file") == 3
    done = ralph("restore", "1", "--yes", cwd=tree)
    assert (done.returncode, done.stdout.split()[:3]) == (0, ["code.py", "key.pem", "run.sh"])
    assert (tree / "code.py").read_text() == "two\n"
    assert [(tree / name).stat().st_mode & 0o777 for name in ("code.py", "key.pem", "run.sh")] == [0o644, 0o600, 0o711]
    ralph("restore", "before-restore-1", "--yes", cwd=tree)
    assert not any(path.is_file() for path in tree.iterdir())
    ralph("restore", "0", "--yes", cwd=tree)
    assert (tree / "code.py").read_text() == "one\n"
    (tree / "key.pem").chmod(0o644)
    assert ralph("restore", "0", "--yes", cwd=tree).stdout.split()[0] == "key.pem"
    assert (tree / "key.pem").stat().st_mode & 0o777 == 0o600


def test_restore_refuses_while_a_loop_runs(tree: Path) -> None:
    make_loop(tree, "one\n", "two\n")
    with loop_lock(tree, "the-other"):
        refused = ralph("restore", "0", "--yes", cwd=tree)
    assert refused.returncode == 2
    assert f"the-other (process {os.getpid()}, since " in refused.stderr
    assert "ralph run --worktree" in refused.stderr
    assert (tree / "code.py").read_text() == "two\n"


def test_without_checkpoints(tree: Path) -> None:
    first = make_loop(tree, "one\n")
    done = ralph("diff", "--loop", "other", cwd=tree)
    assert done.returncode == 2
    assert first.loop_id in done.stderr
    git(tree, "clean", "-qfdx")
    assert not loop_ids(tree)
    assert "Name one with --loop" in ralph("diff", cwd=tree).stderr
    assert ralph("diff", "--loop", first.loop_id, cwd=tree).returncode == 0, "checkpoints survive `git clean`"


def test_one_loop_in_a_directory(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree)
    with loop_lock(tree, "first"):
        with pytest.raises(YouBenchaError, match="A loop is running") as caught, loop_lock(tmp_path / "link", "second"):
            pass
        assert caught.value.code == "LOOP_RUNNING"
        assert str(running_loop(tree)).startswith(f"first (process {os.getpid()}, since ")
        with loop_lock(tmp_path, "elsewhere"):
            pass
        git(tree, "clean", "-qfdx")
        assert running_loop(tree), "an agent cannot remove the lock by cleaning up"
    assert running_loop(tree) is None


def test_the_lock_ends_with_its_process(tree: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from youbencha.store.loop_lock import loop_lock\n"
        "with loop_lock(Path(sys.argv[1]), 'other'):\n    print('locked', flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script, str(tree)], **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        found = running_loop(tree)
        assert found is not None
        assert f"(process {process.pid}, " in str(found)
        process.kill()
    assert running_loop(tree) is None


def make_old(path: Path, days: float) -> None:
    at = path.stat().st_mtime - days * 86_400
    os.utime(path, (at, at))


def test_clean_removes_old_loops(tree: Path, tmp_path: Path) -> None:
    old, new = make_loop(tree, "one\n", "two\n"), make_loop(tree, "two\n", "three\n")
    make_old(old.path, 8)
    (tree / ".ralph" / "agent").mkdir()
    (tree / ".ralph" / "agent" / "memories.md").write_text("remember")
    left = tmp_path / CACHE / "youbencha" / "runs" / f"{old.loop_id}-0123456789abcdef"
    left.mkdir(parents=True)
    before = refs(tree)
    dry = ralph("clean", "--dry-run", cwd=tree)
    assert old.loop_id in dry.stdout
    assert new.loop_id not in dry.stdout
    assert refs(tree) == before
    done = ralph("clean", cwd=tree)
    assert (done.returncode, done.stdout.splitlines()[-1][:15]) == (0, "removed 1 item,")
    assert loop_ids(tree) == [new.loop_id]
    assert not old.events_file.exists()
    assert new.events_file.exists()
    assert not left.exists()
    assert all(new.loop_id in ref for ref in refs(tree))
    assert len(refs(tree)) == 2
    assert ralph("clean", cwd=tree).stdout == "nothing to remove\n"
    assert (tree / ".ralph" / "agent" / "memories.md").exists()


def test_clean_all_asks_first(tree: Path) -> None:
    make_loop(tree, "one\n")
    (tree / ".ralph" / "agent").mkdir()
    assert "--yes" in ralph("clean", "--all", cwd=tree).stderr
    with loop_lock(tree, "running"):
        assert "in use" in ralph("clean", "--all", "--yes", cwd=tree).stderr
    assert (tree / ".ralph" / "agent").exists()
    assert ralph("clean", "--all", "--yes", cwd=tree).returncode == 0
    assert os.listdir(tree / ".ralph") == ["loops"]
    assert refs(tree) == []
    assert (tree / "code.py").read_text() == "one\n"


def test_clean_leaves_the_running_loop(tree: Path) -> None:
    running, other = make_loop(tree, "one\n"), make_loop(tree, "one\n")
    with loop_lock(tree, running.loop_id):
        ralph("clean", "--older-than", "0", cwd=tree)
    assert loop_ids(tree) == [running.loop_id]
    assert all(other.loop_id not in ref for ref in refs(tree))


def test_clean_follows_no_link(tree: Path, tmp_path: Path) -> None:
    loop = make_loop(tree, "one\n")
    loop.path.parent.rename(tmp_path / "elsewhere")
    loop.path.parent.symlink_to(tmp_path / "elsewhere")
    done = ralph("clean", "--older-than", "0", cwd=tree)
    assert (done.returncode, "[WORKSPACE_NOT_REMOVABLE]" in done.stderr) == (2, True)
    assert (tmp_path / "elsewhere" / loop.loop_id).exists()


def test_clean_removes_working_trees_that_are_merged(tree: Path) -> None:
    merged, open_ended = (asyncio.run(add_worktree(tree, name)) for name in ("merged", "open"))
    loops = [make_loop(path, "one\n", "one\n") for path in (merged, open_ended)]
    (open_ended / "code.py").write_text("work")
    done = ralph("clean", "--older-than", "0", cwd=tree)
    assert done.returncode == 1
    assert "contains modified or untracked files" in done.stderr
    assert not merged.exists()
    assert (open_ended / "code.py").read_text() == "work"
    assert {ref.split("/")[3] for ref in refs(tree)} == {loops[1].loop_id}
    with loop_lock(open_ended, "running"):
        ralph("clean", "--older-than", "0", "--force", "--yes", cwd=tree)
    assert open_ended.exists()
    assert ralph("clean", "--older-than", "0", "--force", "--yes", cwd=tree).returncode == 0
    assert not open_ended.exists()
    assert refs(tree) == []
