"""Programs on the host without isolation: with the user's home (`HostSandbox`), or a fresh one (`LocalSandbox`)."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, Unpack

from youbencha.process import Command, ProcessResult, RunOptions, run
from youbencha.sandbox.base import ForwardedPort
from youbencha.store.bundle import SandboxReport
from youbencha.user_dirs import TOOLBOX_VARIABLE, home_dir, toolbox_dir

_GITCONFIG = """\
[user]
\tname = youBencha agent
\temail = agent@youbencha.invalid
[init]
\tdefaultBranch = main
[safe]
\tdirectory = *
"""

_HOME_DIRECTORIES = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}
_WINDOWS_HOME_DIRECTORIES = {"APPDATA": "AppData/Roaming", "LOCALAPPDATA": "AppData/Local"}
_USER_SETTINGS = frozenset({
    # Settings of agents, outside the home.
    "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME", "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
    "GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR",
    "AIDER_MODEL_SETTINGS_FILE",
    # Settings of tools that agents use.
    "GH_CONFIG_DIR", "GIT_CONFIG_GLOBAL", "NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE", "DOCKER_CONFIG", "ZDOTDIR",
    # The key ring.
    "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
})  # fmt: skip
"""Variables with paths of the user's settings or credentials."""

_Base = Literal["home", "cache", "data"]


class _Tool(NamedTuple):
    """A tool of the user, and the variable for its directory."""

    variable: str
    base: _Base
    directory: str
    subdirectory: str = ""
    """A directory that must exist in it, if the tool's directory alone does not prove that it is installed."""


# Version managers and package caches, which a fresh home would hide although they contain no settings. Not included are
# directories that also contain credentials: CARGO_HOME, GRADLE_USER_HOME, Hugging Face.
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
    # Programs installed for one user.
    _Tool("PIPX_HOME", "data", "pipx"),
    _Tool("PYTHONUSERBASE", "home", ".local", subdirectory="lib"),
    _Tool("UV_TOOL_DIR", "data", "uv/tools"),
    # Caches.
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
"""Their values are paths, never secrets."""


class HostSandbox:
    """No sandbox: programs run with the user's own home."""

    kind = "local"
    is_boundary = False
    brings_agent = False
    has_fresh_home = False
    variables: Mapping[str, str] = MappingProxyType({})

    def report(self) -> SandboxReport:
        return SandboxReport(type=self.kind, fresh_home=self.has_fresh_home)

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        return dict(harness)

    def share(self, path: Path, *, writable: bool = False) -> None:
        """Do nothing: everything is shared."""

    def protect(self, path: Path) -> None:
        """Do nothing: programs have the rights of the user."""

    def inside(self, path: Path) -> str:
        return str(path)

    def outside(self, path: str) -> Path | None:
        return Path(path)

    def forward_port(self, port: int) -> ForwardedPort | None:
        return None

    async def run(self, command: Command, **options: Unpack[RunOptions]) -> ProcessResult:
        return await run(command, **options)

    async def freeze(self) -> None:
        """Do nothing: `run` leaves no process running."""


HOST = HostSandbox()


class LocalSandbox(HostSandbox):
    """A fresh home in a directory of the trial, without isolation: a program can still read the rest of the host."""

    has_fresh_home = True

    def __init__(self, home: Path) -> None:
        self.home = home

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        """The harness's environment with this home. TMPDIR is kept, because paths of sockets must be short."""
        kept = {name: value for name, value in harness.items() if name.upper() not in _USER_SETTINGS}
        return {**kept, **_tools(harness), **_home_variables(self.home)}


def open_local_sandbox(*, scratch: Path) -> LocalSandbox:
    """Create the home in `scratch`, which the caller removes after the trial."""
    home = scratch.absolute() / "home"
    for name in (*_HOME_DIRECTORIES.values(), *(_WINDOWS_HOME_DIRECTORIES.values() if os.name == "nt" else ())):
        (home / name).mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    write_git_identity(home)
    return LocalSandbox(home)


def write_git_identity(home: Path) -> None:
    """Write a git identity, without which git refuses to commit. An existing file or link (an agent's) stays."""
    with contextlib.suppress(FileExistsError), (home / ".gitconfig").open("x", encoding="utf-8", newline="\n") as file:
        file.write(_GITCONFIG)


def _home_variables(home: Path) -> dict[str, str]:
    paths = {"HOME": home, **{name: home / below for name, below in _HOME_DIRECTORIES.items()}}
    if os.name == "nt":
        paths |= {"USERPROFILE": home, **{name: home / below for name, below in _WINDOWS_HOME_DIRECTORIES.items()}}
    variables = {name: str(path) for name, path in paths.items()}
    if os.name == "nt":
        variables |= {"HOMEDRIVE": home.drive, "HOMEPATH": str(home)[len(home.drive) :]}
    return variables


def _tools(harness: Mapping[str, str]) -> dict[str, str]:
    home = home_dir(harness)
    tools = tool_homes(harness, home) if home else {}
    # Otherwise the toolbox would be searched in the fresh home.
    return {**tools, TOOLBOX_VARIABLE: str(toolbox_dir(harness))}


def tool_homes(env: Mapping[str, str], home: Path, platform: str = sys.platform) -> dict[str, str]:
    """The variables of all installed tools, except for those that the user has set."""
    set_by_user = {name.upper() for name, value in env.items() if value}
    return {
        tool.variable: str(directory)
        for tool in _TOOLS
        if tool.variable not in set_by_user and (directory := _find(tool, env, home, platform)) is not None
    }


def _find(tool: _Tool, env: Mapping[str, str], home: Path, platform: str) -> Path | None:
    paths = (base / tool.directory for base in _bases(tool.base, env, home, platform))
    return next((path for path in paths if (path / tool.subdirectory).is_dir()), None)


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
