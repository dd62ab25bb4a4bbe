"""Find a program on PATH without a shell; explain why one did not start."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.process.model import Command

_DEFAULT_PATHEXT = ".COM;.EXE;.BAT;.CMD"
_WINDOWS_TOO_LONG = 206  # ERROR_FILENAME_EXCED_RANGE: the command line is too long, though errno is ENOENT
_HINTS = {
    errno.ENOENT: "Check that the program and the working directory exist.",
    errno.ENOTDIR: "Check that the working directory is a directory.",
    errno.EACCES: "Make the program executable (chmod +x), and the working directory readable.",
    errno.E2BIG: "The arguments or the environment are too long for this system: pass text by stdin or file.",
    errno.ENOEXEC: "The file is not a program for this machine: a script needs a first line such as #!/bin/sh.",
    errno.EMFILE: "Too many open files: raise the limit (ulimit -n) or run fewer agents at once.",
}
_NUL = "Arguments and environment variables cannot contain NUL: remove it, or pass the text by stdin or file."
_SURROGATE = "A lone surrogate (half a character) cannot be passed on: fix the text, or pass it by stdin or file."
_NAME = "The name of an environment variable cannot be empty or contain '='."
_UNKNOWN = "Run the program by hand in the same directory to see what is missing."


def find_executable(name: str, env: Mapping[str, str], *, platform: str = sys.platform) -> Path | None:
    """Return the first executable `name` on the environment's PATH; on Windows also with the endings of PATHEXT."""
    if Path(name).name != name:
        return None
    path = _get(env, "PATH", platform)
    endings = _endings(name, env, platform)
    # An empty entry means the current directory, which may be an untrusted repository. Relative entries are ignored.
    directories = [Path(entry) for entry in _entries(path, platform) if Path(entry).is_absolute()]
    for directory in directories:
        for ending in endings:
            candidate = directory / (name + ending)
            # os.path, unlike pathlib, returns False for a directory without permission to enter.
            if os.path.isfile(candidate) and (  # noqa: PTH113
                platform == "win32" or os.access(candidate, os.X_OK)
            ):
                return candidate
    return None


def _entries(path: str, platform: str) -> list[str]:
    if platform != "win32":
        return path.split(":")
    return [entry.strip('"') for entry in path.split(";")]


def _endings(name: str, env: Mapping[str, str], platform: str) -> list[str]:
    if platform != "win32":
        return [""]
    known = [ending for ending in _get(env, "PATHEXT", platform, _DEFAULT_PATHEXT).split(";") if ending]
    if any(name.lower().endswith(ending.lower()) for ending in known):
        return [""]
    return [ending.lower() for ending in known]


def _get(env: Mapping[str, str], name: str, platform: str, default: str = "") -> str:
    """Return a variable. Windows does not distinguish `PATH` from `Path`."""
    if platform != "win32":
        return env.get(name, default)
    return next((value for key, value in env.items() if key.upper() == name), default)


class ProcessStartError(YouBenchaError):
    """The program did not start."""


def start_error(command: Command, reason: str, number: int | None, *, hint: str | None = None) -> ProcessStartError:
    return ProcessStartError(
        "PROCESS_START_FAILED",
        f"Cannot start {command.argv[0]}: {reason}",
        hint=hint or _HINTS.get(number or 0) or unusable_text(command) or _UNKNOWN,
        context={"errno": number, "cwd": str(command.cwd)},
    )


def error_number(error: Exception) -> int | None:
    """Return the POSIX error number, also for an error of Windows that has one."""
    if getattr(error, "winerror", None) == _WINDOWS_TOO_LONG:
        return errno.E2BIG
    number: int | None = getattr(error, "errno", None)
    return number


def unusable_text(command: Command) -> str | None:
    """Explain why a text of the command cannot be passed to any program; None if all can. There is no error number."""
    texts = (*command.argv, *command.env, *command.env.values())
    if any("\0" in text for text in texts):
        return _NUL
    if not all(map(_can_be_passed, texts)):
        return _SURROGATE
    if any(not name or "=" in name for name in command.env):
        return _NAME
    return None


def _can_be_passed(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
