"""Why a program could not be started, in words that help."""

from __future__ import annotations

import errno

from youbencha.errors import YouBenchaError
from youbencha.process.model import Command

_HINTS = {
    errno.ENOENT: "Check that the program and the working directory exist.",
    errno.ENOTDIR: "Check that the working directory is a directory.",
    errno.EACCES: "Make the program executable (chmod +x), and the working directory readable.",
    errno.E2BIG: "The arguments or the environment are too long for this system: pass text by stdin or file.",
    errno.ENOEXEC: "The file is not a program for this machine: a script needs a first line such as #!/bin/sh.",
    errno.EMFILE: "Too many open files: raise the limit (ulimit -n) or run fewer agents at once.",
}


class ProcessStartError(YouBenchaError):
    """The program did not start; nothing of it ran."""


def start_error(command: Command, reason: str, number: int | None) -> ProcessStartError:
    return ProcessStartError(
        "PROCESS_START_FAILED",
        f"Cannot start {command.argv[0]}: {reason}",
        hint=_HINTS.get(number or 0, "Run the program by hand in the same directory to see what it needs."),
        context={"errno": number, "cwd": str(command.cwd)},
    )
