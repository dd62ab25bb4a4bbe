"""Where an installation is made: a directory that nobody looks at, beside the versions of the agent."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PARTIAL = ".partial-"


@dataclass(frozen=True, slots=True)
class Place:
    """The two directories of an installation under way; both exist, on the same disk."""

    tree: Path
    """Becomes `<root>/<agent>/<version>`."""
    work: Path
    """Downloads and temporary files; thrown away."""


@contextmanager
def partial(home: Path) -> Iterator[Place]:
    """A place below the directory of an agent, removed at the end whatever happens."""
    directory = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=home))
    try:
        place = Place(tree=directory / "tree", work=directory / "work")
        place.tree.mkdir()
        place.work.mkdir()
        yield place
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def clear_leftovers(home: Path) -> None:
    """Of installers that were killed. Only for who holds the lock."""
    for path in home.glob(f"{_PARTIAL}*"):
        shutil.rmtree(path, ignore_errors=True)
