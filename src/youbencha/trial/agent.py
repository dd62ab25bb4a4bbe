"""Which program exactly ran, byte for byte: the digest of an agent's executable.

Taken while the agent runs, in a thread, and remembered until the file changes: a CLI of 300 MB is read once, not in
every run.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from pathlib import Path

from youbencha.files import write_atomically
from youbencha.user_dirs import default_cache_dir

_SMALL_BYTES = 1_000_000
"""Below this, remembering costs more than reading."""


class Digest:
    """Begun when the program is known; finished once the agent is."""

    def __init__(self, cache_dir: Path | None) -> None:
        self._cache_dir = cache_dir
        self._task: asyncio.Task[str | None] | None = None

    def begin(self, executable: str) -> None:
        self._task = asyncio.create_task(asyncio.to_thread(sha256_of, Path(executable), self._cache_dir))

    async def finish(self) -> str | None:
        return None if self._task is None else await self._task


def sha256_of(path: Path, cache_dir: Path | None = None) -> str | None:
    """None if it cannot be read, or is gone: unknown is not an error."""
    try:
        state = path.stat()
        if state.st_size < _SMALL_BYTES:
            return hashlib.sha256(path.read_bytes()).hexdigest()
        memory = (cache_dir or default_cache_dir()) / "digests" / hashlib.sha256(bytes(path.absolute())).hexdigest()
        what = f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}"
        if known := _remembered(memory, what):
            return known
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    with contextlib.suppress(OSError):  # it is only slower without
        memory.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(memory, f"{what}\n{digest}\n".encode())
    return digest


def _remembered(memory: Path, what: str) -> str | None:
    try:
        of_what, digest = memory.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    return digest if of_what == what and len(digest) == hashlib.sha256().digest_size * 2 else None
