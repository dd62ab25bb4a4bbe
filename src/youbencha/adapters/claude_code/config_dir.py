"""Where the CLI keeps what belongs to the user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def config_dir(env: Mapping[str, str]) -> Path | None:
    """None where the environment names no home at all."""
    if given := env.get("CLAUDE_CONFIG_DIR"):
        return Path(given)
    home = env.get("HOME") or env.get("USERPROFILE")
    return Path(home) / ".claude" if home else None
