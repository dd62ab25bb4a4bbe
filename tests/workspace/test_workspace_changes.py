"""The changes as data, and what an agent can do to falsify them."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import psutil
import pytest

from git_repositories import Opener, commit, git, head
from systems import ON_LINUX, posix_only
from youbencha.errors import YouBenchaError
from youbencha.workspace import FileChange, Snapshot
from youbencha.workspace.changes import read_difference
from youbencha.workspace.git import current_commit, is_ref_name

needs_posix = posix_only("links, modes and names that it does not have")


@pytest.fixture
async def start(opener: Opener, source: Path, tmp_path: Path) -> Snapshot:
    (source / "binary").write_bytes(bytes(range(256)))
    commit(source, {"lines.txt": "one\ntwo\nthree\n", "gone.txt": "gone\n"})
    directory = await opener.checked_out(source)
    return await (await opener(source)).snapshot(directory, tmp_path / "run" / ".youbencha" / "start.git")


async def test_kinds_and_lines(start: Snapshot, tmp_path: Path) -> None:
    (start.tree / "lines.txt").write_bytes(b"one\n2\nthree\nfour\n")
    (start.tree / "gone.txt").unlink()
    (start.tree / "new dir").mkdir()
    (start.tree / "new dir" / "größe.txt").write_bytes(b"x\ny\n")
    (start.tree / "binary").write_bytes(bytes(reversed(range(256))))
    (start.tree / "empty").touch()
    changes = await start.changes(tmp_path / "the.patch")
    assert changes.files == (
        FileChange("binary", "modified", None, None),
        FileChange("empty", "added", 0, 0),
        FileChange("gone.txt", "deleted", 0, 1),
        FileChange("lines.txt", "modified", 2, 1),
        FileChange("new dir/größe.txt", "added", 2, 0),
    )
    assert changes.files[0].is_binary
    assert changes.patch_file == tmp_path / "the.patch"
    assert changes.patch_file.read_bytes().startswith(b"diff --git a/binary b/binary\n")


@needs_posix
async def test_links_modes_and_unusual_names(start: Snapshot, tmp_path: Path) -> None:
    (start.tree / "lines.txt").unlink()
    (start.tree / "lines.txt").symlink_to("/etc/passwd")
    (start.tree / "gone.txt").chmod(0o755)
    odd = "a\tb\n:100644 x"
    (start.tree / odd).write_text("x\n")
    expected = {"lines.txt": "type_changed", "gone.txt": "modified", odd: "added"}
    if ON_LINUX:
        with open(os.fsencode(start.tree) + b"/caf\xe9", "wb") as file:
            file.write(b"x\n")
        expected[os.fsdecode(b"caf\xe9")] = "added"
    changes = await start.changes(tmp_path / "patch")
    assert {change.path: change.kind for change in changes.files} == expected
    by_path = {change.path: change for change in changes.files}
    assert (by_path["gone.txt"].additions, by_path["gone.txt"].deletions) == (0, 0)
    assert (by_path["lines.txt"].additions, by_path["lines.txt"].deletions) == (1, 3)


async def test_a_rename_is_a_deletion_and_an_addition(start: Snapshot, tmp_path: Path) -> None:
    (start.tree / "lines.txt").rename(start.tree / "renamed.txt")
    changes = await start.changes(tmp_path / "patch")
    assert [(change.path, change.kind) for change in changes.files] == [
        ("lines.txt", "deleted"),
        ("renamed.txt", "added"),
    ]


async def test_no_changes(start: Snapshot, tmp_path: Path) -> None:
    changes = await start.changes(tmp_path / "patch")
    assert changes.files == ()
    assert changes.patch_file.read_bytes() == b""


async def test_a_change_with_the_same_size_and_time(start: Snapshot, tmp_path: Path) -> None:
    path = start.tree / "lines.txt"
    before = path.stat()
    path.write_bytes(b"ONE\ntwo\nthree\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [change.path for change in (await start.changes(tmp_path / "patch")).files] == ["lines.txt"]


async def test_many_long_names(start: Snapshot, tmp_path: Path) -> None:
    """More of them than are read at once."""
    below = Path(*["d" * 100] * 8)
    (start.tree / below).mkdir(parents=True)
    for number in range(1500):
        (start.tree / below / f"{number:04}-{'n' * 100}").write_text(f"{number}\n")
    changes = await start.changes(tmp_path / "patch")
    assert len(changes.files) == 1500
    assert {(change.additions, change.deletions) for change in changes.files} == {(1, 0)}
    patch = changes.patch_file.read_bytes()
    assert patch.startswith(b"diff --git ")
    assert patch.count(b"\ndiff --git ") == 1499


async def test_the_agents_commit_is_reported_but_not_used(start: Snapshot, source: Path, tmp_path: Path) -> None:
    (start.tree / "lines.txt").write_text("mine\n")
    mine = commit(start.tree, {}, "mine")
    changes = await start.changes(tmp_path / "patch")
    assert (changes.base_commit, changes.current_commit) == (head(source), mine)
    assert [change.path for change in changes.files] == ["lines.txt"]
    git(start.tree, "pack-refs", "--all")
    assert current_commit(start.tree) == mine
    git(start.tree, "checkout", "--quiet", "--detach", "HEAD~1")
    assert (await start.changes(tmp_path / "patch")).current_commit == head(source)
    shutil.rmtree(start.tree / ".git")
    (start.tree / "lines.txt").write_text("more\n")
    changes = await start.changes(tmp_path / "patch")
    assert changes.current_commit is None
    assert [change.path for change in changes.files] == ["lines.txt"]


@needs_posix
@pytest.mark.parametrize(
    "trick",
    ["pipe", "outside", "loop", "huge", "git-file", "git-link", "climbing", "nonsense", "directory", "ref-outside"],
)
async def test_an_invalid_head_is_none(start: Snapshot, tmp_path: Path, trick: str) -> None:
    git_dir = start.tree / ".git"
    ident = "a" * 40 + "\n"
    (tmp_path / "ident").write_text(ident)
    h = git_dir / "HEAD"
    if trick in ("git-file", "git-link"):
        moved = git_dir.rename(tmp_path / "moved")
        if trick == "git-link":
            git_dir.symlink_to(moved)
        else:
            git_dir.write_text(f"gitdir: {moved}\n")
    elif trick == "ref-outside":
        (git_dir / "refs" / "heads" / "main").symlink_to(tmp_path / "ident")
    else:
        h.unlink()
    match trick:
        case "pipe":
            os.mkfifo(h)
        case "outside":
            h.symlink_to(tmp_path / "ident")
        case "loop":
            h.symlink_to("HEAD")
        case "huge":
            h.write_text(ident + " " * 10_000_000)
        case "climbing":
            h.write_text("ref: ../../../ident\n")
        case "nonsense":
            h.write_bytes(b"\xff\xfe\0\0")
        case "directory":
            h.mkdir()
    assert (await asyncio.wait_for(start.changes(tmp_path / "patch"), 20)).current_commit is None


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("refs/heads/main", True),
        ("feature/ü-1.2", True),
        ("../x", False),
        ("a//b", False),
        ("/a", False),
        ("a/", False),
        ("a/.b", False),
        ("a.lock", False),
        ("a b", False),
        ("a\n", False),
        ("a..b", False),
        ("a@{1}", False),
        ("@", False),
        ("", False),
        ("a:b", False),
        ("a.", False),
    ],
)
def test_names_of_refs(name: str, good: bool) -> None:
    assert is_ref_name(name) is good


@needs_posix
@pytest.mark.skipif(os.name != "nt" and os.geteuid() == 0, reason="root reads everything")
async def test_unreadable_files_are_made_readable(start: Snapshot, tmp_path: Path) -> None:
    (start.tree / "closed").mkdir()
    (start.tree / "closed" / "file").write_text("x\n")
    (start.tree / "closed" / "file").chmod(0)
    (start.tree / "closed").chmod(0)
    assert [change.path for change in (await start.changes(tmp_path / "patch")).files] == ["closed/file"]


async def test_a_patch_that_cannot_be_written(start: Snapshot, tmp_path: Path) -> None:
    with pytest.raises(YouBenchaError) as caught:
        await start.changes(tmp_path / "nowhere" / "patch")
    assert caught.value.code == "ARTIFACTS_NOT_WRITABLE"


async def test_a_cancelled_call_leaves_no_process(start: Snapshot, tmp_path: Path) -> None:
    """Cancelled while git works."""
    (start.tree / "large").write_bytes(os.urandom(40_000_000))
    task = asyncio.create_task(start.changes(tmp_path / "patch"))
    while not list(start.git_dir.glob("index-*.lock")):
        assert not task.done()
        await asyncio.sleep(0.001)
    assert working_in(start.git_dir)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not working_in(start.git_dir)
    assert not (tmp_path / "patch").exists()
    (start.tree / "large").unlink()
    assert (await start.changes(tmp_path / "patch")).files == ()


def working_in(git_dir: Path) -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["cmdline"]) if f"--git-dir={git_dir}" in (each.info["cmdline"] or ())]


async def test_concurrent_calls(start: Snapshot, tmp_path: Path) -> None:
    (start.tree / "lines.txt").write_text("mine\n")
    found = await asyncio.gather(*(start.changes(tmp_path / f"patch-{number}") for number in range(4)))
    assert [[change.path for change in changes.files] for changes in found] == [["lines.txt"]] * 4


@pytest.mark.parametrize("shift", range(-2, 3))
def test_output_split_across_reads(tmp_path: Path, shift: int) -> None:
    """The border between the list and the patch lies where one reading ends."""
    chunk, fixed = 1 << 20, len(b":000000 100644 0 0 A\0\0" + b"1\t0\t")
    name = b"n" * ((chunk - fixed) // 2 - 1)
    count = b"1" * (3 + shift)
    answer = b":000000 100644 0 0 A\0%s\0%s\t0\t%s\0\0the patch\0\0more" % (name, count, name)
    assert abs(answer.index(b"\0\0") - (chunk - 1)) <= 4
    (tmp_path / "answer").write_bytes(answer)
    (change,) = read_difference(tmp_path / "answer", tmp_path / "patch")
    assert (change.path, change.additions) == (name.decode(), int(count))
    assert (tmp_path / "patch").read_bytes() == b"the patch\0\0more"
