"""What a build is given: one archive with everything that the Dockerfile copies."""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import youbencha
from youbencha.sandbox.toolbox import Carried

_EXECUTABLE = 0o111


class Parts(NamedTuple):
    """What goes into an image."""

    dockerfile: str
    adapter: Path
    command: str
    """What the agent's CLI is called inside."""
    home: str
    """Where it lies inside."""
    carried: Carried
    packages: Mapping[PurePosixPath, Path]
    """That youBencha needs."""


def write_context(file: IO[bytes], parts: Parts) -> None:
    """The archive; `file` is then ready to be read."""
    context = _Context(file)
    context.add_text("Dockerfile", parts.dockerfile)
    _add_agent(context, parts)
    context.add_all("python", parts.packages)
    context.add_all("python", python_files(Path(youbencha.__file__).parent, "youbencha"))
    context.add_text("adapter.sh", parts.adapter.read_text(encoding="utf-8"), executable=True)
    context.close()
    file.seek(0)


class _Context:
    """Written as it is filled. Whatever it is here, inside it is root's, and everybody may read it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w")  # noqa: SIM115 - closed by `close`

    def add_text(self, name: str, text: str, *, executable: bool = False) -> None:
        entry = tarfile.TarInfo(name)
        body = text.encode()
        entry.size, entry.mode = len(body), 0o755 if executable else 0o644
        self._tar.addfile(entry, io.BytesIO(body))

    def add(self, name: str, path: Path) -> None:
        """A file, or a directory with all that is in it."""
        self._tar.add(path, name, filter=_readable)

    def add_all(self, below: str, files: Mapping[PurePosixPath, Path]) -> None:
        for name, path in files.items():
            self._tar.add(path, str(below / name), recursive=False, filter=_readable)

    def close(self) -> None:
        self._tar.close()


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    if not entry.issym():
        entry.mode = 0o755 if entry.isdir() or entry.mode & _EXECUTABLE else 0o644
    return entry


def _add_agent(context: _Context, parts: Parts) -> None:
    """The CLI below `cli/`, which becomes its home, and below `bin/` a program of its name that starts it."""
    places = {need: f"{number}-{need.name}" for number, need in enumerate(parts.carried.needs)}
    for need, place in places.items():
        context.add(f"cli/{place}", need)
    words = [_inside(word, places, parts.home) for word in parts.carried.command]
    context.add_text(f"bin/{parts.command}", f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', executable=True)


def _inside(word: Path | str, places: Mapping[Path, str], home: str) -> str:
    if isinstance(word, str):
        return word
    need = next(need for need in places if word.is_relative_to(need))
    return str(PurePosixPath(home, places[need], *word.relative_to(need).parts))


def python_files(root: Path, below: str) -> dict[PurePosixPath, Path]:
    """A package's files, without what Python made of them for another version."""
    wanted: Iterable[Path] = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {PurePosixPath(below, *path.relative_to(root).parts): path for path in sorted(wanted)}
