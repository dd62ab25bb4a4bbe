"""A file that may define a custom agent: the person's own, or one that came with an untrusted repository."""

from __future__ import annotations

from pathlib import Path

_LARGEST_FILE = 1024 * 1024


def read_definition(path: Path, *, below: Path | None = None) -> bytes | None:
    """None if it defines nothing: it cannot be read, or a link leads to it out of `below`.

    A pipe would be waited on for ever.
    """
    try:
        if below is not None and not path.resolve().is_relative_to(below.resolve()):
            return None
        return path.read_bytes() if path.is_file() and path.stat().st_size <= _LARGEST_FILE else None
    except OSError:
        return None
