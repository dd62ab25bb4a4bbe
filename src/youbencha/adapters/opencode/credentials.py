"""Which variables are opencode's own, and whether it may talk to a model. Spends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_KEYS = frozenset({
    "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY", "GROQ_API_KEY", "XAI_API_KEY", "DEEPSEEK_API_KEY", "MISTRAL_API_KEY",
    "AZURE_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK", "GITHUB_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS", "OPENCODE_AUTH_CONTENT",
})  # fmt: skip
CREDENTIALS = _KEYS | {"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"}
CONFIGURED = frozenset({"OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT"})
"""A configuration of one's own may hold a key."""
OWN_VARIABLES = (CREDENTIALS - {"GITHUB_TOKEN"}) | CONFIGURED | {
    "OPENCODE_CONFIG_DIR", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_MODELS_PATH", "OPENCODE_GIT_BASH_PATH",
    "AWS_REGION", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_RESOURCE_NAME", "GOOGLE_CLOUD_PROJECT",
}  # fmt: skip


def has_credentials(env: Mapping[str, str]) -> bool:
    return any(env.get(name) for name in _KEYS) or stored_login(env)


def stored_login(env: Mapping[str, str]) -> bool:
    """A login, or a configuration of the person's own that may hold a key."""
    return any(env.get(name) for name in CONFIGURED) or _logged_in(env)


def _logged_in(env: Mapping[str, str]) -> bool:
    if given := env.get("XDG_DATA_HOME"):
        data = Path(given)
    elif home := env.get("HOME") or env.get("USERPROFILE"):
        data = Path(home) / ".local" / "share"
    else:
        return False
    try:
        return len((data / "opencode" / "auth.json").read_bytes().strip()) > len(b"{}")
    except OSError:
        return False
