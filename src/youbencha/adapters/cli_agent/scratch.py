"""A directory for one run's prompts and settings, and for what the agent writes beside its work."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from youbencha.errors import YouBenchaError


@contextlib.contextmanager
def scratch_directory(parent: Path | None = None) -> Iterator[Path]:
    """In `parent`, so that whoever made that finds it even after a kill; else where temporary files go.

    Gone afterwards, whatever the agent left there. Python's own TemporaryDirectory would follow links (3.11.7).
    """
    path = Path(tempfile.mkdtemp(prefix="youbencha-", dir=parent)).absolute()
    try:
        yield path
    finally:
        from youbencha.workspace.removal import remove_tree

        with contextlib.suppress(YouBenchaError):
            remove_tree(path)
