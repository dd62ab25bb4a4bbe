"""The agents that the toolbox can install, and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.installed import PackageSource
from youbencha.sandbox.toolbox.versions import newest_first, wanted_version
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
    """By version of the CLI, because the package has its own version numbers."""


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
    """In the order in which they are tried."""


# With `--ignore-scripts`, all of these npm packages still have their native binary in a separate package (Claude Code
# from 2.1.113, Codex from 0.100), so that no install script needs to run.
AGENTS: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(
        "claude-code",
        "claude",
        (
            Wheel(
                "claude-agent-sdk",
                binary="claude_agent_sdk/_bundled/claude",
                version_file="claude_agent_sdk/_cli_version.py",
                about_mb=160,
                known={
                    "2.0.53": WheelRelease("0.1.10", 65),
                    "2.0.62": WheelRelease("0.1.14", 65),
                    "2.1.1": WheelRelease("0.1.19", 70),
                    "2.1.19": WheelRelease("0.1.22", 70),
                    "2.1.325": WheelRelease("0.2.182", 160),
                },
            ),
            Npm("@anthropic-ai/claude-code", about_mb=170, native=("@anthropic-ai/claude-code-*/claude",)),
        ),
    ),
    CatalogueEntry(
        "codex",
        "codex",
        # Older layouts (`vendor/TRIPLE/codex/codex`) rely on the launcher to put their own `rg` on PATH: they keep it.
        (Npm("@openai/codex", about_mb=170, native=("@openai/codex-*/vendor/*/bin/codex",)),),
    ),
    CatalogueEntry(
        "copilot-cli", "copilot", (Npm("@github/copilot", about_mb=130, native=("@github/copilot-*/copilot",)),)
    ),
    CatalogueEntry("gemini-cli", "gemini", (Npm("@google/gemini-cli", about_mb=20),)),
    CatalogueEntry("opencode", "opencode", (Npm("opencode-ai", about_mb=120, native=("opencode-*-*/bin/opencode",)),)),
    CatalogueEntry("aider", "aider", (Venv("aider-chat", module="aider"),)),
)

# Not agents, but installed and pinned in the same way. They are not looked for on PATH.
GATEWAYS: tuple[CatalogueEntry, ...] = (
    CatalogueEntry("litellm", "litellm", (Venv("litellm", module="litellm.proxy.proxy_cli", extra="proxy"),)),
)

_BY_NAME = {agent.name: agent for agent in (*AGENTS, *GATEWAYS)}


def lookup(name: str) -> CatalogueEntry:
    """Return the entry with that name, or raise an error that suggests one."""
    if agent := _BY_NAME.get(name):
        return agent
    near = did_you_mean(name, _BY_NAME)
    raise YouBenchaError(
        "AGENT_UNKNOWN",
        f"unknown agent {name!r}",
        hint=(f"{near[0].upper()}{near[1:]} " if near else "") + f"Known agents: {_names(AGENTS)}. "
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
    return AgentRequest(lookup(name), wanted_version(version if at else None))


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
        f"no wheel of {recipe.package} is known to carry {agent.name} {version}",
        hint=f"Known there: {known}. Any published version comes from npm: "
        f"`yb agents install {agent.name}@{version} --from npm`.",
    )
