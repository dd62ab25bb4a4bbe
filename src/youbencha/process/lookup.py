"""Find a program the way the system would, without asking a shell."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_DEFAULT_PATHEXT = ".COM;.EXE;.BAT;.CMD"


def find_executable(name: str, env: Mapping[str, str], *, platform: str = sys.platform) -> Path | None:
    """The first runnable `name` on the environment's PATH; on Windows also with the endings of PATHEXT."""
    if Path(name).name != name:
        return None
    path = _get(env, "PATH", platform)
    endings = _endings(name, env, platform)
    # An empty entry means the current directory: with an untrusted repository there, that is never wanted, and no
    # more is any other directory that depends on where we are.
    directories = [Path(entry) for entry in _entries(path, platform) if Path(entry).is_absolute()]
    for directory in directories:
        for ending in endings:
            candidate = directory / (name + ending)
            # os.path, unlike pathlib, takes a directory that may not be entered for one without the file.
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
    """Windows does not distinguish `PATH` from `Path`."""
    if platform != "win32":
        return env.get(name, default)
    return next((value for key, value in env.items() if key.upper() == name), default)
