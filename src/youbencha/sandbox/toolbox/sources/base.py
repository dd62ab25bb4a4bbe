"""What every source does: say which release it would fetch, then fetch it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from youbencha.sandbox.toolbox.place import Place
from youbencha.sandbox.toolbox.watched import Progress

EXE = ".exe" if os.name == "nt" else ""


@dataclass(frozen=True, slots=True)
class Release:
    package: str
    """As the package manager names it, with its version."""
    version: str | None
    """Of the CLI. None where only the package itself can tell."""
    about_mb: int | None = None
    """To download, where that is known."""

    @property
    def described(self) -> str:
        return f"{self.package} (about {self.about_mb} MB)" if self.about_mb else self.package


class Fetcher(Protocol):
    def available(self) -> bool:
        """Whether its package manager is there at all."""
        ...

    async def plan(self, version: str | None, place: Place, progress: Progress) -> Release:
        """What `fetch` would bring; None asks for the newest. Downloads no package."""
        ...

    async def fetch(self, release: Release, place: Place, progress: Progress) -> Sequence[Path]:
        """Fill `place.tree`. Returns the executables to try, the best first; never empty."""
        ...
