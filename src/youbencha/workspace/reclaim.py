"""After an agent that could write beside its tree: everything around it is ours again.

Nothing is followed, and nothing is believed: a directory counts as ours if it is the very one that we made. Costs a
few system calls where nothing happened.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from youbencha.text import shown
from youbencha.workspace.trees import remove_tree

Identity = tuple[int, int]
"""Tells one file from another in the same place."""

_RIGHTS = stat.S_IRWXU

_MOST_NAMED = 5

_DEEPEST = 20
"""Of directories of logs: no harness nests them deeper."""


def identity(path: Path) -> Identity | None:
    about = _look(path)
    return (about.st_dev, about.st_ino) if about else None


@contextmanager
def kept_open(directory: Path) -> Iterator[None]:
    """Meanwhile no other file gets the same identity, even if this one is removed."""
    if sys.platform == "win32":  # there it could not be removed, or be moved, by anybody
        yield
        return
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield
    finally:
        os.close(fd)


def restore_directory(place: Path, made: Identity, found: list[str]) -> Identity:
    """Bring back the directory that we made, or make it anew, and return its identity."""
    about = _look(place)
    if about is None or (about.st_dev, about.st_ino) != made or not stat.S_ISDIR(about.st_mode):
        found.append(f"{shown(place.name)} was {'replaced' if about else 'removed or moved'}")
        remove_tree(place)
        if _brought_back(place, made):
            found[-1] += ", and was found again"
        else:
            place.mkdir(parents=True)
            made = identity(place) or made
    elif about.st_mode & _RIGHTS != _RIGHTS:
        found.append(f"the rights to {shown(place.name)} were taken away")
    make_accessible(place)
    return made


def restore_tree(tree: Path, found: list[str]) -> None:
    """There is a directory for evaluators to work in. Another one than ours is fine: it is the agent's place."""
    about = _look(tree)
    if about is None or not stat.S_ISDIR(about.st_mode):
        was = "is gone" if about is None else f"was replaced by {_kind(about.st_mode)}, which was not followed"
        found.append(f"{shown(tree.name)} {was}: all its files count as deleted")
        remove_tree(tree)
        tree.mkdir()
    make_accessible(tree)


def remove_planted(place: Path, found: list[str]) -> None:
    if (about := _look(place)) is not None:
        found.append(f"{_kind(about.st_mode)} {shown(place.name)} was planted, and was removed")
        remove_tree(place)


def clean_artifacts(artifacts: Path, kept: Collection[str], found: list[str]) -> None:
    """Remove what is neither `kept` nor a directory that the harness writes to while the agent runs."""
    planted = []
    with os.scandir(artifacts) as entries:
        for entry in list(entries):
            path, is_directory = Path(entry.path), _is_directory(Path(entry.path))
            if is_directory and (entry.name in kept or _is_log_directory(entry.name)):
                planted += _clean(path, artifacts)
            elif not (entry.name in kept and _is_file(path)):
                planted.append(entry.name)
                remove_tree(path)
    if planted:
        names = ", ".join(shown(name) for name in sorted(planted)[:_MOST_NAMED])
        more = f" and {len(planted) - _MOST_NAMED} more" if len(planted) > _MOST_NAMED else ""
        found.append(f"planted in the artifacts, and removed: {names}{more}")


def make_accessible(directory: Path) -> None:
    """Its owner may do everything in it. A directory, not a link: links are followed here."""
    mode = directory.stat().st_mode
    if mode & _RIGHTS != _RIGHTS:
        directory.chmod(stat.S_IMODE(mode) | _RIGHTS)


def _clean(top: Path, artifacts: Path) -> list[str]:
    """Remove links, pipes, sockets and the like: a reader of logs must not be led elsewhere, or wait."""
    removed, waiting = [], [(top, 1)]
    while waiting:
        directory, depth = waiting.pop()
        make_accessible(directory)
        for path in list(directory.iterdir()):
            if _is_directory(path) and depth < _DEEPEST:
                waiting.append((path, depth + 1))
            elif not _is_file(path):
                removed.append(str(path.relative_to(artifacts)))
                remove_tree(path)
    return removed


def _brought_back(place: Path, made: Identity) -> bool:
    """Moved, but not far."""
    if not place.parent.is_dir():
        return False
    for path in list(place.parent.iterdir()):
        if _is_directory(path) and identity(path) == made:
            make_accessible(path)
            path.rename(place)
            return True
    return False


def _look(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        make_accessible(path.parent)
        return path.lstat() if os.path.lexists(path) else None


def _is_directory(path: Path) -> bool:
    about = path.lstat()
    return stat.S_ISDIR(about.st_mode) and not getattr(about, "st_reparse_tag", 0)


def _is_file(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _is_log_directory(name: str) -> bool:
    return name == "hooks" or name.endswith("-logs")


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a link"
    return "a directory" if stat.S_ISDIR(mode) else "a file"
