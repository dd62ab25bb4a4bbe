"""What a program reads: a file with everything in it, or nothing. Either way it comes to an end."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import IO


def open_stdin(data: bytes | None) -> IO[bytes]:
    if data is None:
        return Path(os.devnull).open("rb")
    with contextlib.ExitStack() as on_failure:
        file = on_failure.enter_context(tempfile.TemporaryFile(prefix="youbencha-stdin-"))
        file.write(data)
        file.seek(0)
        on_failure.pop_all()
    return file
