"""The files in `.ralph/agent` that `ralph tools` changes: one process at a time, and each change whole or not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import TypeVar

from youbencha.errors import YouBenchaError
from youbencha.files import nofollow_directory, read_nofollow
from youbencha.locks import wait_for_lock

AGENT_DIRECTORY = ".ralph/agent"
_LOCK = ".lock"
_MAX_BYTES = 4 * 1024 * 1024
_WAIT_S = 10.0

T = TypeVar("T")


def read_agent_file(project: Path, name: str) -> str:
    """Return the text of a file in `.ralph/agent`; empty if there is none."""
    try:
        return read_nofollow(project, f"{AGENT_DIRECTORY}/{name}", _MAX_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _unusable(name, error) from error


def change_agent_file(project: Path, name: str, change: Callable[[str], tuple[str, T]]) -> T:
    """Replace a file's text by what `change` makes of it, while no other process changes any of these files."""
    try:
        with nofollow_directory(project, AGENT_DIRECTORY) as directory:
            lock = directory.open(_LOCK, os.O_RDWR)
            try:
                if not wait_for_lock(lock, _WAIT_S):
                    message = f"Another process has been changing {AGENT_DIRECTORY} for {_WAIT_S:.0f} s."
                    raise YouBenchaError("AGENT_FILE_BUSY", message, hint="Try again.")
                text, result = change(read_agent_file(project, name))
                data = text.encode("utf-8", "replace")
                if len(data) > _MAX_BYTES:
                    message = f"{AGENT_DIRECTORY}/{name} would be larger than {_MAX_BYTES:,} bytes."
                    raise YouBenchaError("AGENT_FILE_FULL", message, hint="Remove entries that are no longer needed.")
                directory.replace(name, data)
                return result
            finally:
                os.close(lock)
    except OSError as error:
        raise _unusable(name, error) from error


def new_id(prefix: str, taken: Container[str]) -> str:
    """Return an id as Ralph makes them, `task-1737372000-a1b2`, that is not taken."""
    while (made := f"{prefix}-{int(time.time())}-{os.urandom(2).hex()}") in taken:
        pass
    return made


def _unusable(name: str, error: OSError) -> YouBenchaError:
    message = f"Cannot read or write {AGENT_DIRECTORY}/{name}: {error.strerror or error}."
    return YouBenchaError("AGENT_FILE_UNUSABLE", message, hint="Check the file, its permissions and free disk space.")
