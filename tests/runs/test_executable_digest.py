"""The digest of the program that ran, without reading hundreds of megabytes in every run."""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest

from youbencha.trial import agent
from youbencha.trial.agent import cached_sha256
from youbencha.user_dirs import Cache

LARGE = b"program " * 200_000


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_bytes(LARGE)
    return path


def test_the_digest_is_correct_and_cached(program: Path, tmp_path: Path) -> None:
    expected = hashlib.sha256(LARGE).hexdigest()
    assert cached_sha256(program, Cache(tmp_path / "cache")) == expected
    (memory,) = (tmp_path / "cache" / "digests").iterdir()
    lines = memory.read_text().splitlines()
    memory.write_text(f"{lines[0]}\n{'0' * 64}\n")
    assert cached_sha256(program, Cache(tmp_path / "cache")) == "0" * 64  # it was not read again
    memory.write_text("nonsense")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent, "_digests", {})  # as in another process
        assert cached_sha256(program, Cache(tmp_path / "cache")) == expected


def test_trials_that_start_together_read_it_once(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []

    def file_digest(file: BinaryIO, name: str) -> object:
        reads.append(name)
        time.sleep(0.1)  # so that all have started
        return digest(file, name)

    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", file_digest)
    with ThreadPoolExecutor() as threads:
        digests = set(threads.map(cached_sha256, [program] * 4, [Cache(tmp_path / "cache")] * 4))
    assert (digests, reads) == ({hashlib.sha256(LARGE).hexdigest()}, ["sha256"])


def test_a_program_that_changed_is_read_again(program: Path, tmp_path: Path) -> None:
    first = cached_sha256(program, Cache(tmp_path / "cache"))
    times = program.stat()
    program.write_bytes(LARGE[:-1] + b"!")
    os.utime(program, ns=(times.st_atime_ns, times.st_mtime_ns))  # times can be set
    assert cached_sha256(program, Cache(tmp_path / "cache")) != first


def test_the_digest_of_an_unreadable_file_is_unknown(tmp_path: Path) -> None:
    assert cached_sha256(tmp_path / "nothing", Cache(tmp_path / "cache")) is None


def test_an_unwritable_cache_is_ignored(program: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert cached_sha256(program, Cache(tmp_path / "cache")) == hashlib.sha256(LARGE).hexdigest()
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(hashlib, "file_digest")  # a second time, it is not read
        assert cached_sha256(program, Cache(tmp_path / "cache")) == hashlib.sha256(LARGE).hexdigest()
