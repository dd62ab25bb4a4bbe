"""Move files from one machine to another, in parts that fit into a message."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import PathNotAllowed, check_relative, nofollow_directory, open_file, open_nofollow, walk
from youbencha.store.layout import RESULTS_FILE
from youbencha.workspace.run_dir import ARTIFACTS

PART_BYTES = 1024**2
MOST_BYTES = 4 * 1024**3
MOST_FILES = 200_000
_LONGEST_NAME = 4096
_ARTIFACTS = f"{ARTIFACTS}/"
_RESULTS = f"{ARTIFACTS}/{RESULTS_FILE}"


class FilePart(NamedTuple):
    """A file, or a part of it."""

    name: str
    """Relative, with slashes."""
    data: bytes
    executable: bool = False
    first: bool = True
    """False: it continues the file of that name."""


def parts_of_user(base: Path, names: Iterable[str]) -> Iterator[FilePart]:
    """Yield files of a user, and all files in directories. Names are relative to `base`; links are followed."""
    for name in names:
        if (base / name).is_file():
            yield from _parts(open_file(base / name), name)
        for directory, directories, files in os.walk(base / name, followlinks=True):
            directories[:] = sorted(each for each in directories if not _leads_back(directory, each))
            for file in sorted(files):
                path = Path(directory, file)
                if path.is_file():
                    yield from _parts(open_file(path), path.relative_to(base).as_posix())


def _leads_back(directory: str, name: str) -> bool:
    """Whether a link leads to the directory that it is in, or to one above: it would be followed again and again."""
    return Path(directory).resolve().is_relative_to(Path(directory, name).resolve())


def parts_of_agent(root: Path) -> Iterator[FilePart]:
    """Yield the regular files below a directory in which an agent could have written, the artifacts first.

    Links are left out, and so are the largest files of more than a trial may have: no agent prevents its results.
    """
    room = MOST_BYTES
    found = sorted(_files_in(root), key=lambda each: (each[0] != _RESULTS, not each[0].startswith(_ARTIFACTS), each[1]))
    for name, size in found[: MOST_FILES // 2]:
        if size <= room:
            room -= size
            with suppress(PermissionError):  # the agent took it away
                yield from _parts(open_nofollow(root, name), name)


def parts_of_results(root: Path) -> Iterator[FilePart]:
    """Yield only the parts of the results file; nothing if there is none yet."""
    if (root / _RESULTS).is_file():
        yield from _parts(open_nofollow(root, _RESULTS), _RESULTS)


def _files_in(root: Path) -> Iterator[tuple[str, int]]:
    """Names and sizes, without those in so many directories that their paths are too long."""

    def check(error: OSError) -> None:
        if error.errno != errno.ENAMETOOLONG:
            raise error

    for entry in walk(root, on_error=check):
        if entry.is_file(follow_symlinks=False):
            try:
                size = entry.stat(follow_symlinks=False).st_size
            except OSError as error:
                check(error)
            else:
                yield Path(entry.path).relative_to(root).as_posix(), size


def _parts(file: BufferedReader, name: str) -> Iterator[FilePart]:
    with file:
        executable, first = bool(os.fstat(file.fileno()).st_mode & 0o100), True
        while (data := file.read(PART_BYTES)) or first:
            yield FilePart(name, data, executable, first)
            first = False


def batches(parts: Iterable[FilePart]) -> Iterator[tuple[FilePart, ...]]:
    """Put small files together, so that each batch has about as many bytes as a part may have."""
    batch: list[FilePart] = []
    size = 0
    for part in parts:
        batch.append(part)
        size += len(part.data) + len(part.name) + 100
        if size >= PART_BYTES:
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


class PartsWriter:
    """Writes parts below a directory. They are not trusted: nothing is written elsewhere, nor without bounds."""

    def __init__(self, root: Path, *, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES) -> None:
        self._root = root
        self._bytes = most_bytes
        self._files = most_files

    def write(self, parts: Iterable[FilePart]) -> None:
        """Raises `FILES_HOSTILE` or `FILES_TOO_LARGE`, or OSError."""
        for part in parts:
            self._count(part)
            try:
                check_relative(part.name)
                if len(part.name) > _LONGEST_NAME:
                    raise PathNotAllowed(f"{part.name[:100]}… is too long")
            except PathNotAllowed as error:
                raise YouBenchaError("FILES_HOSTILE", f"A node sent a file that cannot be: {error}") from error
            self._write(part)

    def _count(self, part: FilePart) -> None:
        self._bytes -= len(part.data)
        self._files -= 1  # any part can begin a file
        if self._bytes < 0 or self._files < 0:
            raise YouBenchaError(
                "FILES_TOO_LARGE",
                f"A trial's files are more than {MOST_BYTES // 1024**3} GiB, or more than {MOST_FILES:,}.",
                hint="Turn `results.keep_workspaces` off, or make the agent's output smaller.",
            )

    def _write(self, part: FilePart) -> None:
        path = PurePosixPath(part.name)
        flags = os.O_WRONLY | (os.O_TRUNC if part.first else os.O_APPEND)
        with (
            nofollow_directory(self._root, str(path.parent)) as directory,
            os.fdopen(directory.open(path.name, flags), "wb") as file,
        ):
            file.write(part.data)
            if part.executable and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), 0o755)
