"""Set disk space and inodes aside while an agent runs, so that its results can be written even if it takes the rest."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage

_MOST_BYTES = 64 * 1024**2
_SHARE = 8
"""Of the free space, an eighth at most."""
_FILES = 64


@contextmanager
def room_set_aside(directory: Path) -> Iterator[None]:
    """Take, for the time of the block, what results need on the directory's disk. Raises OSError if it is full."""
    with (
        tempfile.TemporaryDirectory(prefix=".reserve-", dir=directory, ignore_cleanup_errors=True) as files,
        tempfile.TemporaryFile(dir=directory) as space,  # without a name: nothing is lost if the harness is killed
    ):
        for number in range(_FILES):
            Path(files, str(number)).touch()
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(space.fileno(), 0, min(_MOST_BYTES, disk_usage(directory).free // _SHARE) or 1)
        yield
