"""A CLI that is a Python package: a virtual environment of its own, which can be moved."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from youbencha.sandbox.toolbox.failures import explain
from youbencha.sandbox.toolbox.place import Place
from youbencha.sandbox.toolbox.recipes import Venv
from youbencha.sandbox.toolbox.sources.base import Release
from youbencha.sandbox.toolbox.sources.pip import has_pip, install_into, newest_release, run_pip
from youbencha.sandbox.toolbox.watched import LOOK_UP_S, Progress, run_watched

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

    async def plan(self, version: str | None, place: Place, progress: Progress) -> Release:
        found = version or await newest_release(self._recipe.package, place, progress)
        extra = f"[{self._recipe.extra}]" if self._recipe.extra else ""
        return Release(f"{self._recipe.package}{extra}=={found}", found)

    async def fetch(self, release: Release, place: Place, progress: Progress) -> Sequence[Path]:
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
