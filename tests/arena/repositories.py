"""Git repositories for tests. The same one is made once, and then copied: git takes ten processes to make it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path


def copied(path: Path, near: Path, content: object, make: Callable[[Path], None]) -> Path:
    """Let `make` fill `path`, or copy what it made of the same content before.

    That is kept beside `near`: for a test's own directory, as long as those of the other tests.
    """
    kept = near.parent / f"repository-{hashlib.sha256(repr(content).encode()).hexdigest()[:16]}"
    if not kept.exists():
        making = kept.with_suffix(".making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        make(making)
        making.rename(kept)
    shutil.copytree(kept, path, symlinks=True)
    return path
