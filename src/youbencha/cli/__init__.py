"""The front door `yb`. Parses arguments, calls one function, shows what came of it."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `yb` and `youbencha`."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        # Answered before anything heavy is imported: shells and scripts ask this often.
        from youbencha import __version__

        print(f"youbencha {__version__}")
        return
    _prepare()
    try:
        from youbencha.cli.app import run_app

        sys.exit(run_app(sys.argv[1:]))
    except KeyboardInterrupt:  # while still importing
        sys.exit(130)


def _prepare() -> None:
    import io
    import os
    import signal

    # Looking for plugins of pydantic means reading the metadata of every installed package: 10 ms, for nothing.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

    for stream in (sys.stdout, sys.stderr):
        # A pipe on Windows may not know "●"; a question mark is better than a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # A polite end (a service manager's, say) is one like Ctrl-C: what was begun is cleaned up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
