"""Calling pip: the one of the running Python, with the user's own configuration."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

from youbencha.sandbox.toolbox.failures import explain
from youbencha.sandbox.toolbox.place import Place
from youbencha.sandbox.toolbox.sources.base import Release
from youbencha.sandbox.toolbox.watched import DOWNLOAD_S, LOOK_UP_S, Progress, run_watched

# We never install into the running environment, so rules of the user's for that do not apply.
_ENVIRONMENT = {"PIP_REQUIRE_VIRTUALENV": "0", "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
_COMMON = ("--no-input", "--progress-bar=off")
_NEWEST = re.compile(r"^\S+ \(([^)\s]+)\)", re.MULTILINE)


def has_pip() -> bool:
    return importlib.util.find_spec("pip") is not None


async def run_pip(
    *arguments: str,
    package: str,
    label: str,
    place: Place,
    progress: Progress,
    python: Path | None = None,
    timeout_s: float = LOOK_UP_S,
) -> str:
    """Its standard output; an error that says what to do if it failed. `python` is the environment to work on."""
    other = ("--python", str(python)) if python else ()
    done = await run_watched(
        [sys.executable, "-m", "pip", *other, *arguments],
        label=label,
        place=place,
        progress=progress,
        env=_ENVIRONMENT,
        timeout_s=timeout_s,
    )
    if not done.succeeded:
        raise explain("pip", package, done.output)
    return done.stdout


async def newest_release(package: str, place: Place, progress: Progress) -> str:
    """Asked of the index, because a dry run of `pip install` downloads all of a wheel to see its metadata."""
    output = await run_pip(
        "index",
        "versions",
        "--only-binary=:all:",
        package,
        package=package,
        label=f"looking for the newest {package}",
        place=place,
        progress=progress,
    )
    found = _NEWEST.search(output)
    if found is None:
        raise explain("pip", package, output)
    return found.group(1)


async def download_wheel(release: Release, place: Place, progress: Progress) -> Path:
    await run_pip(
        "download",
        *_COMMON,
        "--no-deps",
        "--only-binary=:all:",
        f"--dest={place.work}",
        release.package,
        package=release.package,
        label=f"downloading {release.described}",
        place=place,
        progress=progress,
        timeout_s=DOWNLOAD_S,
    )
    return next(place.work.glob("*.whl"))


async def install_into(release: Release, python: Path, place: Place, progress: Progress) -> None:
    await run_pip(
        "install",
        *_COMMON,
        # Not only binaries: dependencies of older versions (pyperclip 1.9.0) are published as source alone.
        "--prefer-binary",
        release.package,
        package=release.package,
        label=f"installing {release.described}",
        place=place,
        progress=progress,
        python=python,
        timeout_s=DOWNLOAD_S,
    )
