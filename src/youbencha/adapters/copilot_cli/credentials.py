"""Where the Copilot CLI keeps what belongs to the user, and whether it may talk to a model. Spends nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from youbencha.adapters.cli_agent.model_names import provider_of

BASE_URL, TYPE = "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE"
CREDENTIALS = frozenset({
    "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST", "COPILOT_GH_HOST", BASE_URL,
    "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_API_KEY_COMMAND", "COPILOT_PROVIDER_BEARER_TOKEN",
    "COPILOT_PROVIDER_HEADERS", "COPILOT_PROVIDER_TRANSPORT", "COPILOT_PROVIDER_AZURE_API_VERSION",
})  # fmt: skip
_TOKENS = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", BASE_URL)
_LOGGED_IN = re.compile(rb'"(?:last_?)?logged_?in_?users?"\s*:\s*[\[{]\s*[^\]}\s]', re.IGNORECASE)
"""In `config.json`, which is there after the first start, login or none."""


def copilot_home(env: Mapping[str, str]) -> Path | None:
    """None where the environment names no home at all."""
    if given := env.get("COPILOT_HOME"):
        return Path(given)
    home = env.get("HOME") or env.get("USERPROFILE")
    return Path(home) / ".copilot" if home else None


def own_model_type(model: str | None, env: Mapping[str, str]) -> Literal["anthropic", "openai"]:
    """As which kind of provider a model of one's own is reached: as the test case says, or by the model's name.

    Azure's paths are no gateway's; what is neither Anthropic's nor OpenAI's is mostly served by OpenAI's API.
    """
    named = provider_of(model or env.get("COPILOT_MODEL"))
    given = env.get(TYPE) or ("anthropic" if named == "anthropic" else "openai")
    return "anthropic" if given == "anthropic" else "openai"


def has_login(env: Mapping[str, str]) -> bool:
    """As far as the environment and files tell: a token may lie in the system's keychain, and be out of date."""
    return any(env.get(name) for name in _TOKENS) or stored_login(env)


def stored_login(env: Mapping[str, str]) -> bool:
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
