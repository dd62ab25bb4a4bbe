"""The command line `yb`: parse arguments, call one function, show the result."""

from __future__ import annotations

import os
import signal
import sys

NOT_PASSED, CANNOT_RUN, INTERRUPTED = 1, 2, 130


def main() -> None:
    """Entry point of `yb` and `youbencha`."""
    _run("app")


def thunderdome() -> None:
    """Entry point of `thunderdome`, which has the commands of `yb bench`."""
    _run("arena_app")


def ralph() -> None:
    """Entry point of `ralph`, which has the commands of `yb loop`."""
    if sys.argv[1:2] in (["emit"], ["tools"]):  # agents call these often
        from youbencha.cli import startup

        startup.prepare()
        from youbencha.cli.loop_tools import call

        startup.exit_now(call(sys.argv[1:]))
    _run("loop_app")


def _run(commands: str) -> None:
    # Before anything is imported, see `interrupts.py`. So long as no event loop runs, there is nothing to clean up.
    for number in ending_signals():
        signal.signal(number, lambda *_: os._exit(INTERRUPTED))
    if sys.argv[1:] in (["--version"], ["-V"]):
        # Answered before anything slow is imported, because scripts ask this often.
        from youbencha import __version__

        print(f"youbencha {__version__}")
        return
    from youbencha.cli import startup

    startup.prepare()
    from youbencha.cli import app

    startup.exit_now(app.run_app(sys.argv[1:], getattr(app, commands)))


def ending_signals() -> list[signal.Signals]:
    """Ctrl-C, and the signals from a service manager or when a terminal is closed. Ignored ones (nohup) stay ignored.

    None on Windows, where an event loop cannot handle signals; there, Ctrl-C raises KeyboardInterrupt.
    """
    if sys.platform == "win32":
        return []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
