"""Which program exactly ran, byte for byte: the digest of an agent's executable.

Taken while the agent runs, in a thread, and remembered: a CLI of 300 MB is read once, not in every run.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path


class Digest:
    """Begun when the program is known; finished once the agent is."""

    def __init__(self) -> None:
        self._task: asyncio.Task[str | None] | None = None

    def begin(self, executable: str) -> None:
        self._task = asyncio.create_task(asyncio.to_thread(_sha256, Path(executable)))

    async def finish(self) -> str | None:
        return None if self._task is None else await self._task


def _sha256(path: Path) -> str | None:
    """None if it cannot be read, or is gone: unknown is not an error."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
