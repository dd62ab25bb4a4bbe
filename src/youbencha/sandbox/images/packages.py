"""The Python packages that `python3 -m youbencha.control` needs inside, made for the Python of the image."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from youbencha.sandbox.images.context import python_files
from youbencha.sandbox.toolbox import Progress

_ROOTS = ("aiohttp", "orjson", "psutil", "pydantic")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OLDEST_GLIBC = 17
_OLD_NAMES = ("manylinux2014", "manylinux2010", "manylinux1")


class ImagePython(NamedTuple):
    """The Python of an image."""

    version: tuple[int, int]
    machine: str
    """`x86_64`, `aarch64`."""
    glibc: tuple[int, int]

    @property
    def is_like_ours(self) -> bool:
        """So that what is installed here, runs there."""
        ours = (sys.version_info[:2], sys.platform, platform.machine())
        return ours == (self.version, "linux", self.machine)

    @property
    def platforms(self) -> list[str]:
        """What pip calls the systems whose wheels run there."""
        newest = self.glibc[1] if self.glibc[0] == 2 else _OLDEST_GLIBC
        new = [f"manylinux_2_{minor}_{self.machine}" for minor in range(newest, _OLDEST_GLIBC - 1, -1)]
        return [*new, *(f"{name}_{self.machine}" for name in _OLD_NAMES)]


async def packages_for(python: ImagePython, scratch: Path, progress: Progress) -> dict[PurePosixPath, Path]:
    """By their names below `site-packages`. The versions are those that run here."""
    needed = closure(_ROOTS)
    if python.is_like_ours:
        return {name: path for each in needed for name, path in _files_of(each).items()}
    return await _fetched(needed, python, scratch, progress)


def closure(roots: Sequence[str]) -> list[metadata.Distribution]:
    """These, and whatever is installed here because of them."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found:
            continue
        try:
            found[key] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # needed by other systems, or by other Pythons
        waiting += [_name_of(line) for line in found[key].requires or () if "extra ==" not in line]
    return list(found.values())


def _name_of(requirement: str) -> str:
    match = _NAME.match(requirement)
    return match.group() if match else ""


def _files_of(distribution: metadata.Distribution) -> dict[PurePosixPath, Path]:
    listed = [file for file in distribution.files or () if ".." not in file.parts]
    here = {PurePosixPath(file): Path(str(file.locate())) for file in listed if "__pycache__" not in file.parts}
    return {name: path for name, path in here.items() if path.is_file()}


async def _fetched(
    needed: Sequence[metadata.Distribution], python: ImagePython, scratch: Path, progress: Progress
) -> dict[PurePosixPath, Path]:
    from youbencha.sandbox.toolbox.place import Place
    from youbencha.sandbox.toolbox.sources.pip import run_pip

    place = Place(tree=scratch / "tree", work=scratch / "work")
    place.tree.mkdir(parents=True)
    place.work.mkdir()
    version = ".".join(map(str, python.version))
    await run_pip(
        "install",
        *("--no-input", "--progress-bar=off", "--no-deps", "--only-binary=:all:", "--no-compile"),
        *("--implementation=cp", f"--python-version={version}", f"--target={place.tree}"),
        *(f"--platform={name}" for name in python.platforms),
        *(f"{each.name}=={each.version}" for each in needed),
        package="aiohttp",
        label=f"fetching packages for Python {version}",
        place=place,
        progress=progress,
    )
    return python_files(place.tree, "")
