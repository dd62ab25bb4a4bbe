"""One installation: fetch into a directory that nobody looks at, try it, and give it its name by one rename."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.log import iso_time
from youbencha.sandbox.toolbox.catalogue import Agent
from youbencha.sandbox.toolbox.installed import (
    InstalledAgent,
    Manifest,
    bytes_under,
    installed_in,
    read_installed,
    sha256_of,
    write_manifest,
)
from youbencha.sandbox.toolbox.node import command_for, needs_node, require_node
from youbencha.sandbox.toolbox.place import Place, partial
from youbencha.sandbox.toolbox.probe import version_of
from youbencha.sandbox.toolbox.recipes import Recipe
from youbencha.sandbox.toolbox.sources import Release, fetcher_for
from youbencha.sandbox.toolbox.watched import Progress

# A virus scanner holds a program for a moment after its first start, and Windows then refuses to rename it.
_RENAME_AGAIN_AFTER_S = (0.1, 0.2, 0.4, 0.8)


@dataclass(frozen=True, slots=True)
class Outcome:
    installed: InstalledAgent
    new: bool
    """False if just this was here already."""


@dataclass(frozen=True, slots=True)
class _Running:
    executable: Path
    version: str


async def install_from(recipe: Recipe, agent: Agent, version: str | None, home: Path, progress: Progress) -> Outcome:
    """Install into `home`, the directory of this agent. Only for who holds the lock."""
    fetcher = fetcher_for(recipe)
    with partial(home) as place:
        release = await fetcher.plan(version, place, progress)
        if have := _matching(release, home):
            return Outcome(have, new=False)
        candidates = await fetcher.fetch(release, place, progress)
        progress(f"checking what `{agent.command} --version` says")
        running = await _first_that_runs(agent, candidates, place)
        _check_version(release, running.version)
        # A wheel may turn out to carry a version that is here from another source.
        if have := read_installed(home / running.version):
            return Outcome(have, new=False)
        return Outcome(await _commit(running, recipe, agent, release, place), new=True)


def _matching(release: Release, home: Path) -> InstalledAgent | None:
    here = installed_in(home)
    return next((have for have in here if release.version == have.version or release.package == have.package), None)


async def _first_that_runs(agent: Agent, candidates: Sequence[Path], place: Place) -> _Running:
    """Trying is the surest test of processor features and C library."""
    home = place.work / "home"
    home.mkdir(exist_ok=True)
    failed: YouBenchaError | None = None
    for executable in candidates:
        if needs_node(executable):
            require_node(f"this version of {agent.name}")
        try:
            return _Running(executable, await version_of(command_for(executable), home))
        except YouBenchaError as error:
            failed = failed or error
    assert failed is not None, "a fetcher returns at least one candidate"
    raise failed


def _check_version(release: Release, found: str) -> None:
    if release.version is not None and found != release.version:
        raise YouBenchaError(
            "AGENT_VERSION_MISMATCH",
            f"{release.package} says that it is version {found}, not {release.version}",
            hint="Nothing was installed. Ask for another version or another source.",
        )


async def _commit(running: _Running, recipe: Recipe, agent: Agent, release: Release, place: Place) -> InstalledAgent:
    manifest = Manifest(
        agent=agent.name,
        version=running.version,
        executable=running.executable.relative_to(place.tree).as_posix(),
        sha256=await asyncio.to_thread(sha256_of, running.executable),
        source=recipe.kind,
        package=release.package,
        size_bytes=await asyncio.to_thread(bytes_under, place.tree),
        installed_at=iso_time(time.time()),
    )
    write_manifest(manifest, place.tree)
    target = place.tree.parent.parent / running.version
    if target.exists():
        # It has no usable manifest, or we would not be here. Out of the way, and gone with the rest of the work.
        await _rename(target, place.work / "damaged")
    await _rename(place.tree, target)
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
