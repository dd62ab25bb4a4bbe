"""Install, find, verify and remove agent CLIs; find those on PATH."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from youbencha.errors import YouBenchaError
from youbencha.events import StepProgress
from youbencha.locks import LockFile, lock_file
from youbencha.process import find_executable
from youbencha.sandbox.toolbox.catalogue import (
    AgentRequest,
    CatalogueEntry,
    Recipe,
    installable_agents,
    lookup,
    recipes_for,
)
from youbencha.sandbox.toolbox.fetch import (
    DEPENDENCY_HINT,
    DEPENDENCY_NOT_FOUND,
    STORAGE,
    PartialInstall,
    clear_leftovers,
    no_progress,
    partial_install,
)
from youbencha.sandbox.toolbox.installed import (
    InstalledAgent,
    command_for,
    directory_size,
    file_sha256,
    installed_in,
    needs_node,
    parse_version,
    read_installed,
    read_version,
    require_node,
    version_directories,
    write_manifest,
)
from youbencha.sandbox.toolbox.sources import Release, fetcher_for
from youbencha.text import iso_time
from youbencha.user_dirs import toolbox_dir

# A virus scanner keeps a program open for a moment after its first start, and Windows then refuses to rename it.
_RENAME_AGAIN_AFTER_S = (0.1, 0.2, 0.4, 0.8)
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


class Toolbox:
    """The directories `<root>/<agent>/<version>/`. Each is complete, even if an installer was killed."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or toolbox_dir()).absolute()

    def installed(self, agent: str | None = None) -> list[InstalledAgent]:
        """All usable installations, by agent, newest first."""
        return [have for home in self._homes(agent) for have in installed_in(home)]

    def damaged(self) -> list[Path]:
        """Installations that cannot be used: the manifest or the executable is missing or invalid."""
        paths = [path for home in self._homes(None) for path in version_directories(home)]
        return [path for path in paths if read_installed(path) is None]

    def find(self, agent: str, version: str | None = None) -> InstalledAgent | None:
        """Return that version, or the newest installed one. Never installs anything."""
        wanted = parse_version(version)
        return next((have for have in self.installed(agent) if wanted in (None, have.version)), None)

    async def install(
        self, agent: str, version: str | None = None, *, source: str | None = None, progress: StepProgress = no_progress
    ) -> InstalledAgent:
        """Install that version, or the newest published one. Fast if it is already installed."""
        entry, wanted = lookup(agent), parse_version(version)
        recipes = recipes_for(entry, wanted, source)
        result = self._existing(agent, wanted)
        if result is None:
            with self._locked_home(agent) as lock:
                await lock.wait(f"installation of {agent}", progress)
                clear_leftovers(self.root / agent)
                # Another process may have installed it meanwhile.
                result = self._existing(agent, wanted) or await self._try_each(recipes, entry, wanted, progress)
        return _reported(result, source, progress)

    def remove(self, agent: str, version: str) -> None:
        """Remove a version, damaged or not. Refused while another of the same agent is being installed."""
        versions = [path for home in self._homes(agent) for path in version_directories(home)]
        target = next((path for path in versions if path.name == version), None)
        if target is None:
            names = ", ".join(path.name for path in versions)
            raise YouBenchaError(
                "AGENT_NOT_INSTALLED",
                f"{agent} {version} is not in the toolbox",
                hint=f"Installed: {names}." if versions else f"No version of {agent} is installed.",
            )
        with self._locked_home(agent) as lock:
            if not lock.take():
                raise YouBenchaError(
                    "TOOLBOX_BUSY",
                    f"Another installation of {agent} is in progress{lock.holder()}",
                    hint="Try again when it has finished.",
                )
            with partial_install(target.parent) as partial:
                target.rename(partial.work / "removed")

    def verify(self, installed: InstalledAgent) -> None:
        """Raise unless the executable is the one that was installed, byte for byte."""
        what = f"{installed.agent}@{installed.version}"
        hint = f"Install it again: `yb agents remove {what}`, then `yb agents install {what}`."
        try:
            digest = file_sha256(installed.executable)
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
        """The directories of one agent, or of all. A path is not valid as an agent's name."""
        if agent is not None:
            return [self.root / agent] if _NAME.fullmatch(agent) else []
        try:
            return sorted(path for path in self.root.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _existing(self, agent: str, wanted: str | None) -> InstallResult | None:
        have = self.find(agent, wanted) if wanted else None
        return InstallResult(have, new=False) if have else None

    @contextmanager
    def _locked_home(self, agent: str) -> Iterator[LockFile]:
        """Lock the agent's directory, which is created if necessary; raise an error if it is not writable."""
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
                f"The toolbox {self.root} cannot be written: {error}",
                hint="Free some space, or set YOUBENCHA_TOOLBOX to a writable directory.",
            ) from error

    async def _try_each(
        self, recipes: Sequence[Recipe], agent: CatalogueEntry, version: str | None, progress: StepProgress
    ) -> InstallResult:
        home = self.root / agent.name
        for recipe, other in pairwise(recipes):
            try:
                return await install_from(recipe, agent, version, home, progress)
            except YouBenchaError as error:
                if error.code == STORAGE or not fetcher_for(other).available():
                    raise
                progress(f"{recipe.kind} failed ({error.message}); trying {other.kind} instead")
        return await install_from(recipes[-1], agent, version, home, progress)


@dataclass(frozen=True, slots=True)
class InstallResult:
    installed: InstalledAgent
    new: bool
    """False if it was already installed."""


def _reported(result: InstallResult, source: str | None, progress: StepProgress) -> InstalledAgent:
    have = result.installed
    if result.new:
        progress(f"installed {have.agent} {have.version} from {have.source}")
        return have
    if source not in (None, have.source):
        raise YouBenchaError(
            "AGENT_FROM_OTHER_SOURCE",
            f"{have.agent} {have.version} is installed already, from {have.source}",
            hint=f"To install it from {source}, remove it first: `yb agents remove {have.agent}@{have.version}`.",
        )
    progress(f"{have.agent} {have.version} is already installed")
    return have


@dataclass(frozen=True, slots=True)
class _Running:
    executable: Path
    version: str


async def install_from(
    recipe: Recipe, agent: CatalogueEntry, version: str | None, home: Path, progress: StepProgress
) -> InstallResult:
    """Install into `home`, the directory of this agent. The caller must hold the lock."""
    fetcher = fetcher_for(recipe)
    with partial_install(home, progress) as partial:
        release = await fetcher.plan(version, partial)
        if have := _matching(release, home):
            return InstallResult(have, new=False)
        candidates = await fetcher.fetch(release, partial)
        progress(f"checking `{agent.command} --version`")
        try:
            running = await _first_that_runs(agent, candidates, partial)
        except YouBenchaError as error:
            if left_out := fetcher.left_out(partial):
                message = f"{release.package} needs {left_out}, which npm could not find. Without it: {error.message}"
                raise YouBenchaError(DEPENDENCY_NOT_FOUND, message, hint=DEPENDENCY_HINT) from error
            raise
        _check_version(release, running.version)
        # A wheel may contain a version that is already installed from another source.
        if have := read_installed(home / running.version):
            return InstallResult(have, new=False)
        return InstallResult(await _commit(running, recipe, agent, release, partial), new=True)


def _matching(release: Release, home: Path) -> InstalledAgent | None:
    return next(
        (have for have in installed_in(home) if release.version == have.version or release.package == have.package),
        None,
    )


async def _first_that_runs(agent: CatalogueEntry, candidates: Sequence[Path], partial: PartialInstall) -> _Running:
    """Return the first that runs, which is the most reliable test of processor features and C library."""
    home = partial.work / "home"
    home.mkdir(exist_ok=True)
    failed: YouBenchaError | None = None
    for executable in candidates:
        if needs_node(executable):
            require_node(f"this version of {agent.name}")
        try:
            return _Running(executable, await read_version(command_for(executable), home))
        except YouBenchaError as error:
            failed = failed or error
    assert failed is not None, "a fetcher returns at least one candidate"
    raise failed


def _check_version(release: Release, reported: str) -> None:
    if release.version is not None and reported != release.version:
        raise YouBenchaError(
            "AGENT_VERSION_MISMATCH",
            f"{release.package} reports version {reported}, not {release.version}",
            hint="Nothing was installed. Ask for another version or another source.",
        )


async def _commit(
    running: _Running, recipe: Recipe, agent: CatalogueEntry, release: Release, partial: PartialInstall
) -> InstalledAgent:
    made = InstalledAgent(
        agent=agent.name,
        version=running.version,
        executable=running.executable,
        sha256=await asyncio.to_thread(file_sha256, running.executable),
        source=recipe.kind,
        package=release.package,
        size_bytes=await asyncio.to_thread(directory_size, partial.tree),
        installed_at=iso_time(time.time()),
    )
    write_manifest(made, partial.tree)
    target = partial.tree.parent.parent / running.version
    if target.exists():
        # It is damaged, or it would have been found before. Removed with the rest of the work.
        await _rename(target, partial.work / "damaged")
    await _rename(partial.tree, target)
    installed = read_installed(target)
    assert installed is not None, "what was just written can be read"
    return installed


async def _rename(source: Path, target: Path) -> None:
    for pause in _RENAME_AGAIN_AFTER_S:
        try:
            source.rename(target)
            return
        except PermissionError:
            await asyncio.sleep(pause)
    source.rename(target)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOnPath:
    agent: str
    version: str | None
    """None if it does not report one."""
    executable: Path
    """The path on PATH; often a link."""
    sha256: str
    """The digest of the file that it links to, as is the size."""
    size_bytes: int


async def on_path() -> list[AgentOnPath]:
    """The agents on PATH. They run concurrently for their versions, because some need more than a second."""
    agents = await asyncio.gather(*map(_find_on_path, installable_agents()))
    return [agent for agent in agents if agent]


async def find_program(request: AgentRequest) -> Path | None:
    """Return the program that a run would use: the one on PATH if it has the version, otherwise the toolbox's."""
    program = find_executable(request.agent.command, os.environ)
    if program is not None and (request.version is None or request.version == await _version(program)):
        return program
    have = Toolbox().find(request.agent.name, request.version)
    return have.executable if have else None


async def _find_on_path(agent: CatalogueEntry) -> AgentOnPath | None:
    executable = find_executable(agent.command, os.environ)
    if executable is None:
        return None
    real = executable.resolve()
    return AgentOnPath(
        agent=agent.name,
        version=await _version(executable),
        executable=executable,
        sha256=await asyncio.to_thread(file_sha256, real),
        size_bytes=real.stat().st_size,
    )


async def _version(executable: Path) -> str | None:
    with TemporaryDirectory(ignore_cleanup_errors=True) as home:
        try:
            return await read_version((str(executable),), Path(home))
        except YouBenchaError:
            return None
