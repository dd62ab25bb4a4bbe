"""A directory for what only the harness needs: how the tree was at the start, what its evaluators work with.

Not beside the agent's tree, where `..` leads. An agent that runs as the same user without a sandbox can still look for
it; so `state_of` tells whether anything in it was touched.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

_RUNS = "runs"
_NAME = re.compile(r"(.+)-[0-9a-f]{16}", re.DOTALL)
_OWNER_ONLY = 0o700

State = frozenset[tuple[object, ...]]


def make_private(run: str, cache_dir: Path | None) -> Path:
    """For the run of that name, in the cache directory or, if that cannot be written, where temporary files go."""
    name = f"{run}-{os.urandom(8).hex()}"
    try:
        parent = _runs_in(cache_dir)
        parent.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        return _made(parent / name)
    except (OSError, RuntimeError):  # RuntimeError: this user has no home directory
        import tempfile

        return _made(Path(tempfile.gettempdir()).absolute() / name)


def make_another(run: str, private: Path) -> Path:
    """Beside the one that is there, with a name of the same form: if we die, both are found by the run's name."""
    return _made(private.parent / f"{run}-{os.urandom(8).hex()}")


def find_private(run: str, parent: str) -> Iterator[Path]:
    """Those of a run that died. An agent may have chosen `parent`: nothing but what has such a name is told."""
    return (path for name, path in private_in(parent) if name == run)


def private_in(parent: str) -> Iterator[tuple[str, Path]]:
    """The directories in there that have such a name, each with the name of its run."""
    try:
        names = os.listdir(parent) if os.path.isabs(parent) else []  # noqa: PTH117, PTH208
    except (OSError, ValueError):
        return
    for name in names:
        path = Path(parent, name)
        if (found := _NAME.fullmatch(name)) and not path.is_symlink() and path.is_dir():
            yield found[1], path


def state_of(directory: Path) -> State:
    """Changes if anything in it does. The time of a file's last change (`ctime`) cannot be set by anybody."""
    found: set[tuple[object, ...]] = set()
    for folder, directories, files in os.walk(directory):
        for name in (*directories, *files):
            path = os.path.join(folder, name)  # noqa: PTH118 - quicker, and there may be many
            about = os.lstat(path)
            # Times of directories change when git makes a file for a moment.
            times = () if stat.S_ISDIR(about.st_mode) else (about.st_size, about.st_mtime_ns, about.st_ctime_ns)
            found.add((path, about.st_mode, about.st_ino, *times))
    return frozenset(found)


def _runs_in(cache_dir: Path | None) -> Path:
    if cache_dir is None:
        from youbencha.workspace.cache import default_cache_dir

        cache_dir = default_cache_dir()
    return cache_dir.absolute() / _RUNS


def _made(path: Path) -> Path:
    path.mkdir(mode=_OWNER_ONLY)
    return path
