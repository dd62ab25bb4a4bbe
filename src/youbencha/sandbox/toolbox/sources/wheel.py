"""A CLI out of a wheel: download the wheel, keep the one file."""

from __future__ import annotations

import asyncio
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.place import Place
from youbencha.sandbox.toolbox.recipes import Wheel
from youbencha.sandbox.toolbox.sources.base import EXE, Release
from youbencha.sandbox.toolbox.sources.pip import download_wheel, has_pip, newest_release
from youbencha.sandbox.toolbox.watched import Progress

_CLI_VERSION = re.compile(r"""__cli_version__\s*=\s*["']([^"']+)["']""")


class WheelFetcher:
    def __init__(self, recipe: Wheel) -> None:
        self._recipe = recipe

    def available(self) -> bool:
        return has_pip()

    async def plan(self, version: str | None, place: Place, progress: Progress) -> Release:
        recipe = self._recipe
        if version is not None:
            # A yanked release still comes with `==`; once it is deleted, pip says so and npm is next.
            carrier = recipe.known[version]
            return Release(f"{recipe.package}=={carrier.release}", version, carrier.about_mb)
        newest = await newest_release(recipe.package, place, progress)
        carries = {carrier.release: cli for cli, carrier in recipe.known.items()}
        return Release(f"{recipe.package}=={newest}", carries.get(newest), recipe.about_mb)

    async def fetch(self, release: Release, place: Place, progress: Progress) -> Sequence[Path]:
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
