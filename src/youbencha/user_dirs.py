"""Locate the directories of a user and of a project, and tolerate a cache that cannot be written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from youbencha.errors import YouBenchaError

TOOLBOX_VARIABLE = "YOUBENCHA_TOOLBOX"
_NAME = "youbencha"

CACHE_NOT_WRITABLE = "CACHE_NOT_WRITABLE"
_CACHE_HINT = "Free some space, or set another `cache_dir` in the settings."


class Cache:
    """Files that only save time. If they cannot be written, runs continue without them, and warn once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self._error: OSError | None = None
        self._warned = False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Ignore, but remember, that the block could not write here."""
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
        message = f"The cache cannot be written ({reason}), so runs are slower: {self.directory}. {_CACHE_HINT}"
        return CACHE_NOT_WRITABLE, message


def cache_not_writable(what: str, directory: Path, reason: str) -> YouBenchaError:
    """Return the error for something that is impossible without the cache."""
    return YouBenchaError(CACHE_NOT_WRITABLE, f"Cannot keep {what} in {directory}: {reason}", hint=_CACHE_HINT)


def default_cache_dir() -> Path:
    """Return youBencha's directory in the user's cache directory."""
    return platformdirs.user_cache_path(_NAME, appauthor=False, opinion=False)


def toolbox_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the toolbox: `$YOUBENCHA_TOOLBOX` of `env`, otherwise in the user's data directory."""
    if given := env.get(TOOLBOX_VARIABLE):
        return Path(given).expanduser().absolute()
    return platformdirs.user_data_path(_NAME, appauthor=False) / "toolbox"


def home_dir(env: Mapping[str, str]) -> Path | None:
    """Return the home directory in an environment, of any system."""
    home = env.get("HOME") or env.get("USERPROFILE")
    return Path(home) if home else None


def project_directories(directory: Path) -> list[Path]:
    """Return a directory and its parents up to the top of its repository; without one, that directory alone."""
    directory = directory.absolute()
    upwards = [directory, *directory.parents]
    top = next((number for number, path in enumerate(upwards) if (path / ".git").exists()), 0)
    return upwards[: top + 1]
