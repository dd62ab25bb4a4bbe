"""Where the CLI keeps what belongs to the user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from youbencha.sandbox.base import Sandbox

_PLACES = ("CLAUDE_CONFIG_DIR", "HOME", "USERPROFILE", "XDG_STATE_HOME")


def config_dir(env: Mapping[str, str]) -> Path | None:
    """None where the environment names no home at all."""
    if given := env.get("CLAUDE_CONFIG_DIR"):
        return Path(given)
    home = env.get("HOME") or env.get("USERPROFILE")
    return Path(home) / ".claude" if home else None


def on_the_host(sandbox: Sandbox, env: Mapping[str, str]) -> dict[str, str]:
    """The agent's environment with its places as the host knows them; without those that are only in there."""
    seen = {name: sandbox.outside(env[name]) for name in _PLACES if env.get(name)}
    others = {name: value for name, value in env.items() if name not in seen}
    return {**others, **{name: str(path) for name, path in seen.items() if path is not None}}
