"""The project that a file belongs to."""

from __future__ import annotations

from pathlib import Path


def project_directories(directory: Path) -> list[Path]:
    """From a directory up to the top of its repository; without one, that directory alone."""
    directory = directory.absolute()
    up = [directory, *directory.parents]
    top = next((number for number, place in enumerate(up) if (place / ".git").exists()), 0)
    return up[: top + 1]
