"""What lies in a judged tree and is ours: results of `yb eval`, and the very copy that is being made."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


class LeavingOut:
    """Holds the entries of a tree that are to be passed over.

    They are told by what they are, not by their path: the tree may be reached by a link, or spelled otherwise.
    """

    def __init__(self, ours: Iterable[Path] = (), *, target: Path | None = None) -> None:
        """`target` is where a copy goes to: what holds it is left out as well, or it would be copied into itself."""
        paths = [path.resolve() for path in ours]
        if target is not None:
            paths += [target.resolve(), *target.resolve().parents]
        self._names = {path.name.lower() for path in paths}
        self._identities = {found for path in paths if (found := _identity(os.fspath(path)))}

    def __contains__(self, entry: os.DirEntry[str]) -> bool:
        return entry.name.lower() in self._names and _identity(entry.path) in self._identities


def _identity(path: str) -> tuple[int, int] | None:
    """None if it is not there. Not what `scandir` knows: that is nothing on Windows, and wrong where one is mounted."""
    try:
        found = os.lstat(path)  # a link to what is ours is not
    except OSError:
        return None
    return found.st_dev, found.st_ino
