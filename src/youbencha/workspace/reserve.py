"""Set disk space and inodes aside while an agent runs, so that its results can be written even if it takes the rest."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

_BYTES = 64 * 1024**2
_SHARE = 8
"""Of the free space, at most an eighth."""
_FILES = 64


class Reserve:
    """Takes what the results will need on the file systems of some directories, until it is released."""

    def __init__(self, directories: Iterable[Path]) -> None:
        """Raises OSError if there is no room."""
        self._held = ExitStack()
        with ExitStack() as undo:
            undo.callback(self.release)
            for directory in {directory.stat().st_dev: directory for directory in directories}.values():
                self._take(directory)
            undo.pop_all()

    def release(self) -> None:
        """May be called again."""
        self._held.close()

    def _take(self, directory: Path) -> None:
        path = Path(tempfile.mkdtemp(prefix=".reserve-", dir=directory))
        self._held.callback(shutil.rmtree, path, ignore_errors=True)
        for number in range(_FILES):
            (path / str(number)).touch()
        if hasattr(os, "posix_fallocate"):
            # Without a name, so that no space is lost if the harness is killed.
            space = self._held.enter_context(tempfile.TemporaryFile(dir=directory))  # noqa: SIM115
            os.posix_fallocate(space.fileno(), 0, min(_BYTES, shutil.disk_usage(directory).free // _SHARE) or 1)
