"""The agents that the toolbox can install, and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

from youbencha.errors import YouBenchaError
from youbencha.plugins import ADAPTERS, load
from youbencha.sandbox.toolbox.installed import PackageSource, newest_first, parse_version
from youbencha.text import did_you_mean


@dataclass(frozen=True, slots=True)
class WheelRelease:
    """A release of a package that contains a known version of a CLI."""

    release: str
    about_mb: int


@dataclass(frozen=True, slots=True)
class Wheel:
    """A Python wheel that contains the CLI as one binary. Only that file is kept; the wheel is never installed."""

    kind: ClassVar[PackageSource] = "pypi"
    package: str
    binary: str
    """Its path in the wheel, without `.exe`."""
    version_file: str
    """The Python file in the wheel with the version of the CLI."""
    about_mb: int
    known: Mapping[str, WheelRelease] = field(default_factory=dict)
    """Known wheels by version of the CLI, because the package has its own version numbers."""


@dataclass(frozen=True, slots=True)
class Npm:
    """An npm package with its dependencies."""

    kind: ClassVar[PackageSource] = "npm"
    package: str
    about_mb: int
    native: tuple[str, ...] = ()
    """Globs below `node_modules` for the platform's binary, without `.exe`. If none is found, `bin` is used."""


@dataclass(frozen=True, slots=True)
class Venv:
    """A Python package in its own virtual environment."""

    kind: ClassVar[PackageSource] = "pypi"
    package: str
    module: str
    """Run as `python -m MODULE`."""
    extra: str | None = None
    """An extra of the package to install with it."""


Recipe = Wheel | Npm | Venv


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    name: str
    command: str
    """The program's name on PATH."""
    recipes: tuple[Recipe, ...]
    """The sources, in the order in which they are tried."""


# Not agents, but installed and pinned in the same way. They are not looked for on PATH.
GATEWAYS: tuple[CatalogueEntry, ...] = (
    CatalogueEntry("litellm", "litellm", (Venv("litellm", module="litellm.proxy.proxy_cli", extra="proxy"),)),
)


@cache
def installable_agents() -> tuple[CatalogueEntry, ...]:
    """Return the agents whose adapters tell how to install them."""
    adapters = ((name, load(where)) for name, where in ADAPTERS.built_in.items())
    return tuple(
        CatalogueEntry(name, adapter.program, adapter.recipes) for name, adapter in adapters if adapter.recipes
    )


def lookup(name: str) -> CatalogueEntry:
    """Return the entry with that name, or raise an error that suggests one."""
    known = {entry.name: entry for entry in (*installable_agents(), *GATEWAYS)}
    if entry := known.get(name):
        return entry
    near = did_you_mean(name, known)
    raise YouBenchaError(
        "AGENT_UNKNOWN",
        f"Unknown agent {name!r}",
        hint=(f"{near[0].upper()}{near[1:]} " if near else "") + f"Known agents: {_names(installable_agents())}. "
        f"Gateways: {_names(GATEWAYS)}.",
    )


def _names(agents: tuple[CatalogueEntry, ...]) -> str:
    return ", ".join(agent.name for agent in agents)


@dataclass(frozen=True, slots=True)
class AgentRequest:
    agent: CatalogueEntry
    version: str | None
    """None for the newest."""


def parse_request(text: str) -> AgentRequest:
    """Parse `claude-code`, `claude-code@latest` or `claude-code@2.0.62`."""
    name, at, version = text.partition("@")
    return AgentRequest(lookup(name), parse_version(version if at else None))


def recipes_for(agent: CatalogueEntry, version: str | None, source: str | None) -> tuple[Recipe, ...]:
    """Return the recipes to try, in order: those of the requested source, or all that may have this version."""
    recipes = tuple(recipe for recipe in agent.recipes if source in (None, recipe.kind))
    if not recipes:
        sources = " or ".join(dict.fromkeys(recipe.kind for recipe in agent.recipes))
        raise YouBenchaError(
            "AGENT_SOURCE_INVALID",
            f"{agent.name} cannot be installed from {source!r}",
            hint=f"It comes from {sources}.",
        )
    usable = tuple(recipe for recipe in recipes if _may_have(recipe, version))
    if not usable:
        raise _not_in_any_wheel(agent, version, recipes[0])
    return usable


def _may_have(recipe: Recipe, version: str | None) -> bool:
    return not isinstance(recipe, Wheel) or version is None or version in recipe.known


def _not_in_any_wheel(agent: CatalogueEntry, version: str | None, recipe: Recipe) -> YouBenchaError:
    known = ", ".join(newest_first(recipe.known)) if isinstance(recipe, Wheel) else ""
    return YouBenchaError(
        "AGENT_VERSION_NOT_FOUND",
        f"No known wheel of {recipe.package} contains {agent.name} {version}",
        hint=f"Known versions: {known}. npm has every published version: "
        f"`yb agents install {agent.name}@{version} --from npm`.",
    )
