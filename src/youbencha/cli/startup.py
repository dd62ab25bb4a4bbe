"""How a command begins and ends, so that it does so quickly.

`yb` is a short program around a long one, started again and again. Each thing here was measured to matter.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import signal
import sys
from typing import NoReturn


def prepare() -> None:
    gc.disable()  # while modules are loaded there is nothing to collect, and much to look through: 15 ms
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # we use none, and looking for them takes 7 ms
    for stream in (sys.stdout, sys.stderr):
        # A pipe on Windows may not know "●"; a question mark is better than a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    for number in ending_signals():
        signal.signal(number, signal.default_int_handler)


def ending_signals() -> list[signal.Signals]:
    """Return the signals that end a command as Ctrl-C does: of a service manager, or of a terminal that is closed.

    Those that are ignored (nohup) stay so.
    """
    names = ("SIGTERM", "SIGHUP")
    found = [signal.Signals[name] for name in names if name in signal.Signals.__members__]
    return [number for number in found if signal.getsignal(number) is not signal.SIG_IGN]


def loaded() -> None:
    """Collect garbage again: all modules are loaded."""
    gc.freeze()
    gc.enable()


def exit_now(code: int) -> NoReturn:
    """End now. Taking an interpreter apart, only to free what the system frees anyway, takes 40 ms."""
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: it was closed before we began
        with contextlib.suppress(OSError, ValueError):  # its reader has gone
            stream.flush()
    os._exit(code)
