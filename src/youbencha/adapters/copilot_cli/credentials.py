"""Where the Copilot CLI keeps what belongs to the user, and whether it may talk to a model. Spends nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_TOKENS = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL")
_LOGGED_IN = re.compile(rb'"(?:last_?)?logged_?in_?users?"\s*:\s*[\[{]\s*[^\]}\s]', re.IGNORECASE)
"""In `config.json`, which is there after the first start, login or none."""


def copilot_home(env: Mapping[str, str]) -> Path | None:
    """None where the environment names no home at all."""
    if given := env.get("COPILOT_HOME"):
        return Path(given)
    home = env.get("HOME") or env.get("USERPROFILE")
    return Path(home) / ".copilot" if home else None


def has_login(env: Mapping[str, str]) -> bool:
    """As far as the environment and files tell: a token may lie in the system's keychain, and be out of date."""
    if any(env.get(name) for name in _TOKENS):
        return True
    home = copilot_home(env)
    return (home is not None and _logged_in(home / "config.json")) or _logged_in_by_gh(env)


def _logged_in(config: Path) -> bool:
    try:
        return _LOGGED_IN.search(config.read_bytes()) is not None
    except OSError:
        return False


def _logged_in_by_gh(env: Mapping[str, str]) -> bool:
    """The CLI takes over a login of GitHub's own `gh`."""
    if given := env.get("GH_CONFIG_DIR"):
        return (Path(given) / "hosts.yml").is_file()
    if given := env.get("XDG_CONFIG_HOME"):
        return (Path(given) / "gh" / "hosts.yml").is_file()
    home = env.get("HOME") or env.get("USERPROFILE")
    return home is not None and (Path(home) / ".config" / "gh" / "hosts.yml").is_file()
