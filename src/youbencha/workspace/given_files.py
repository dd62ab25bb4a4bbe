"""Files that a user gives to an agent: list a directory of them within limits, hash them, and copy them.

A link is used only if it leads to a file in the same directory, and becomes that file. Anything called `.git` is left
out: a skill or a plugin is often a clone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import open_file, replacing
from youbencha.text import shown

MOST_FILES = 10_000
MOST_BYTES = 256 * 1024**2
"""Of one directory. Larger ones belong into an image or into the repository."""

_GIT = ".git"


class GivenFile(NamedTuple):
    path: str
    """Where it belongs, with forward slashes."""
    source: Path
    size: int
    mode: int
    """Permissions. The owner can always read and write it."""

    @property
    def is_program(self) -> bool:
        return bool(self.mode & stat.S_IXUSR)

    def write(self, target: Path) -> None:
        """Copy it in place of whatever file or link is there. The directory must exist. Raises `OSError`."""
        with open_file(self.source) as source, replacing(target) as partial:
            with partial.open("xb") as copy:
                shutil.copyfileobj(source, copy)
            partial.chmod(self.mode)


def given_file(source: Path, path: str) -> GivenFile:
    """Describe one file that belongs to `path`. Raises `AGENT_FILES_INVALID`."""
    try:
        about = source.stat()
    except (OSError, ValueError) as error:  # ValueError: it contains a NUL character
        raise invalid(f"{shown(source)} cannot be read: {getattr(error, 'strerror', error)}") from error
    if not stat.S_ISREG(about.st_mode):
        raise invalid(f"{source} is not a file")
    if not os.access(source, os.R_OK):
        raise invalid(f"{source} cannot be read: you have no permission")
    _check_limits(source, 1, about.st_size)
    return GivenFile(path, source, about.st_size, stat.S_IMODE(about.st_mode) & 0o777 | 0o600)


def given_files(top: Path, *, git_refused: bool = False) -> list[GivenFile]:
    """List the files of a directory, in the order of their paths. Raises `AGENT_FILES_INVALID`.

    `git_refused`: anything called `.git` is an error.
    """
    if not top.is_dir():
        raise invalid(f"{top} is not a directory" if top.exists() else f"there is no directory {top}")
    found: list[GivenFile] = []
    size = 0
    try:
        for file in _walk(Path(os.path.realpath(top)), git_refused=git_refused):
            found.append(file)
            size += file.size
            _check_limits(top, len(found), size)
    except OSError as error:
        raise invalid(f"{error.filename or top} cannot be read: {error.strerror or error}") from error
    return sorted(found, key=lambda file: file.path.encode("utf-8", "surrogateescape"))


def _walk(top: Path, *, git_refused: bool) -> Iterator[GivenFile]:
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(top / below) as entries:
            for entry in entries:
                path = below + entry.name
                if entry.name.lower() == _GIT:
                    if git_refused:
                        raise invalid(f"{shown(top / path)} would change the repository itself", "remove it")
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{path}/")
                else:
                    yield given_file(_inside(top, path) if entry.is_symlink() else top / path, path)


def _inside(top: Path, path: str) -> Path:
    """The file of `top` that a link leads to."""
    target = Path(os.path.realpath(top / path))
    if target.is_relative_to(top) and target.is_file() and _GIT not in map(str.lower, target.relative_to(top).parts):
        return target
    raise invalid(
        f"{shown(top / path)} is a link that does not lead to a file in {top}", "put a copy of the file there instead"
    )


def copy_given(files: Iterable[GivenFile], directory: Path) -> None:
    """Copy files into a directory of the harness. Raises `AGENT_FILES_NOT_WRITABLE`."""
    try:
        for file in files:
            target = directory / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            file.write(target)
    except OSError as error:
        raise not_writable(directory, error) from error


def digest_of(files: Iterable[GivenFile]) -> str:
    """Hash paths, contents and whether they are programs: the same on every machine, unlike times and modes."""
    digest = hashlib.sha256()
    for file in files:
        with open_file(file.source) as source:
            content = hashlib.file_digest(source, "sha256").hexdigest()
        line = f"{file.path}\0{int(file.is_program)}\0{content}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def invalid(message: str, hint: str | None = None) -> YouBenchaError:
    return YouBenchaError("AGENT_FILES_INVALID", message, hint=hint)


def not_writable(directory: Path, error: OSError) -> YouBenchaError:
    return YouBenchaError(
        "AGENT_FILES_NOT_WRITABLE",
        f"The agent's files cannot be copied to {directory}: {error.filename or ''} {error.strerror or error}",
        hint="Check that there is room, and that no file is where a directory must be.",
    )


def _check_limits(top: Path, count: int, size: int) -> None:
    if count > MOST_FILES:
        raise invalid(
            f"{top} has more than {MOST_FILES:,} files", "give the agent fewer, or use an image that has them"
        )
    if size > MOST_BYTES:
        raise invalid(f"{top} has more than {MOST_BYTES // 1024**2} MiB", "give the agent less")
