"""Locate the directories of a user and of a project."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

TOOLBOX_VARIABLE = "YOUBENCHA_TOOLBOX"


def default_cache_dir(env: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Return youBencha's directory in the cache directory of this system."""
    home = env.get("USERPROFILE" if platform == "win32" else "HOME")
    base = Path(home) if home else Path.home()
    return _user_dir(env, platform, base, mac="Caches", xdg=("XDG_CACHE_HOME", ".cache")) / "youbencha"


def project_directories(directory: Path) -> list[Path]:
    """Return a directory and those above it up to the top of its repository; without one, that directory alone."""
    directory = directory.absolute()
    upwards = [directory, *directory.parents]
    top = next((number for number, each in enumerate(upwards) if (each / ".git").exists()), 0)
    return upwards[: top + 1]


def default_root(env: Mapping[str, str] = os.environ, platform: str = sys.platform, home: Path | None = None) -> Path:
    """Return the directory of the toolbox: `$YOUBENCHA_TOOLBOX`, else in this system's directory for user data."""
    if given := env.get(TOOLBOX_VARIABLE):
        return Path(given).expanduser().absolute()
    # Not the HOME of `env`, which may be an agent's.
    data = _user_dir(
        env, platform, home or Path.home(), mac="Application Support", xdg=("XDG_DATA_HOME", ".local/share")
    )
    return data / "youbencha" / "toolbox"


def _user_dir(env: Mapping[str, str], platform: str, home: Path, *, mac: str, xdg: tuple[str, str]) -> Path:
    """Return a directory for all programs: `mac` is its name below Library, `xdg` the variable and the default."""
    if platform == "win32":
        return Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if platform == "darwin":
        return home / "Library" / mac
    variable, default = xdg
    given = Path(env.get(variable) or "")
    return given if given.is_absolute() else home / default  # the XDG specification says to ignore a relative path
