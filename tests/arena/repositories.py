"""Git repositories for tests. Each is made once and then copied, because making one takes ten git processes."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path


def copied(path: Path, near: Path, content: object, make: Callable[[Path], None]) -> Path:
    """Create `path` as a copy of what `make` makes, which is called once for the same `content`.

    What it made is kept beside `near`. If that is a test's own directory, it is kept until all tests have ended.
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
