"""New files that the repository ignores do not count, and an agent cannot hide others."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_repositories import Opener, commit, git
from systems import posix_only
from youbencha.workspace import Repository, Snapshot

RULES = "*.log\nbuild/\n/top-only\n!kept.log\n"


@pytest.fixture
async def repository(opener: Opener, source: Path) -> Repository:
    commit(source, {".gitignore": RULES, "src/.gitignore": "local\n"})
    (source / "tracked.log").write_text("tracked all the same\n")
    git(source, "add", "--force", "tracked.log")
    git(source, "commit", "--quiet", "-m", "a log")
    return await opener(source)


async def begin(repository: Repository, tmp_path: Path) -> Snapshot:
    directory = tmp_path / "run" / "src-modified"
    directory.mkdir(parents=True)
    await repository.check_out(directory)
    return await repository.snapshot(directory, tmp_path / "run" / "start.git")


def write(tree: Path, *names: str) -> None:
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("new\n")


async def changed(snapshot: Snapshot, tmp_path: Path) -> list[str]:
    return [change.path for change in (await snapshot.changes(tmp_path / "patch")).files]


IGNORED = ("a.log", "deep/er/b.log", "build/out", "build/deep/out", "top-only", "src/local", "src/deep/local")
COUNTED = ("build.txt", "deep/kept.log", "deep/top-only", "local", "src/new.py")


async def test_files_ignored_at_the_start(repository: Repository, tmp_path: Path) -> None:
    start = await begin(repository, tmp_path)
    write(start.tree, *IGNORED, *COUNTED)
    assert await changed(start, tmp_path) == sorted(COUNTED)


async def test_tracked_files_count_in_spite_of_ignore_rules(repository: Repository, tmp_path: Path) -> None:
    start = await begin(repository, tmp_path)
    write(start.tree, "tracked.log", "other.log")
    assert await changed(start, tmp_path) == ["tracked.log"]
    (start.tree / "tracked.log").unlink()
    assert await changed(start, tmp_path) == ["tracked.log"]


async def test_an_agent_cannot_hide_its_files(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home" / ".config" / "git"
    home.mkdir(parents=True)
    (home / "ignore").write_text("*\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    start = await begin(repository, tmp_path)
    (start.tree / ".gitignore").write_text("*\n")
    write(start.tree, "evil.py", "sub/evil.py")
    (start.tree / "sub" / ".gitignore").write_text("*\n")
    (start.tree / ".git" / "info").mkdir()
    (start.tree / ".git" / "info" / "exclude").write_text("*\n")
    git(start.tree, "config", "core.excludesFile", str(home / "ignore"))
    assert await changed(start, tmp_path) == [".gitignore", "evil.py", "sub/.gitignore", "sub/evil.py"]


async def test_an_agent_cannot_make_ignored_files_count(repository: Repository, tmp_path: Path) -> None:
    start = await begin(repository, tmp_path)
    (start.tree / ".gitignore").unlink()
    write(start.tree, "a.log")
    assert await changed(start, tmp_path) == [".gitignore"]


@posix_only("names that it does not have")
async def test_unusual_names(repository: Repository, tmp_path: Path) -> None:
    start = await begin(repository, tmp_path)
    counted = [":(top)x", ":!y", "-z", "a\nb", 'q"uote', "*", "sp ace"]
    write(start.tree, *counted, ":(glob)x.log", "-z.log", "a\nb.log", "build/:!y")
    assert await changed(start, tmp_path) == sorted(counted)


async def test_changes_before_the_agent_are_not_the_agents(repository: Repository, tmp_path: Path) -> None:
    start = await begin(repository, tmp_path)
    write(start.tree, "prepared.txt", "README.md", "build/prepared")
    (start.tree / ".gitignore").write_text(RULES + "*.tmp\n")
    start = await start.retake()
    assert await changed(start, tmp_path) == []
    write(start.tree, "x.tmp", "new.txt")
    (start.tree / "prepared.txt").write_text("the agent's\n")
    (start.tree / "build" / "prepared").write_text("the agent's\n")
    changes = await start.changes(tmp_path / "patch")
    assert [change.path for change in changes.files] == ["new.txt", "prepared.txt"]
    assert changes.base_commit == repository.commit


async def test_ignore_rules_behind_a_link_are_not_read(opener: Opener, source: Path, tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("*\n")
    try:
        (source / ".gitignore").symlink_to(tmp_path / "rules")
    except OSError:
        pytest.skip("no links here")
    commit(source, {})
    start = await begin(await opener(source), tmp_path)
    write(start.tree, "new")
    assert await changed(start, tmp_path) == ["new"]


CACHES = (".pytest_cache/v/lastfailed", "pkg/__pycache__/a.pyc", "web/node_modules/.cache/b", ".eslintcache", ".tox/c")
NOT_CACHES = (".cache/a", "__pycache__.py", "a.pytest_cache/b", "node_modules/left-pad/index.js", "target/x", ".tox\n")


async def test_caches_of_tools_do_not_count(opener: Opener, source: Path, tmp_path: Path) -> None:
    """Even if the repository does not ignore them; but tracked files count."""
    commit(source, {".pytest_cache/README.md": "committed by mistake\n"})
    start = await begin(await opener(source), tmp_path)
    write(start.tree, *CACHES, *NOT_CACHES, ".pytest_cache/README.md")
    changes = await start.changes(tmp_path / "patch")
    counted = sorted([".pytest_cache/README.md", *NOT_CACHES])
    assert [change.path for change in changes.files] == counted
    assert changes.recorded
    recorded = git(start.git_dir, "ls-tree", "-rz", "--name-only", changes.recorded.id).split("\0")
    assert set(recorded).isdisjoint(CACHES)
    assert set(counted) <= set(recorded)
