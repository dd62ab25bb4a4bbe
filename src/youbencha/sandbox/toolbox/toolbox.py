"""Install, find, check and remove agent CLIs."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.catalogue import Agent, lookup, recipes_for
from youbencha.sandbox.toolbox.failures import STORAGE
from youbencha.sandbox.toolbox.installation import Outcome, install_from
from youbencha.sandbox.toolbox.installed import (
    InstalledAgent,
    installed_in,
    read_installed,
    sha256_of,
    version_directories,
)
from youbencha.sandbox.toolbox.location import default_root
from youbencha.sandbox.toolbox.lock import LockFile, lock_file
from youbencha.sandbox.toolbox.place import clear_leftovers, partial
from youbencha.sandbox.toolbox.recipes import Recipe
from youbencha.sandbox.toolbox.sources import fetcher_for
from youbencha.sandbox.toolbox.versions import wanted_version
from youbencha.sandbox.toolbox.watched import Progress

_STORAGE_ERRORS = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EEXIST,
    errno.EFBIG,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*", re.ASCII)


def _silent(_: str) -> None:
    pass


class Toolbox:
    """`<root>/<agent>/<version>/`: what has a version for a name is whole, even if an installer was killed."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or default_root()).absolute()

    def installed(self, agent: str | None = None) -> list[InstalledAgent]:
        """All that can be used: by agent, and the newest first."""
        return [have for home in self._homes(agent) for have in installed_in(home)]

    def damaged(self) -> list[Path]:
        """Installations that cannot be used: the manifest or the executable is missing or makes no sense."""
        paths = [path for home in self._homes(None) for path in version_directories(home)]
        return [path for path in paths if read_installed(path) is None]

    def find(self, agent: str, version: str | None = None) -> InstalledAgent | None:
        """That version, or the newest that is here. Never installs anything."""
        wanted = wanted_version(version)
        return next((have for have in self.installed(agent) if wanted in (None, have.version)), None)

    async def install(
        self,
        agent: str,
        version: str | None = None,
        *,
        source: str | None = None,
        progress: Progress = _silent,
    ) -> InstalledAgent:
        """That version, or the newest that is published. Quick if it is here already."""
        entry, wanted = lookup(agent), wanted_version(version)
        recipes = recipes_for(entry, wanted, source)
        outcome = self._here(agent, wanted)
        if outcome is None:
            with self._home(agent) as lock:
                await lock.wait(f"installation of {agent}", progress)
                clear_leftovers(self.root / agent)
                # Another may have installed it while we waited.
                outcome = self._here(agent, wanted) or await self._try_each(recipes, entry, wanted, progress)
        return _told(outcome, source, progress)

    def remove(self, agent: str, version: str) -> None:
        """Also what is damaged. Refused while an installation of the same agent is under way."""
        here = [path for home in self._homes(agent) for path in version_directories(home)]
        target = next((path for path in here if path.name == version), None)
        if target is None:
            names = ", ".join(path.name for path in here)
            raise YouBenchaError(
                "AGENT_NOT_INSTALLED",
                f"{agent} {version} is not in the toolbox",
                hint=f"Of {agent}, these are: {names}." if here else f"No version of {agent} is.",
            )
        with self._home(agent) as lock:
            if not lock.take():
                raise YouBenchaError(
                    "TOOLBOX_BUSY",
                    f"another installation of {agent} is under way{lock.holder()}",
                    hint="Try again when it is done.",
                )
            with partial(target.parent) as place:
                target.rename(place.work / "removed")

    def verify(self, installed: InstalledAgent) -> None:
        """Raise unless the executable is byte for byte the one that was installed."""
        what = f"{installed.agent}@{installed.version}"
        hint = f"Install it again: `yb agents remove {what}`, then `yb agents install {what}`."
        try:
            digest = sha256_of(installed.executable)
        except OSError as error:
            raise YouBenchaError("AGENT_MISSING", f"{what} cannot be read: {error}", hint=hint) from error
        if digest != installed.sha256:
            raise YouBenchaError(
                "AGENT_CHANGED",
                f"{what} has changed since it was installed: {installed.executable}",
                hint=hint,
                context={"expected": installed.sha256, "found": digest},
            )

    def _homes(self, agent: str | None) -> list[Path]:
        """The directories of one agent or of all. A name that is a path is no agent's."""
        if agent is not None:
            return [self.root / agent] if _NAME.fullmatch(agent) else []
        try:
            return sorted(path for path in self.root.iterdir() if path.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _here(self, agent: str, wanted: str | None) -> Outcome | None:
        have = self.find(agent, wanted) if wanted else None
        return Outcome(have, new=False) if have else None

    @contextmanager
    def _home(self, agent: str) -> Iterator[LockFile]:
        """The directory of the agent: it exists and can be written, or there is an error that says so."""
        home = self.root / agent
        try:
            home.mkdir(parents=True, exist_ok=True)
            with lock_file(home / ".lock") as lock:
                yield lock
        except OSError as error:
            if error.errno not in _STORAGE_ERRORS:
                raise
            raise YouBenchaError(
                STORAGE,
                f"the toolbox {self.root} cannot be written: {error}",
                hint="Make room there, or set YOUBENCHA_TOOLBOX to a directory that you may write to.",
            ) from error

    async def _try_each(
        self, recipes: Sequence[Recipe], agent: Agent, version: str | None, progress: Progress
    ) -> Outcome:
        home = self.root / agent.name
        for recipe, other in pairwise(recipes):
            try:
                return await install_from(recipe, agent, version, home, progress)
            except YouBenchaError as error:
                if error.code == STORAGE or not fetcher_for(other).available():
                    raise
                progress(f"{recipe.kind} failed ({error.message}); trying {other.kind} instead")
        return await install_from(recipes[-1], agent, version, home, progress)


def _told(outcome: Outcome, source: str | None, progress: Progress) -> InstalledAgent:
    have = outcome.installed
    if outcome.new:
        progress(f"installed {have.agent} {have.version} from {have.source}")
        return have
    if source not in (None, have.source):
        raise YouBenchaError(
            "AGENT_FROM_OTHER_SOURCE",
            f"{have.agent} {have.version} is installed already, from {have.source}",
            hint=f"To have it from {source}, remove it first: `yb agents remove {have.agent}@{have.version}`.",
        )
    progress(f"{have.agent} {have.version} is already installed")
    return have
