"""No sandbox at all: programs run as they would by hand, with the harness's own home."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Unpack

if TYPE_CHECKING:
    from youbencha.log import SandboxReport
    from youbencha.process import Command, ProcessResult, RunOptions
    from youbencha.sandbox.base import ForwardedPort


class Host:
    kind = "local"
    is_boundary = False
    brings_agent = False
    has_fresh_home = False

    def report(self) -> SandboxReport:
        from youbencha.log import SandboxReport

        return SandboxReport(type=self.kind, fresh_home=self.has_fresh_home)

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        return dict(harness)

    def share(self, path: Path, *, writable: bool = False) -> None:
        """Everything is."""

    def inside(self, path: Path) -> str:
        return str(path)

    def outside(self, path: str) -> Path | None:
        return Path(path)

    def forward_port(self, port: int) -> ForwardedPort | None:
        return None

    async def run(self, command: Command, **options: Unpack[RunOptions]) -> ProcessResult:
        from youbencha.process import run

        return await run(command, **options)

    async def freeze(self) -> None:
        """`run` leaves nothing behind."""


HOST = Host()


# Who an agent is to git: in a fresh home nobody has said so, and git refuses to commit.

_GITCONFIG = """\
[user]
\tname = youBencha agent
\temail = agent@youbencha.invalid
[init]
\tdefaultBranch = main
[safe]
\tdirectory = *
"""


def write_git_identity(home: Path) -> None:
    """What is there already stays, also a link: an agent may have made it."""
    with contextlib.suppress(FileExistsError), (home / ".gitconfig").open("x", encoding="utf-8", newline="\n") as file:
        file.write(_GITCONFIG)


# A fresh home: empty but for what git needs to commit.

_BELOW = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}

_BELOW_ON_WINDOWS = {"APPDATA": "AppData/Roaming", "LOCALAPPDATA": "AppData/Local"}

_LEADS_TO_THE_PERSON = frozenset({
    # Settings of agents that lie elsewhere than in the home.
    "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME", "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
    "GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR",
    "AIDER_MODEL_SETTINGS_FILE",
    # And of the tools that they use.
    "GH_CONFIG_DIR", "GIT_CONFIG_GLOBAL", "NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE", "DOCKER_CONFIG", "ZDOTDIR",
    # The key ring answers there.
    "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
})  # fmt: skip


def make_home(home: Path) -> None:
    for below in (*_BELOW.values(), *(_BELOW_ON_WINDOWS.values() if os.name == "nt" else ())):
        (home / below).mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    write_git_identity(home)


def at_home(harness: Mapping[str, str], home: Path) -> dict[str, str]:
    """The harness's environment, for somebody who lives in `home`. TMPDIR stays: paths of sockets have to be short."""
    kept = {name: value for name, value in harness.items() if name.upper() not in _LEADS_TO_THE_PERSON}
    return {**kept, **_tools_of(harness), **_places(home)}


def _places(home: Path) -> dict[str, str]:
    places = {"HOME": home, **{name: home / below for name, below in _BELOW.items()}}
    if os.name == "nt":
        places |= {"USERPROFILE": home, **{name: home / below for name, below in _BELOW_ON_WINDOWS.items()}}
    named = {name: str(path) for name, path in places.items()}
    if os.name == "nt":
        named |= {"HOMEDRIVE": home.drive, "HOMEPATH": str(home)[len(home.drive) :]}
    return named


def _tools_of(harness: Mapping[str, str]) -> dict[str, str]:
    from youbencha.user_dirs import VARIABLE, default_root

    own = harness.get("HOME") or harness.get("USERPROFILE")
    tools = tool_homes(harness, Path(own)) if own else {}
    # Else it would be looked for in the fresh home.
    return {**tools, VARIABLE: str(default_root(harness))}


# LocalSandbox: programs run here, as they would by hand, but at home in a directory of the trial's.


class LocalSandbox(Host):
    """Nothing keeps a program in here from the rest of the computer; it only does not come upon it by itself."""

    has_fresh_home = True

    def __init__(self, home: Path) -> None:
        self.home = home

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        return at_home(harness, self.home)


def open_local_sandbox(*, scratch: Path) -> LocalSandbox:
    """`scratch` is the trial's; whoever made it removes it when the trial is over."""
    home = scratch.absolute() / "home"
    make_home(home)
    return LocalSandbox(home)


# Where a person's tools and their caches lie: what a fresh home would hide, though it holds no settings.
#
# Each tool has a variable for it, so that a version manager or a package cache goes on working from elsewhere. Left
# out
# is whatever keeps credentials in the same directory: CARGO_HOME, GRADLE_USER_HOME, Hugging Face.

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
