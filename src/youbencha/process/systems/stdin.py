"""What a program reads: a file with everything in it, nothing, or a pipe that somebody talks through."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import IO

from youbencha.process.input import Input


def open_stdin(given: bytes | Input | None) -> IO[bytes]:
    """The end that the program gets."""
    if given is None:
        return Path(os.devnull).open("rb")
    if isinstance(given, Input):
        reader, writer = os.pipe()
        given.connect(writer)
        return os.fdopen(reader, "rb", buffering=0)
    with contextlib.ExitStack() as on_failure:
        file = on_failure.enter_context(tempfile.TemporaryFile(prefix="youbencha-stdin-"))
        file.write(given)
        file.seek(0)
        on_failure.pop_all()
    return file
