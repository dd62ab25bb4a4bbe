"""Write files safely."""

from __future__ import annotations

import os
from pathlib import Path

from youbencha.errors import YouBenchaError


def write_atomically(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Write the whole file or nothing: a reader, or a kill half-way, finds the old content or the new.

    `mode` is the new file's permissions; by default, those of any new file.
    """
    partial = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        try:
            partial.write_bytes(data)
            if mode is not None:
                partial.chmod(mode)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise YouBenchaError(
            "ARTIFACTS_NOT_WRITABLE",
            f"Cannot write {path}: {error.strerror or error}",
            hint="Check that the artifacts directory exists, belongs to you and has room.",
        ) from error
