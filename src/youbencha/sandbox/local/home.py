"""A fresh home: empty but for what git needs to commit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from youbencha.sandbox.git_identity import write_git_identity
from youbencha.sandbox.local.tools import tool_homes

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
    from youbencha.sandbox.toolbox.location import VARIABLE, default_root

    own = harness.get("HOME") or harness.get("USERPROFILE")
    tools = tool_homes(harness, Path(own)) if own else {}
    # Else it would be looked for in the fresh home.
    return {**tools, VARIABLE: str(default_root(harness))}
