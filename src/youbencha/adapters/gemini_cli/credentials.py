"""How Gemini CLI gets to a model, and what must be set up for a key to be used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from youbencha.adapters.cli_agent import Task

_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    # Else a `.env` of the repository would become the agent's environment.
    "advanced": {"ignoreLocalEnv": True},
}
_BASE_URL = "GOOGLE_GEMINI_BASE_URL"
CREDENTIALS = frozenset({
    "GEMINI_API_KEY", "GOOGLE_API_KEY", _BASE_URL, "GOOGLE_VERTEX_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENAI_USE_GCA", "GOOGLE_APPLICATION_CREDENTIALS", "GEMINI_CLI_USE_COMPUTE_ADC", "CLOUD_SHELL",
    # Settings decide whether a key is used at all.
    "GEMINI_CLI_HOME", "GEMINI_CLI_SYSTEM_SETTINGS_PATH", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
})  # fmt: skip
_SWITCHES = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GEMINI_CLI_USE_COMPUTE_ADC", "CLOUD_SHELL")
"""Each names a way that needs no key: what else it needs, the CLI says itself."""


def authenticated(env: Mapping[str, str]) -> bool:
    """Whether there is a key, a switch or a login; not whether it is any good."""
    return bool(_key(env)) or _switched(env) or stored_login(env)


def stored_login(env: Mapping[str, str]) -> bool:
    home = _home(env)
    return home is not None and (home / ".gemini" / "oauth_creds.json").exists()


def own_home(task: Task[Any]) -> dict[str, str]:
    """With a key, the CLI gets a home of its own, in which its settings say to use the key.

    Its settings alone decide whether it uses a key or a login. Without any it goes by the environment, and then takes
    GOOGLE_GEMINI_BASE_URL for a way that it does not know itself (0.61: exit 41). Settings of the system would do too,
    but are not read from below a directory that all may write to, such as /tmp.
    """
    env, scratch = task.env, task.scratch
    key = _key(env)
    if not key or _switched(env):
        return {}
    # Set, if only to nothing: older versions read the repository's `.env`, which could send the key elsewhere.
    with_key = {"GEMINI_API_KEY": key, _BASE_URL: env.get(_BASE_URL, "")}
    if env.get("GEMINI_CLI_HOME"):
        return with_key
    (scratch / ".gemini").mkdir()
    (scratch / ".gemini" / "settings.json").write_text(json.dumps(_SETTINGS), encoding="utf-8")
    return {**with_key, "GEMINI_CLI_HOME": task.seen(scratch)}


def _key(env: Mapping[str, str]) -> str | None:
    return env.get("GEMINI_API_KEY") or env.get("GOOGLE_API_KEY")


def _switched(env: Mapping[str, str]) -> bool:
    return any(env.get(name) == "true" for name in _SWITCHES)


def _home(env: Mapping[str, str]) -> Path | None:
    home = env.get("GEMINI_CLI_HOME") or env.get("HOME") or env.get("USERPROFILE")
    return Path(home) if home else None
