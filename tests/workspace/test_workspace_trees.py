"""Trees that an agent left: copied completely, whatever they contain."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from systems import posix_only
from youbencha.workspace import trees
from youbencha.workspace.trees import copy_tree, remove_tree


@posix_only("modes, links and pipes")
def test_a_copy_has_everything_but_special_files(tmp_path: Path) -> None:
    tree, copy = tmp_path / "tree", tmp_path / "copy"
    (tree / ".git").mkdir(parents=True)
    (tree / ".git" / "HEAD").write_text("ref")
    (tree / "empty").mkdir()
    (tree / "closed").mkdir()
    (tree / "closed" / "run.sh").write_text("#!/bin/sh\n")
    (tree / "closed" / "run.sh").chmod(0o4755)
    (tree / os.fsdecode(b"\xff")).write_bytes(bytes(range(256)))
    os.utime(tree / "closed" / "run.sh", (1_000_000_000, 1_000_000_000))
    os.mkfifo(tree / "pipe")
    (tree / "out").symlink_to("/nowhere/at/all")
    (tree / "relative").symlink_to("closed/run.sh")
    (tree / "absolute").symlink_to(tree / "closed" / "run.sh")
    (tree / "beside").symlink_to(f"{tree}-2/x")
    (tree / "closed").chmod(0o555)
    copy_tree(tree, copy)
    assert {path.relative_to(copy).as_posix() for path in copy.rglob("*")} == {
        ".git", ".git/HEAD", "empty", "closed", "closed/run.sh", "\udcff", "out", "relative", "absolute", "beside",
    }  # fmt: skip
    assert (copy / "\udcff").read_bytes() == bytes(range(256))
    assert (copy / "closed/run.sh").stat().st_mode & 0o7777 == 0o755
    assert (copy / "closed/run.sh").stat().st_mtime == 1_000_000_000
    assert (copy / "out").readlink() == Path("/nowhere/at/all")
    assert (copy / "relative").readlink() == Path("closed/run.sh")
    assert (copy / "absolute").readlink() == copy / "closed" / "run.sh"
    assert (copy / "beside").readlink() == Path(f"{tree}-2/x")
    (copy / "closed" / "new").write_text("ours to write to")
    (copy / "closed" / "run.sh").write_text("changed")
    assert (tree / "closed" / "run.sh").read_text() == "#!/bin/sh\n"


@posix_only("files of holes")
@pytest.mark.parametrize("clones", [True, False])
def test_sparse_files_stay_sparse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clones: bool) -> None:
    if not clones:
        monkeypatch.setattr(trees, "_FICLONE", 0)
    tree, copy = tmp_path / "tree", tmp_path / "copy"
    tree.mkdir()
    with (tree / "huge").open("wb") as file:
        for place in (0, 2 * 1024**4, 4 * 1024**4):
            file.seek(place)
            file.write(b"here" * 5000)
        file.truncate(5 * 1024**4)
    (tree / "all-hole").touch()
    os.truncate(tree / "all-hole", 5 * 1024**4)
    copy_tree(tree, copy)
    for name in ("huge", "all-hole"):
        assert (copy / name).stat().st_size == 5 * 1024**4
        assert (copy / name).stat().st_blocks * 512 < 10_000_000
    with (copy / "huge").open("rb") as file:
        for place in (0, 2 * 1024**4, 4 * 1024**4):
            file.seek(place)
            assert file.read(20_004) == b"here" * 5000 + bytes(4)


def test_not_enough_disk_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "_FICLONE", 0)
    monkeypatch.setattr(trees, "_ROOM_LEFT", 0)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_bytes(bytes(10_000))
    with pytest.raises(OSError, match="not enough free disk space"):
        copy_tree(tmp_path / "tree", tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []


@posix_only("paths are others there")
def test_too_deep_directories_are_left_out(tmp_path: Path) -> None:
    tree, copy = tmp_path / "t", tmp_path / "a-longer-name-than-that-of-the-tree"
    tree.mkdir()
    (tree / "file").write_text("delivered")
    nest(tree, 60)
    try:
        copy_tree(tree, copy)
        assert (copy / "file").read_text() == "delivered"
        assert (copy / ("d" * 200) / ("d" * 200) / "file").read_text() == "deep"
    finally:
        for each in (tree, copy):
            remove_tree(each)


@posix_only("hard links")
def test_hard_links_are_copied_once(tmp_path: Path) -> None:
    tree, copy = tmp_path / "tree", tmp_path / "copy"
    (tree / "a").mkdir(parents=True)
    (tree / "first").write_text("one")
    (tree / "a" / "second").hardlink_to(tree / "first")
    copy_tree(tree, copy)
    assert (copy / "first").samefile(copy / "a" / "second")
    assert not (copy / "first").samefile(tree / "first")
    (copy / "first").write_text("changed")
    assert (tree / "first").read_text() == "one"


@posix_only("permissions")
def test_unreadable_files_are_left_out(tmp_path: Path) -> None:
    """As a user who is not root: `nobody`, if we are root."""
    with TemporaryDirectory(dir="/tmp") as place:
        if os.geteuid() == 0:
            os.chown(place, 65534, 65534)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, place], capture_output=True, text=True, check=False, timeout=60
        )
    assert done.stdout.split() == ["closed", "file", "unsearchable"], done.stderr


AS_NOBODY = """
import os, sys
from pathlib import Path
from youbencha.workspace.trees import copy_tree
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
tree = Path(sys.argv[1]) / "tree"
for name in ("closed", "unsearchable"):
    (tree / name).mkdir(parents=True)
    (tree / name / "link").symlink_to("anywhere")
(tree / "file").write_text("x")
(tree / "hidden").write_text("x")
(tree / "hidden").chmod(0)
(tree / "unsearchable").chmod(0o400)
copy_tree(tree, tree.with_name("copy"), unreadable_ok=True)
print(*sorted(os.listdir(tree.with_name("copy"))))
(tree / "unsearchable").chmod(0o700)
"""


def nest(tree: Path, depth: int, name: str = "file") -> None:
    """Directories in directories, each with a file: deeper than a path can name."""
    fd = os.open(tree, os.O_RDONLY)
    try:
        for _ in range(depth):
            os.mkdir("d" * 200, dir_fd=fd)
            below = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
            with open(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=fd), "w") as file:
                file.write("deep")
    finally:
        os.close(fd)


def test_the_target_must_not_exist(tmp_path: Path) -> None:
    for name in ("tree", "copy"):
        (tmp_path / name).mkdir()
    with pytest.raises(FileExistsError):
        copy_tree(tmp_path / "tree", tmp_path / "copy")


def test_copying_can_be_cancelled(tmp_path: Path) -> None:
    (tmp_path / "tree" / "a").mkdir(parents=True)
    (tmp_path / "tree" / "a" / "b").write_text("b")
    asked = iter([None])

    def twice() -> None:
        next(asked)

    with pytest.raises(StopIteration):
        copy_tree(tmp_path / "tree", tmp_path / "copy", twice)
    assert not (tmp_path / "copy" / "a" / "b").exists()


def test_without_shared_blocks_bytes_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "_FICLONE", 0)
    (tmp_path / "tree").mkdir()
    for name in "ab":
        (tmp_path / "tree" / name).write_text(name * 100_000)
    copy_tree(tmp_path / "tree", tmp_path / "copy")
    assert (tmp_path / "copy" / "b").read_text() == "b" * 100_000


def test_a_missing_tree_is_an_error_or_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        copy_tree(tmp_path / "missing", tmp_path / "one")
    copy_tree(tmp_path / "missing", tmp_path / "other", unreadable_ok=True)
    assert list((tmp_path / "other").iterdir()) == []


@posix_only("paths are others there")
@pytest.mark.parametrize("unreadable_ok", [True, False])
def test_a_too_deeply_nested_source_is_not_an_error(tmp_path: Path, *, unreadable_ok: bool) -> None:
    tree, copy = tmp_path / "a-longer-name-than-that-of-the-copy", tmp_path / "c"
    tree.mkdir()
    nest(tree, 60)
    try:
        copy_tree(tree, copy, unreadable_ok=unreadable_ok)
        assert (copy / ("d" * 200) / "file").read_text() == "deep"
    finally:
        for each in (tree, copy):
            remove_tree(each)


def test_names_are_changed_and_left_out(tmp_path: Path) -> None:
    tree, copy = tmp_path / "tree", tmp_path / "copy"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "file").write_text("text")
    (tree / "a" / "left-out").mkdir()
    names = {"b": "renamed", "left-out": None}
    assert copy_tree(tree, copy, rename=lambda name, _: names.get(name, name)) == ["a/b"]
    assert (copy / "a" / "renamed" / "file").read_text() == "text"
    assert [each.name for each in (copy / "a").iterdir()] == ["renamed"]


def test_a_copy_into_the_tree_does_not_copy_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    copy_tree(tmp_path, tmp_path / "copy")
    assert [each.name for each in (tmp_path / "copy").iterdir()] == ["file"]
