"""The command line `yb`: parse arguments, call one function, show the result."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `yb` and `youbencha`."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        # Answered before anything slow is imported, because scripts ask this often.
        from youbencha import __version__

        print(f"youbencha {__version__}")
        return
    from youbencha.cli import interrupts

    interrupts.end_on_signals()
    from youbencha.cli import startup

    startup.prepare()
    from youbencha.cli.app import run_app

    startup.exit_now(run_app(sys.argv[1:]))
