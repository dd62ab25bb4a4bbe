"""A small disk of its own for a test, which it may fill without harm."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

MIB = 1024 * 1024


@contextmanager
def small_disk(path: Path, *, size: int, files: int = 10_000) -> Iterator[Path]:
    """Mount a file system of this size, in memory, at `path`. The test is skipped where that is not permitted."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    path.mkdir()
    options = f"size={size},nr_inodes={files},mode=0700"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def run_with_small_disk(path: Path, size: str, command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a shell command that sees a small disk at `path`, in a namespace of its own: no root is needed.

    The test is skipped where namespaces are not permitted, as in most containers.
    """
    namespace = ("unshare", "--map-root-user", "--mount")
    if sys.platform != "linux" or subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a namespace cannot be made here")
    inside = f"mount -t tmpfs -o size={size} none {shlex.quote(str(path))} && {command}"
    return subprocess.run([*namespace, "sh", "-c", inside], capture_output=True, text=True, check=False, **options)


def fill(path: Path) -> None:
    """Write to `path` until its disk is full."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(MIB)):
                pass
        except OSError:
            return
