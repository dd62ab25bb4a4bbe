"""Where the objects of a repository come from: a repository on this machine, or the mirror of one elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from youbencha.workspace.refs import Refs


class Store(Protocol):
    @property
    def public_url(self) -> str: ...

    @property
    def objects(self) -> Path:
        """The directory of objects, for git to read from."""
        ...

    async def refs(self) -> Refs:
        """As they are now."""
        ...

    async def commit(self, written: str) -> str:
        """The full id of a commit that somebody wrote, whole or its beginning. It is in the store afterwards."""
        ...

    async def bring(self, object_id: str) -> str:
        """The commit behind an id that `refs` told. It is in the store afterwards."""
        ...

    async def renew(self) -> bool:
        """Get everything anew, because something here is damaged. False where that cannot be done."""
        ...
