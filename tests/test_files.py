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
    open_untrusted,
    read_confined,
    read_untrusted,
    replace_file,
    replacing,
    write_atomically,
)


def test_a_file_is_replaced_with_its_permissions_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / ("long-name-" * 20)
    path.write_text("old")
    replace_file(path, b"new", mode=0o600)
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


@posix_only("links")
def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "file").symlink_to("precious")
    replace_file(tmp_path / "file", b"new")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "file").is_symlink()


def test_an_artifact_that_cannot_be_written_is_an_error_with_a_code(tmp_path: Path) -> None:
    with pytest.raises(YouBenchaError) as raised:
        write_atomically(tmp_path / "missing" / "file", b"")
    assert raised.value.code == "ARTIFACTS_NOT_WRITABLE"


def test_a_file_below_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"12345")
    assert read_untrusted(tmp_path, "a/b/file", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes") as raised:
        read_untrusted(tmp_path, "a/b/file", 4)
    assert raised.value.errno == errno.EFBIG


@pytest.mark.parametrize("name", ["", ".", "/etc/passwd", "../secret", "a/../../secret", "nul\0"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(OSError, match="outside"):
        open_untrusted(root, name)


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
            open_untrusted(root, name)
    for name in ("pipe", "real"):
        with pytest.raises(OSError, match="not a regular file"):
            open_untrusted(root, name)
    with pytest.raises(FileNotFoundError):
        open_untrusted(root, "missing")


@posix_only("descriptors are counted in /proc")
def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    before = len(os.listdir("/proc/self/fd"))
    for name in ("a", "a/missing", "link/x", "missing/x"):
        with pytest.raises(OSError):
            open_untrusted(tmp_path, name)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", ["/etc/passwd", "C:\\x", "\\x", "../x", "a\\..\\x", "nul\0"])
def test_a_path_in_a_configuration_stays_below_its_base(tmp_path: Path, name: str) -> None:
    with pytest.raises(PathNotAllowed):
        read_confined(tmp_path, name, 9)


@posix_only("links")
def test_a_link_may_lead_to_a_file_inside_only(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "file").write_text("text")
    (base / "inside").symlink_to("file")
    (base / "outside").symlink_to(tmp_path / "secret")
    (base / "circle").symlink_to("circle")
    assert read_confined(base, "inside", 9) == b"text"
    with pytest.raises(PathNotAllowed):
        read_confined(base, "outside", 9)
    with pytest.raises(OSError, match="is a link"):
        read_confined(base, "circle", 9)
