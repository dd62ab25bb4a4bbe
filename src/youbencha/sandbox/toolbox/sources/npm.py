"""A CLI from npm. Install scripts never run: the native binaries come as packages of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.process import find_executable
from youbencha.sandbox.toolbox.failures import VERSION_NOT_FOUND, explain
from youbencha.sandbox.toolbox.place import Place
from youbencha.sandbox.toolbox.recipes import Npm
from youbencha.sandbox.toolbox.sources.base import EXE, Release
from youbencha.sandbox.toolbox.versions import is_version
from youbencha.sandbox.toolbox.watched import DOWNLOAD_S, LOOK_UP_S, Progress, run_watched

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

    async def plan(self, version: str | None, place: Place, progress: Progress) -> Release:
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

    async def fetch(self, release: Release, place: Place, progress: Progress) -> Sequence[Path]:
        label = f"installing {release.described}"
        await self._npm(*_INSTALL, release.package, label=label, place=place, progress=progress, timeout_s=DOWNLOAD_S)
        modules = place.tree / "node_modules"
        candidates = [*self._natives(modules), *_entry(modules / self._recipe.package)]
        for path in candidates:
            # npm does this only for what it links to. A file that is not there is found out when it is tried.
            if path.is_file():
                path.chmod(0o755)
        return candidates

    async def _npm(self, *arguments: str, label: str, place: Place, progress: Progress, timeout_s: float) -> str:
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
