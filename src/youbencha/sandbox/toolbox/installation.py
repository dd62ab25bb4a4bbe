"""One installation: fetch into a directory that nobody looks at, try it, and give it its name by one rename."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.catalogue import Agent
from youbencha.sandbox.toolbox.installed import (
    InstalledAgent,
    Manifest,
    bytes_under,
    command_for,
    installed_in,
    needs_node,
    read_installed,
    sha256_of,
    write_manifest,
)
from youbencha.sandbox.toolbox.probe import ask_version, require_node
from youbencha.sandbox.toolbox.recipes import Recipe
from youbencha.sandbox.toolbox.sources import Place, Release, fetcher_for
from youbencha.sandbox.toolbox.watched import Progress

_PARTIAL = ".partial-"


@dataclass(frozen=True, slots=True)
class Outcome:
    installed: InstalledAgent
    new: bool
    """False if just this was here already."""


@dataclass(frozen=True, slots=True)
class _Running:
    executable: Path
    version: str


@contextmanager
def partial(home: Path) -> Iterator[Place]:
    """A place beside the versions of an agent, removed at the end whatever happens."""
    directory = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=home))
    try:
        place = Place(tree=directory / "tree", work=directory / "work")
        place.tree.mkdir()
        place.work.mkdir()
        yield place
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def clear_leftovers(home: Path) -> None:
    """Of installers that were killed. Only for who holds the lock."""
    for path in home.glob(f"{_PARTIAL}*"):
        shutil.rmtree(path, ignore_errors=True)


def install_from(recipe: Recipe, agent: Agent, version: str | None, home: Path, progress: Progress) -> Outcome:
    """Install into `home`, the directory of this agent. Only for who holds the lock."""
    fetcher = fetcher_for(recipe)
    with partial(home) as place:
        release = fetcher.plan(version, place, progress)
        if have := _matching(release, home):
            return Outcome(have, new=False)
        candidates = fetcher.fetch(release, place, progress)
        progress(f"checking what `{agent.command} --version` says")
        running = _first_that_runs(agent, candidates, place)
        _check_version(release, running.version)
        # A wheel may turn out to carry a version that is here from another source.
        if have := read_installed(home / running.version):
            return Outcome(have, new=False)
        return Outcome(_commit(running, recipe, agent, release, place), new=True)


def _matching(release: Release, home: Path) -> InstalledAgent | None:
    here = installed_in(home)
    return next((have for have in here if release.version == have.version or release.package == have.package), None)


def _first_that_runs(agent: Agent, candidates: Sequence[Path], place: Place) -> _Running:
    """Trying is the surest test of processor features and C library."""
    home = place.work / "home"
    home.mkdir(exist_ok=True)
    failed: YouBenchaError | None = None
    for executable in candidates:
        if needs_node(executable):
            require_node(agent.name)
        try:
            return _Running(executable, ask_version(command_for(executable), home))
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


def _commit(running: _Running, recipe: Recipe, agent: Agent, release: Release, place: Place) -> InstalledAgent:
    manifest = Manifest(
        agent=agent.name,
        version=running.version,
        executable=running.executable.relative_to(place.tree).as_posix(),
        sha256=sha256_of(running.executable),
        source=recipe.kind,
        package=release.package,
        size_bytes=bytes_under(place.tree),
        installed_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    )
    write_manifest(manifest, place.tree)
    target = place.tree.parent.parent / running.version
    if target.exists():
        # It has no usable manifest, or we would not be here. Out of the way, and gone with the rest of the work.
        target.rename(place.work / "damaged")
    place.tree.rename(target)
    installed = read_installed(target)
    assert installed is not None, "what was just written can be read"
    return installed
