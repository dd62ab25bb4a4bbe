"""Files that an agent left, to be read on the host. It may have put anything there: a pipe, a link that leads away from
its own place, a file without an end.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

_LONGEST_LINE = 32 * 1024 * 1024
_MOST_BYTES = 256 * 1024 * 1024


def lines_left(path: Path, top: Path, wanted: Sequence[bytes]) -> Iterator[bytes]:
    """Those lines that hold one of `wanted`; none, where it is no regular file below `top`."""
    try:
        real = path.resolve()
        if not real.is_relative_to(top.resolve()) or not stat.S_ISREG(real.stat().st_mode):
            return
        with real.open("rb") as file:
            while (line := file.readline(_LONGEST_LINE)) and file.tell() <= _MOST_BYTES:
                if any(mark in line for mark in wanted):
                    yield line
    except (OSError, RuntimeError):  # links that go round in a circle, in Python 3.11 and 3.12
        return
