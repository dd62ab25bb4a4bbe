"""A spool returns what was written, and frees its disk space."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator

import pytest

from systems import ON_LINUX, linux_only, posix_only
from youbencha.process import Limits, Stream
from youbencha.process.streams import FreeRange, Spool, punch_hole

pytestmark = posix_only("these spools are files without a name; its own are in use in test_process_on_windows.py")

MIB = 1024 * 1024


@contextlib.contextmanager
def spool(ceiling: int, *, keep_first: int = 0, free_range: FreeRange = punch_hole) -> Iterator[Spool]:
    limits = Limits(spool_bytes=ceiling, output_bytes=keep_first)
    with contextlib.closing(Spool(Stream.OUT, limits, free_range=free_range)) as made:
        yield made


def no_holes(fd: int, offset: int, length: int) -> bool:
    return False


def write(spool: Spool, data: bytes) -> None:
    while data:
        data = data[os.write(spool.writer, data) :]


def read_all(spool: Spool) -> bytes:
    return b"".join(iter(spool.read, b""))


def disk(spool: Spool) -> int:
    return os.fstat(spool.writer).st_blocks * 512


def noise(size: int) -> bytes:
    """Bytes that are nowhere alike, so that a lost or doubled piece shows."""
    return random.Random(size).randbytes(size)


def test_written_data_is_read_once() -> None:
    with spool(MIB) as one:
        assert one.read() == b""
        write(one, b"hello")
        assert one.read() == b"hello"
        assert one.read() == b""
        write(one, b" again")
        assert one.read() == b" again"
        assert one.skipped_bytes == 0


@pytest.mark.parametrize("free_range", [punch_hole, no_holes])
def test_a_reader_that_keeps_up_gets_everything_and_frees_the_disk(free_range: FreeRange) -> None:
    with spool(8 * MIB, keep_first=2 * MIB, free_range=free_range) as one:
        most = 0
        for step in range(64):
            data = noise(MIB)[step:]
            write(one, data)
            most = max(most, disk(one))
            assert read_all(one) == data
        assert one.skipped_bytes == 0
        assert most <= 14 * MIB


@pytest.mark.parametrize("free_range", [punch_hole, no_holes])
def test_unread_data_beyond_the_limit_is_skipped(free_range: FreeRange) -> None:
    with spool(4 * MIB, free_range=free_range) as one:
        write(one, noise(20 * MIB))
        data = read_all(one)
        assert one.skipped_bytes + len(data) == 20 * MIB
        assert len(data) == (2 * MIB if free_range is punch_hole and ON_LINUX else 0)
        assert disk(one) < 4 * MIB
        write(one, b"last words")
        assert read_all(one) == b"last words"


@pytest.mark.parametrize("free_range", [punch_hole, no_holes])
def test_the_first_bytes_to_keep_are_never_skipped(free_range: FreeRange) -> None:
    with spool(MIB, keep_first=6 * MIB, free_range=free_range) as one:
        write(one, noise(16 * MIB))
        data = read_all(one)
        assert data[: 6 * MIB] == noise(16 * MIB)[: 6 * MIB]
        assert one.skipped_bytes + len(data) == 16 * MIB


@linux_only("elsewhere files have no holes, and the whole file is emptied")
def test_skip_to_end_leaves_only_the_end() -> None:
    with spool(64 * MIB) as one:
        write(one, noise(20 * MIB))
        one.skip_to_end()
        assert noise(20 * MIB).endswith(read_all(one))
        assert one.skipped_bytes == 16 * MIB


def test_a_truncated_file_is_read_from_its_start() -> None:
    with spool(MIB) as one:
        write(one, b"old" * 100)
        assert one.read() == b"old" * 100
        os.ftruncate(one.writer, 0)
        write(one, b"new")
        assert one.read() == b"new"


def test_the_file_has_no_name_on_disk() -> None:
    with spool(MIB) as one:
        assert os.fstat(one.writer).st_nlink == 0


def test_the_writer_is_closed_once() -> None:
    with spool(MIB) as one:
        one.close_writer()
        one.close_writer()
        assert one.writer == -1
