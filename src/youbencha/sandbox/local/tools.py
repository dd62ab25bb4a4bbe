"""Where a person's tools and their caches lie: what a fresh home would hide, though it holds no settings.

Each tool has a variable for it, so that a version manager or a package cache goes on working from elsewhere. Left out
is whatever keeps credentials in the same directory: CARGO_HOME, GRADLE_USER_HOME, Hugging Face.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

_Base = Literal["home", "cache", "data"]


class _Tool(NamedTuple):
    variable: str
    base: _Base
    directory: str
    sign: str = ""
    """What must be below it, where the directory alone says nothing."""


_TOOLS: tuple[_Tool, ...] = (
    # Versions of languages.
    _Tool("ASDF_DATA_DIR", "home", ".asdf"),
    _Tool("FNM_DIR", "data", "fnm"),
    _Tool("JENV_ROOT", "home", ".jenv"),
    _Tool("MISE_DATA_DIR", "data", "mise"),
    _Tool("NODENV_ROOT", "home", ".nodenv"),
    _Tool("NVM_DIR", "home", ".nvm"),
    _Tool("OPAMROOT", "home", ".opam"),
    _Tool("PYENV_ROOT", "home", ".pyenv"),
    _Tool("RBENV_ROOT", "home", ".rbenv"),
    _Tool("RUSTUP_HOME", "home", ".rustup"),
    _Tool("SDKMAN_DIR", "home", ".sdkman"),
    _Tool("UV_PYTHON_INSTALL_DIR", "data", "uv/python"),
    _Tool("VOLTA_HOME", "home", ".volta"),
    # Programs that were installed for one person.
    _Tool("PIPX_HOME", "data", "pipx"),
    _Tool("PYTHONUSERBASE", "home", ".local", sign="lib"),
    _Tool("UV_TOOL_DIR", "data", "uv/tools"),
    # What was downloaded or built before.
    _Tool("COREPACK_HOME", "cache", "node/corepack"),
    _Tool("DENO_DIR", "cache", "deno"),
    _Tool("GOCACHE", "cache", "go-build"),
    _Tool("GOMODCACHE", "home", "go/pkg/mod"),
    _Tool("NPM_CONFIG_CACHE", "home", ".npm"),
    _Tool("NUGET_PACKAGES", "home", ".nuget/packages"),
    _Tool("PIP_CACHE_DIR", "cache", "pip"),
    _Tool("PLAYWRIGHT_BROWSERS_PATH", "cache", "ms-playwright"),
    _Tool("PUPPETEER_CACHE_DIR", "cache", "puppeteer"),
    _Tool("UV_CACHE_DIR", "cache", "uv"),
)
TOOL_VARIABLES = frozenset(tool.variable for tool in _TOOLS)
"""Paths, all of them, and never a secret."""


def tool_homes(env: Mapping[str, str], home: Path, platform: str = sys.platform) -> dict[str, str]:
    """For each tool that is there: its variable. What the person set stands as it is."""
    known = {name.upper() for name, value in env.items() if value}
    return {
        tool.variable: str(found)
        for tool in _TOOLS
        if tool.variable not in known and (found := _where(tool, env, home, platform)) is not None
    }


def _where(tool: _Tool, env: Mapping[str, str], home: Path, platform: str) -> Path | None:
    places = (base / tool.directory for base in _bases(tool.base, env, home, platform))
    return next((place for place in places if (place / tool.sign).is_dir()), None)


def _bases(base: _Base, env: Mapping[str, str], home: Path, platform: str) -> Iterator[Path]:
    if base == "home":
        yield home
    elif base == "cache":
        yield Path(env.get("XDG_CACHE_HOME") or home / ".cache")
    else:
        yield Path(env.get("XDG_DATA_HOME") or home / ".local" / "share")
    if base != "home" and platform == "darwin":
        yield home / "Library" / ("Caches" if base == "cache" else "Application Support")
    if platform == "win32" and (local := env.get("LOCALAPPDATA")):
        yield Path(local)
