"""Locate the directories of a user and of a project; do without a cache that cannot be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from youbencha.errors import YouBenchaError

TOOLBOX_VARIABLE = "YOUBENCHA_TOOLBOX"

CACHE_NOT_WRITABLE = "CACHE_NOT_WRITABLE"
_CACHE_HINT = "Free some space there, or set another `cache_dir` in the settings."


class Cache:
    """Files that only save time. If they cannot be written, runs go on without them, and warn once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self._error: OSError | None = None
        self._warned = False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Do without what the block writes here if that fails."""
        try:
            yield
        except OSError as error:
            self._error = self._error or error

    def take_warning(self) -> tuple[str, str] | None:
        """Return a code and a message if something could not be written, once."""
        if self._error is None or self._warned:
            return None
        self._warned = True
        reason = self._error.strerror or self._error
        message = f"the cache cannot be written ({reason}): runs are slower. It is {self.directory}. {_CACHE_HINT}"
        return CACHE_NOT_WRITABLE, message


def cache_not_writable(what: str, directory: Path, reason: str) -> YouBenchaError:
    """Return the error for something that is impossible without the cache."""
    return YouBenchaError(CACHE_NOT_WRITABLE, f"Cannot keep {what} in {directory}: {reason}", hint=_CACHE_HINT)


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
