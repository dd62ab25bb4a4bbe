"""Put a settings file in its place, whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_atomically(file: Path, text: str) -> None:
    """Through a link, as dotfiles often are; permissions and line ends stay as they were."""
    target = file.resolve()
    ends = "\r\n" if target.exists() and b"\r\n" in target.read_bytes() else "\n"
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(text.replace("\n", ends).encode("utf-8"))
        with suppress(FileNotFoundError):
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
