"""What every source does: say which release it would fetch, then fetch it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from youbencha.errors import YouBenchaError
from youbencha.process import find_executable
from youbencha.progress import StepProgress
from youbencha.sandbox.toolbox.catalogue import Npm, Recipe, Venv, Wheel
from youbencha.sandbox.toolbox.fetch import (
    DOWNLOAD_S,
    LOOK_UP_S,
    VERSION_NOT_FOUND,
    PartialInstall,
    explain,
    run_watched,
)
from youbencha.sandbox.toolbox.versions import is_version

__all__ = ["Fetcher", "Release", "fetcher_for"]


EXE = ".exe" if os.name == "nt" else ""


@dataclass(frozen=True, slots=True)
class Release:
    package: str
    """As the package manager names it, with its version."""
    version: str | None
    """Of the CLI. None where only the package itself can tell."""
    about_mb: int | None = None
    """To download, where that is known."""

    @property
    def described(self) -> str:
        return f"{self.package} (about {self.about_mb} MB)" if self.about_mb else self.package


class Fetcher(Protocol):
    def available(self) -> bool:
        """Whether its package manager is there at all."""
        ...

    async def plan(self, version: str | None, place: PartialInstall, progress: StepProgress) -> Release:
        """What `fetch` would bring; None asks for the newest. Downloads no package."""
        ...

    async def fetch(self, release: Release, place: PartialInstall, progress: StepProgress) -> Sequence[Path]:
        """Fill `place.tree`. Returns the executables to try, the best first; never empty."""
        ...


# A CLI from npm. Install scripts never run: the native binaries come as packages of their own.

_INSTALL = (
    "install",
    "--no-audit",
    "--no-fund",
    "--ignore-scripts",
    # The native binaries are optional dependencies; a user's `omit=optional` would leave them out.
    "--include=optional",
    # Links into `.bin` need rights that Windows does not give everybody, and nothing here uses them.
    "--no-bin-links",
    "--no-package-lock",
)

# By default, npm goes on for more than ten minutes where nobody answers.
_IMPATIENT = ("--fetch-retries=2", "--fetch-timeout=60000")


class NpmFetcher:
    def __init__(self, recipe: Npm) -> None:
        self._recipe = recipe

    def available(self) -> bool:
        return find_executable("npm", os.environ) is not None

    async def plan(self, version: str | None, place: PartialInstall, progress: StepProgress) -> Release:
        package = self._recipe.package
        label = f"looking for {package}@{version or 'latest'}"
        output = await self._npm(
            "view",
            f"{package}@{version or 'latest'}",
            "version",
            "--json",
            label=label,
            place=place,
            progress=progress,
            timeout_s=LOOK_UP_S,
        )
        found = _version_in(output)
        if found is None:
            raise YouBenchaError(
                VERSION_NOT_FOUND,
                f"npm knows no version {version or 'latest'} of {package}",
                hint=f"`npm view {package} versions` lists those that there are.",
            )
        # What an older version weighs, nobody says beforehand.
        return Release(f"{package}@{found}", found, None if version else self._recipe.about_mb)

    async def fetch(self, release: Release, place: PartialInstall, progress: StepProgress) -> Sequence[Path]:
        label = f"installing {release.described}"
        await self._npm(*_INSTALL, release.package, label=label, place=place, progress=progress, timeout_s=DOWNLOAD_S)
        modules = place.tree / "node_modules"
        candidates = [*self._natives(modules), *_entry(modules / self._recipe.package)]
        for path in candidates:
            # npm does this only for what it links to. A file that is not there is found out when it is tried.
            if path.is_file():
                path.chmod(0o755)
        return candidates

    async def _npm(
        self, *arguments: str, label: str, place: PartialInstall, progress: StepProgress, timeout_s: float
    ) -> str:
        npm = find_executable("npm", os.environ)
        if npm is None:
            raise YouBenchaError(
                "NPM_NOT_FOUND",
                f"{self._recipe.package} comes from npm, and there is no `npm` on PATH",
                hint="Install Node.js 20 or newer: it brings `node` and `npm`.",
            )
        # A project of its own, to stand in. Not `--prefix`: npm would look for the *global* configuration below that,
        # and a company's registry or `cafile` would be lost (measured: SELF_SIGNED_CERT_IN_CHAIN).
        (place.tree / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        done = await run_watched(
            [str(npm), *arguments, *_IMPATIENT],
            label=label,
            place=place,
            progress=progress,
            cwd=place.tree,
            timeout_s=timeout_s,
        )
        if not done.succeeded:
            raise self._explained(done.output)
        return done.stdout

    def _explained(self, output: str) -> YouBenchaError:
        error = explain("npm", self._recipe.package, output)
        if error.code == VERSION_NOT_FOUND:
            error.hint = f"`npm view {self._recipe.package} versions` lists those that there are."
        return error

    def _natives(self, modules: Path) -> list[Path]:
        """npm leaves out other systems, but may bring several builds for this one: `…-x64`, `…-x64-baseline`,
        `…-x64-musl`. The shortest name is the usual one; the caller takes the first that runs."""
        found = {path for pattern in self._recipe.native for path in modules.glob(pattern + EXE)}
        return sorted(found, key=lambda path: (len(str(path)), str(path)))


def _version_in(output: str) -> str | None:
    """`npm view` prints a text for one version, a list where a range matched several, nothing where none did."""
    try:
        found = json.loads(output)
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, str) and is_version(found) else None


def _entry(package: Path) -> list[Path]:
    """The program that the package declares; for Node.js, unless the platform's package brought a native one."""
    declared = json.loads((package / "package.json").read_text(encoding="utf-8")).get("bin", {})
    names = [declared] if isinstance(declared, str) else list(declared.values())
    return [package / name for name in names[:1]]


# Calling pip: the one of the running Python, with the user's own configuration.

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
    place: PartialInstall,
    progress: StepProgress,
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


async def newest_release(package: str, place: PartialInstall, progress: StepProgress) -> str:
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


async def download_wheel(release: Release, place: PartialInstall, progress: StepProgress) -> Path:
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


async def install_into(release: Release, python: Path, place: PartialInstall, progress: StepProgress) -> None:
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


# A CLI that is a Python package: a virtual environment of its own, which can be moved.

_WINDOWS = os.name == "nt"

_PYTHON = Path("Scripts", "python.exe") if _WINDOWS else Path("bin", "python")

# The scripts that pip writes name the directory they were made in; ours finds its Python beside itself. It lists what
# is installed, so that its digest stands for all of it and not just for these two lines.
_POSIX = '#!/bin/sh\nexec "$(dirname -- "$0")/venv/{python}" -P -m {module} "$@"\n{packages}'

_CMD = '@"%~dp0venv\\{python}" -P -m {module} %*\r\n@exit /b\r\n{packages}'


class VenvFetcher:
    def __init__(self, recipe: Venv) -> None:
        self._recipe = recipe

    def available(self) -> bool:
        return has_pip()

    async def plan(self, version: str | None, place: PartialInstall, progress: StepProgress) -> Release:
        found = version or await newest_release(self._recipe.package, place, progress)
        extra = f"[{self._recipe.extra}]" if self._recipe.extra else ""
        return Release(f"{self._recipe.package}{extra}=={found}", found)

    async def fetch(self, release: Release, place: PartialInstall, progress: StepProgress) -> Sequence[Path]:
        home = place.tree / "venv"
        python = home / _PYTHON
        # Without a pip of its own (ours can work on it): faster, and some systems ship Python without `ensurepip`.
        done = await run_watched(
            [sys.executable, "-m", "venv", "--without-pip", str(home)],
            label="creating a virtual environment",
            place=place,
            progress=progress,
            timeout_s=LOOK_UP_S,
        )
        if not done.succeeded:
            raise explain("venv", release.package, done.output)
        await install_into(release, python, place, progress)
        label = f"listing what came with {release.package}"
        packages = await run_pip(
            "freeze", package=release.package, label=label, place=place, progress=progress, python=python
        )
        return [self._launcher(place.tree, packages)]

    def _launcher(self, tree: Path, packages: str) -> Path:
        mark, template = ("@rem ", _CMD) if _WINDOWS else ("# ", _POSIX)
        target = tree / (self._recipe.module.partition(".")[0] + (".cmd" if _WINDOWS else ""))
        listed = "".join(f"{mark}{line}\n" for line in packages.splitlines())
        text = template.format(python=_PYTHON, module=self._recipe.module, packages=listed)
        target.write_text(text, encoding="utf-8", newline="")
        target.chmod(0o755)
        return target


# A CLI out of a wheel: download the wheel, keep the one file.

_CLI_VERSION = re.compile(r"""__cli_version__\s*=\s*["']([^"']+)["']""")


class WheelFetcher:
    def __init__(self, recipe: Wheel) -> None:
        self._recipe = recipe

    def available(self) -> bool:
        return has_pip()

    async def plan(self, version: str | None, place: PartialInstall, progress: StepProgress) -> Release:
        recipe = self._recipe
        if version is not None:
            # A yanked release still comes with `==`; once it is deleted, pip says so and npm is next.
            carrier = recipe.known[version]
            return Release(f"{recipe.package}=={carrier.release}", version, carrier.about_mb)
        newest = await newest_release(recipe.package, place, progress)
        carries = {carrier.release: cli for cli, carrier in recipe.known.items()}
        return Release(f"{recipe.package}=={newest}", carries.get(newest), recipe.about_mb)

    async def fetch(self, release: Release, place: PartialInstall, progress: StepProgress) -> Sequence[Path]:
        wheel = await download_wheel(release, place, progress)
        progress(f"unpacking {PurePosixPath(self._recipe.binary).name}")
        with zipfile.ZipFile(wheel) as archive:
            self._check_version(archive, release)
            return [await self._extract(archive, release, place.tree)]

    def _check_version(self, archive: zipfile.ZipFile, release: Release) -> None:
        """Before 350 MB are unpacked: the table may be wrong about what a wheel carries."""
        found = _CLI_VERSION.search(self._read(archive, self._recipe.version_file, release).decode())
        if release.version is not None and found is not None and found.group(1) != release.version:
            raise YouBenchaError(
                "AGENT_VERSION_MISMATCH",
                f"{release.package} carries version {found.group(1)}, not {release.version}",
                hint="Install that version with `--from npm`.",
            )

    def _read(self, archive: zipfile.ZipFile, member: str, release: Release) -> bytes:
        try:
            return archive.read(member)
        except KeyError:
            raise _without_cli(release) from None

    async def _extract(self, archive: zipfile.ZipFile, release: Release, tree: Path) -> Path:
        member = self._recipe.binary + EXE
        target = tree / PurePosixPath(member).name
        if member not in archive.namelist():
            raise _without_cli(release)
        with archive.open(member) as packed, target.open("wb") as file:
            while piece := packed.read(1 << 20):
                file.write(piece)
                await asyncio.sleep(0)  # in the loop and not in a thread, which Ctrl-C could not stop
        target.chmod(0o755)
        return target


def _without_cli(release: Release) -> YouBenchaError:
    return YouBenchaError(
        "AGENT_VERSION_NOT_FOUND",
        f"the wheel of {release.package} for this computer carries no CLI",
        hint="Use `--from npm`.",
    )


# How to fetch an agent by each kind of recipe.


def fetcher_for(recipe: Recipe) -> Fetcher:
    match recipe:
        case Wheel():
            return WheelFetcher(recipe)
        case Npm():
            return NpmFetcher(recipe)
        case Venv():
            return VenvFetcher(recipe)
