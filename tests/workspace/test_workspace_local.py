"""Local repositories: which commit is used, and the errors if there is none."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from pathlib import Path

import pytest

from git_repositories import Opener, commit, files, git, head
from youbencha.errors import YouBenchaError


async def refused(opener: Opener, source: str | Path, **about: str) -> YouBenchaError:
    with pytest.raises(YouBenchaError) as caught:
        await opener(source, **about)
    assert caught.value.hint
    return caught.value


async def test_the_default_branch(opener: Opener, source: Path) -> None:
    repository = await opener(source)
    assert (repository.commit, repository.branch) == (head(source), "main")
    assert repository.public_url == str(source)


@pytest.mark.parametrize(
    ("name", "at"), [("solution", "solution"), ("v1", "v1"), ("light", "light"), ("refs/heads/solution", "solution")]
)
async def test_a_branch_or_a_tag(opener: Opener, source: Path, name: str, at: str) -> None:
    assert (await opener(source, branch=name)).commit == head(source, at)


async def test_a_branch_of_a_clones_origin(opener: Opener, source: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(source), "clone")
    assert (await opener("clone", branch="solution")).commit == head(source, "solution")


async def test_a_commit_on_any_branch(opener: Opener, source: Path) -> None:
    wanted = head(source, "solution")
    for written in (wanted, wanted.upper(), wanted[:10]):
        repository = await opener(source, commit=written)
        assert (repository.commit, repository.branch) == (wanted, None)


async def test_a_commit_on_no_branch(opener: Opener, source: Path) -> None:
    lost = commit(source, {"README.md": "lost\n"})
    git(source, "reset", "--quiet", "--hard", "HEAD~1")
    assert (await opener(source, commit=lost)).commit == lost


async def test_a_commit_with_a_branch_name(opener: Opener, source: Path) -> None:
    repository = await opener(source, commit=head(source, "v1"), branch="solution")
    assert (repository.commit, repository.branch) == (head(source, "v1"), "solution")


async def test_an_id_is_never_read_as_a_branch(opener: Opener, source: Path) -> None:
    """A branch may be called like the beginning of another commit."""
    wanted = head(source, "solution")
    git(source, "branch", wanted[:8], "v1")
    assert (await opener(source, commit=wanted[:8])).commit == wanted


async def test_a_head_without_a_branch(opener: Opener, source: Path) -> None:
    git(source, "checkout", "--quiet", "--detach", "v1")
    repository = await opener(source)
    assert (repository.commit, repository.branch) == (head(source, "v1"), None)


async def test_uncommitted_changes_are_not_included(opener: Opener, source: Path) -> None:
    (source / "README.md").write_text("not committed\n")
    (source / "new").write_text("not committed\n")
    git(source, "add", "README.md")
    before = git(source, "status", "--porcelain")
    directory = await opener.checked_out(source)
    assert files(directory) == {"README.md": "third\n", "src/code.py": "print(1)\n"}
    assert git(source, "status", "--porcelain") == before


@pytest.mark.parametrize("write", ["{0}", "file://{0}", "file://localhost{0}", "{1}", "./{1}", "{0}/"])
async def test_spellings_of_a_path(opener: Opener, tmp_path: Path, source: Path, write: str) -> None:
    place = tmp_path / "with space ü"
    source.rename(place)
    written = write.format(place, place.name)
    if written.startswith("file:"):
        written = written.replace(" ", "%20")
    assert (await opener(written)).commit == head(place)


async def test_from_the_home_directory(opener: Opener, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(source.parent))
    monkeypatch.setenv("USERPROFILE", str(source.parent))
    assert (await opener("~/source")).commit == head(source)


async def test_bare_linked_and_shared_repositories(opener: Opener, source: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(source), "bare.git")
    assert (await opener("bare.git")).commit == head(source)
    assert (await opener("bare")).commit == head(source)
    git(source, "worktree", "add", "--quiet", str(tmp_path / "linked"), "solution")
    linked = await opener("linked")
    assert (linked.commit, linked.branch) == (head(source, "solution"), "solution")
    git(tmp_path, "clone", "--quiet", "--shared", str(source), "borrowing")
    directory = await opener.checked_out("borrowing")
    assert files(directory)["README.md"] == "third\n"


async def test_packed_and_shallow_repositories(opener: Opener, source: Path, tmp_path: Path) -> None:
    git(source, "gc", "--quiet")
    git(tmp_path, "clone", "--quiet", "--depth=1", source.as_uri(), "shallow")
    directory = await opener.checked_out("shallow")
    assert files(directory)["README.md"] == "third\n"


async def test_a_sha256_repository(opener: Opener, tmp_path: Path) -> None:
    source = tmp_path / "sha256"
    source.mkdir()
    git(source, "init", "--quiet", "--object-format=sha256")
    wanted = commit(source, {"file": "x\n"})
    assert len(wanted) == 64
    directory = await opener.checked_out(source)
    assert git(directory, "rev-parse", "HEAD") == wanted
    snapshot = await (await opener(source)).snapshot(directory, tmp_path / "start.git")
    (directory / "file").write_text("y\n")
    assert [change.path for change in (await snapshot.changes(tmp_path / "patch")).files] == ["file"]


# -- what cannot be -----------------------------------------------------------------------------------------------


async def test_an_unknown_branch(opener: Opener, source: Path) -> None:
    error = await refused(opener, source, branch="solutoin")
    assert error.code == "REPO_BRANCH_UNKNOWN"
    assert "solutoin" in error.message
    assert error.hint == "did you mean 'solution'?"
    far = await refused(opener, source, branch="zzz")
    assert far.hint == "It has: light, main, solution, v1."


@pytest.mark.parametrize("written", ["0" * 40, "abcdef12", "deadbeef" * 8])
async def test_an_unknown_commit(opener: Opener, source: Path, written: str) -> None:
    error = await refused(opener, source, commit=written)
    assert error.code == "REPO_COMMIT_UNKNOWN"
    assert written in error.message


async def test_objects_that_are_not_commits(opener: Opener, source: Path) -> None:
    tree = git(source, "rev-parse", "HEAD^{tree}")
    for written in (tree, tree[:12]):
        assert (await refused(opener, source, commit=written)).code == "REPO_COMMIT_UNKNOWN"
    git(source, "tag", "a-tree", tree)
    assert (await refused(opener, source, branch="a-tree")).code == "REPO_COMMIT_UNKNOWN"


async def test_an_ambiguous_id(opener: Opener, source: Path) -> None:
    tree = git(source, "rev-parse", "HEAD^{tree}")
    seen: dict[str, bytes] = {}
    for number in itertools.count():
        text = f"tree {tree}\nauthor a <a@b> {number} +0000\ncommitter a <a@b> 1 +0000\n\nx\n".encode()
        begin = hashlib.sha1(b"commit %d\0" % len(text) + text).hexdigest()[:4]
        if begin in seen:
            break
        seen[begin] = text
    both = [git(source, "hash-object", "-t", "commit", "-w", "--stdin", stdin=each) for each in (seen[begin], text)]
    error = await refused(opener, source, commit=begin)
    assert error.code == "REPO_COMMIT_UNKNOWN"
    assert "begin with" in error.message
    assert all(each in str(error.hint) for each in both)
    assert (await opener(source, commit=both[0][:12])).commit == both[0]


async def test_an_empty_repository(opener: Opener, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    assert (await refused(opener, "empty")).code == "REPO_EMPTY"
    assert (await refused(opener, "empty", branch="main")).code == "REPO_EMPTY"


async def test_a_missing_default_branch(opener: Opener, source: Path) -> None:
    git(source, "symbolic-ref", "HEAD", "refs/heads/nowhere")
    error = await refused(opener, source)
    assert error.code == "REPO_BRANCH_UNKNOWN"
    assert "main, solution" in str(error.hint)


async def test_no_repository(opener: Opener, source: Path, tmp_path: Path) -> None:
    assert (await refused(opener, "nothing")).code == "REPO_NOT_FOUND"
    (tmp_path / "plain").mkdir()
    error = await refused(opener, "plain")
    assert error.code == "REPO_NOT_FOUND"
    assert "git init" in str(error.hint)
    inside = await refused(opener, source / "src")
    assert str(source) in str(inside.hint)
    (tmp_path / "file").write_text("x")
    error = await refused(opener, "file")
    assert error.code == "REPO_NOT_FOUND"
    assert "is a file, not a git repository" in error.message
    assert "git init" not in (error.hint or "")
    assert (await refused(opener, "n" * 1000)).code == "REPO_NOT_FOUND"  # longer than any name can be


async def test_a_repository_with_objects_missing(opener: Opener, source: Path) -> None:
    blob = git(source, "rev-parse", "HEAD:README.md")
    path = source / ".git" / "objects" / blob[:2] / blob[2:]
    os.chmod(path, 0o600)
    path.unlink()
    with pytest.raises(YouBenchaError) as caught:
        await opener.checked_out(source)
    assert caught.value.code == "REPO_DAMAGED"
    assert "git fsck" in str(caught.value.hint)


async def test_resolving_another_revision(opener: Opener, source: Path, tmp_path: Path) -> None:
    repository = await opener(source)
    assert await repository.resolve("solution") == head(source, "solution")
    assert await repository.resolve("v1", source="tag") == head(source, "v1")
    assert await repository.resolve(head(source, "v1")[:10], source="commit") == head(source, "v1")
    with pytest.raises(YouBenchaError, match="no tag `main`"):
        await repository.resolve("main", source="tag")
    expected = tmp_path / "src-expected"
    await repository.write_tree(await repository.resolve("solution"), expected)
    assert files(expected) == {"README.md": "second\n", "SOLUTION": "the secret answer\n", "src/code.py": "print(42)\n"}
    assert not (expected / ".git").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "src-expected"]


async def test_the_source_may_be_deleted_after_the_checkout(opener: Opener, source: Path, tmp_path: Path) -> None:
    """Whatever its owner does with it while an agent works for an hour."""
    directory = await opener.checked_out(source)
    snapshot = await (await opener(source)).snapshot(directory, tmp_path / "start.git")
    shutil.rmtree(source)
    (directory / "README.md").write_text("fourth\n")
    git(directory, "commit", "--quiet", "-am", "mine")
    changes = await snapshot.changes(tmp_path / "patch")
    assert b"-third\n+fourth\n" in changes.patch_file.read_bytes()
