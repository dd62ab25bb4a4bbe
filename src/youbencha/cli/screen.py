"""What a terminal can show: its width, and whether it takes escape sequences."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def is_plain(stream: TextIO | None) -> bool:
    """Whether to write no escape sequences at all: NO_COLOR is set, the terminal is a dumb one, or there is none."""
    no_terminal = stream is None or not stream.isatty()
    return no_terminal or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def can_show_screen() -> bool:
    """Whether there is a terminal for the full screen: it reads standard input, and draws on standard error."""
    return os.environ.get("TERM", "dumb") != "dumb" and all(
        stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)
    )


def width_of(stream: TextIO | None) -> int:
    """Return the columns of a terminal. In a pipe or a file there is no limit: nothing is wrapped or left out."""
    return sys.maxsize if stream is None or not stream.isatty() else shutil.get_terminal_size().columns


def console_on(stream: TextIO) -> Console:
    """Return a console that does not wrap lines, and writes styles only where they are wanted."""
    from rich.console import Console

    return Console(file=stream, highlight=False, soft_wrap=True, force_terminal=not is_plain(stream))
