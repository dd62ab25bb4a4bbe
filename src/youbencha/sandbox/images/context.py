"""The build context: an archive with everything that the Dockerfile copies, including youBencha and its packages."""

from __future__ import annotations

import io
import platform
import re
import shlex
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import youbencha
from youbencha.events import StepProgress
from youbencha.sandbox.toolbox.fetch import PartialInstall
from youbencha.sandbox.toolbox.portable import PortableCli
from youbencha.sandbox.toolbox.sources import run_pip

_EXECUTABLE = 0o111
IMAGE_PACKAGES = (
    "aiohttp",
    "filelock",
    "orjson",
    "packaging",
    "platformdirs",
    "psutil",
    "pydantic",
    "rapidfuzz",
    "ruamel.yaml",
)
"""What `python3 -m youbencha.control` needs in the image."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
MIN_GLIBC_MINOR = 17
_OLD_NAMES = ("manylinux2014", "manylinux2010", "manylinux1")


class ImageParts(NamedTuple):
    """The contents of an image."""

    dockerfile: str
    adapter: Path
    command: str
    """The name of the agent's CLI in the image."""
    home: str
    """The CLI's directory in the image."""
    cli: PortableCli
    packages: Mapping[PurePosixPath, Path]
    """The packages that youBencha needs."""


def write_context(file: IO[bytes], parts: ImageParts) -> None:
    """Write the archive to `file`, and rewind it."""
    context = _Context(file)
    context.add_text("Dockerfile", parts.dockerfile)
    _add_agent(context, parts)
    context.add_all("python", parts.packages)
    context.add_all("python", python_files(Path(youbencha.__file__).parent, "youbencha"))
    context.add_text("adapter.sh", parts.adapter.read_text(encoding="utf-8"), executable=True)
    context.close()
    file.seek(0)


class _Context:
    """An archive that is written incrementally. Its files belong to root and are readable by every user."""

    def __init__(self, file: IO[bytes]) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w")  # noqa: SIM115 - closed by `close`

    def add_text(self, name: str, text: str, *, executable: bool = False) -> None:
        entry = tarfile.TarInfo(name)
        body = text.encode()
        entry.size, entry.mode = len(body), 0o755 if executable else 0o644
        self._tar.addfile(entry, io.BytesIO(body))

    def add(self, name: str, path: Path) -> None:
        """Add a file, or a directory with its contents."""
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


def _add_agent(context: _Context, parts: ImageParts) -> None:
    """Add the CLI to `cli/`, which becomes its directory, and a launcher with its name to `bin/`."""
    names = {need: f"{number}-{need.name}" for number, need in enumerate(parts.cli.needs)}
    for need, name in names.items():
        context.add(f"cli/{name}", need)
    words = [_inside(word, names, parts.home) for word in parts.cli.command]
    context.add_text(f"bin/{parts.command}", f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', executable=True)


def _inside(word: Path | str, names: Mapping[Path, str], home: str) -> str:
    if isinstance(word, str):
        return word
    need = next(need for need in names if word.is_relative_to(need))
    return str(PurePosixPath(home, names[need], *word.relative_to(need).parts))


def python_files(root: Path, below: str) -> dict[PurePosixPath, Path]:
    """A package's files, without compiled ones."""
    wanted: Iterable[Path] = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {PurePosixPath(below, *path.relative_to(root).parts): path for path in sorted(wanted)}


class ImagePython(NamedTuple):
    """The Python of an image."""

    version: tuple[int, int]
    machine: str
    """`x86_64`, `aarch64`."""
    glibc: tuple[int, int]

    @property
    def is_like_ours(self) -> bool:
        """Whether packages that are installed here run in the image."""
        ours = (sys.version_info[:2], sys.platform, platform.machine())
        return ours == (self.version, "linux", self.machine)

    @property
    def platforms(self) -> list[str]:
        """pip's names for the platforms whose wheels run in the image."""
        newest = self.glibc[1] if self.glibc[0] == 2 else MIN_GLIBC_MINOR
        new = [f"manylinux_2_{minor}_{self.machine}" for minor in range(newest, MIN_GLIBC_MINOR - 1, -1)]
        return [*new, *(f"{name}_{self.machine}" for name in _OLD_NAMES)]


async def packages_for(python: ImagePython, scratch: Path, progress: StepProgress) -> dict[PurePosixPath, Path]:
    """The packages that youBencha needs, in the versions installed here, by their names below `site-packages`."""
    needed = closure(IMAGE_PACKAGES)
    if python.is_like_ours:
        return {name: path for package in needed for name, path in _list_files(package).items()}
    return await _download(needed, python, scratch, progress)


def closure(roots: Sequence[str]) -> list[metadata.Distribution]:
    """These distributions, and the installed ones that they require."""
    distributions: dict[str, metadata.Distribution] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in distributions:
            continue
        try:
            distributions[key] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # required on other systems or by other Pythons
        waiting += [_requirement_name(line) for line in distributions[key].requires or () if "extra ==" not in line]
    return list(distributions.values())


def _requirement_name(requirement: str) -> str:
    match = _NAME.match(requirement)
    return match.group() if match else ""


def _list_files(distribution: metadata.Distribution) -> dict[PurePosixPath, Path]:
    listed = [file for file in distribution.files or () if ".." not in file.parts]
    files = {PurePosixPath(file): Path(str(file.locate())) for file in listed if "__pycache__" not in file.parts}
    return {name: path for name, path in files.items() if path.is_file()}


async def _download(
    needed: Sequence[metadata.Distribution], python: ImagePython, scratch: Path, progress: StepProgress
) -> dict[PurePosixPath, Path]:
    partial = PartialInstall(scratch / "tree", scratch / "work", progress)
    partial.tree.mkdir(parents=True)
    partial.work.mkdir()
    version = ".".join(map(str, python.version))
    await run_pip(
        partial,
        "install",
        *("--no-input", "--progress-bar=off", "--no-deps", "--only-binary=:all:", "--no-compile"),
        *("--implementation=cp", f"--python-version={version}", f"--target={partial.tree}"),
        *(f"--platform={name}" for name in python.platforms),
        *(f"{package.name}=={package.version}" for package in needed),
        package="aiohttp",
        label=f"downloading packages for Python {version}",
    )
    return python_files(partial.tree, "")
