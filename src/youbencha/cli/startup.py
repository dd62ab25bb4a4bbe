"""Make commands start and end quickly. The effect of each step here was measured."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import sys
from typing import NoReturn

_PROCESS_DEFAULTS = {"PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""Variables for this process only: it uses no plugins of pydantic, and searching for them takes 7 ms."""


def prepare() -> None:
    gc.disable()  # while modules are loaded, there is nothing to collect, and scanning takes 15 ms
    os.environ.update({name: value for name, value in _PROCESS_DEFAULTS.items() if name not in os.environ})
    for stream in (sys.stdout, sys.stderr):
        # A pipe on Windows may not support "●"; a question mark is better than a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def users_environment() -> dict[str, str]:
    """Return the environment for programs that this process starts: its own, without what `prepare` has set."""
    return {name: value for name, value in os.environ.items() if _PROCESS_DEFAULTS.get(name) != value}


def loaded() -> None:
    """Turn garbage collection on again, after all modules are loaded."""
    gc.freeze()
    gc.enable()


def exit_now(code: int) -> NoReturn:
    """Exit without finalizing the interpreter, which takes 40 ms."""
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed before the start
        with contextlib.suppress(OSError, ValueError):  # its reader has closed the pipe
            stream.flush()
    os._exit(code)
