"""Files written atomically, and files that an agent or another user may have put there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.files import (
    PathNotAllowed,
    nofollow_directory,
    open_nofollow,
    read_nofollow,
    read_within,
    replace_atomically,
    replacing,
    walk,
    write_atomically,
)
from youbencha.workspace.trees import remove_tree


def test_a_file_is_replaced_with_its_permissions_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / ("long-name-" * 20)
    path.write_text("old")
    replace_atomically(path, b"new", mode=0o600)
    assert path.read_bytes() == b"new"
    assert os.name == "nt" or path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_half_way_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted() -> None:
        with replacing(path) as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_files_in_a_directory_of_an_agent_are_written_whole_or_line_by_line(tmp_path: Path) -> None:
    with nofollow_directory(tmp_path, "new/deep") as directory:
        directory.append("lines", b"one")
        directory.append("lines", b"two\n")
        directory.append("lines", b"three\n")
        directory.replace("whole", b"a" * 1000)
        directory.replace("whole", b"b")
        assert sorted(directory.names(10)) == ["lines", "whole"]
        assert len(directory.names(1)) == 1
        assert directory.take("whole", 10) == b"b"
        assert directory.take("lines", 5) == b"one\nt"
        assert directory.names(10) == []
    assert (tmp_path / "new" / "deep").is_dir()


@pytest.mark.parametrize("name", ["..", "a/../..", "/etc"])
def test_a_directory_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match="outside"), nofollow_directory(tmp_path, name):
        pass


@posix_only("links and pipes")
def test_nothing_is_written_through_what_an_agent_put_there(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "linked").symlink_to(outside)
    open_before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    for name in ("linked", "linked/deep"):
        with pytest.raises(OSError, match="link"), nofollow_directory(tree, name):
            pass
    with nofollow_directory(tree, ".") as directory:
        (tree / "link").symlink_to(outside / "file")
        os.mkfifo(tree / "pipe")
        (tree / "directory").mkdir()
        for name in ("link", "pipe", "directory"):
            with pytest.raises(OSError):
                directory.append(name, b"theirs")
        assert directory.take("pipe", 10) == b""
        directory.replace("link", b"new")
    assert (tree / "link").read_text() == "new"
    assert [(each.name, each.read_text()) for each in outside.iterdir()] == [("file", "mine")]
    if open_before:
        assert len(os.listdir("/proc/self/fd")) == open_before


@posix_only("links")
def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "file").symlink_to("precious")
    replace_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "file").is_symlink()


def test_an_artifact_that_cannot_be_written_is_an_error_with_a_code(tmp_path: Path) -> None:
    with pytest.raises(YouBenchaError) as raised:
        write_atomically(tmp_path / "missing" / "file", b"")
    assert raised.value.code == "ARTIFACTS_NOT_WRITABLE"


def test_a_file_below_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"12345")
    assert read_nofollow(tmp_path, "a/b/file", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes") as raised:
        read_nofollow(tmp_path, "a/b/file", 4)
    assert raised.value.errno == errno.EFBIG


@pytest.mark.parametrize("name", ["", ".", "/etc/passwd", "../secret", "a/../../secret", "nul\0"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(OSError, match="outside"):
        open_nofollow(root, name)


@posix_only("links and pipes")
def test_no_link_is_followed_and_no_pipe_is_waited_for(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    (root / "real" / "file").write_text("text")
    (root / "link").symlink_to("real/file")
    (root / "directory").symlink_to("real")
    os.mkfifo(root / "pipe")
    for name in ("link", "directory/file", "directory"):
        with pytest.raises(OSError, match="is a link"):
            open_nofollow(root, name)
    for name in ("pipe", "real"):
        with pytest.raises(OSError, match="not a regular file"):
            open_nofollow(root, name)
    with pytest.raises(FileNotFoundError):
        open_nofollow(root, "missing")


@posix_only("descriptors are counted in /proc")
def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    before = len(os.listdir("/proc/self/fd"))
    for name in ("a", "a/missing", "link/x", "missing/x"):
        with pytest.raises(OSError):
            open_nofollow(tmp_path, name)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", ["/etc/passwd", "C:\\x", "\\x", "../x", "a\\..\\x", "nul\0"])
def test_a_path_in_a_configuration_stays_below_its_base(tmp_path: Path, name: str) -> None:
    with pytest.raises(PathNotAllowed):
        read_within(tmp_path, name, 9)


@posix_only("links")
def test_a_link_may_lead_to_a_file_inside_only(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "file").write_text("text")
    (base / "inside").symlink_to("file")
    (base / "outside").symlink_to(tmp_path / "secret")
    (base / "circle").symlink_to("circle")
    assert read_within(base, "inside", 9) == b"text"
    with pytest.raises(PathNotAllowed):
        read_within(base, "outside", 9)
    with pytest.raises(OSError, match="is a link"):
        read_within(base, "circle", 9)


@posix_only("links")
def test_walking_follows_no_link_and_enters_what_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").touch()
    (tmp_path / "node_modules" / "c").mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to(tmp_path)
    names = sorted(entry.name for entry in walk(tmp_path, enter=lambda entry: entry.name != "node_modules"))
    assert names == ["a", "b", "file", "link", "node_modules"]
    errors: list[OSError] = []
    assert list(walk(tmp_path / "missing", on_error=errors.append)) == []
    assert isinstance(errors[0], FileNotFoundError)


@posix_only("paths have another limit")
def test_directories_nested_too_deeply_for_a_path_end_as_an_error(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(50):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    errors: list[OSError] = []
    assert 10 < len(list(walk(os.fsencode(tmp_path), on_error=errors.append))) < 50
    assert [error.errno for error in errors] == [errno.ENAMETOOLONG]
    remove_tree(tmp_path)
