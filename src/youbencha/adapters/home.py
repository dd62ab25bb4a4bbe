"""Whether an agent that runs on this computer gets a home of its own, or the person's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from youbencha.adapters.base import AgentAdapter, StoresLogin, UsesGateway

if TYPE_CHECKING:
    from youbencha.spec.sandbox import Home

_OF_AWS = ("AWS_ACCESS_KEY_ID", "AWS_BEARER_TOKEN_BEDROCK", "CLAUDE_CODE_SKIP_BEDROCK_AUTH")
_OF_GOOGLE = ("GOOGLE_APPLICATION_CREDENTIALS", "CLAUDE_CODE_SKIP_VERTEX_AUTH", "GOOGLE_API_KEY")
_BY_A_CLOUD = {
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": _OF_AWS,
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": _OF_GOOGLE,
    "CLAUDE_CODE_USE_BEDROCK": _OF_AWS,
    "CLAUDE_CODE_USE_FOUNDRY": ("ANTHROPIC_FOUNDRY_API_KEY", "CLAUDE_CODE_SKIP_FOUNDRY_AUTH"),
    "CLAUDE_CODE_USE_MANTLE": _OF_AWS,
    "CLAUDE_CODE_USE_VERTEX": _OF_GOOGLE,
    "GEMINI_CLI_USE_COMPUTE_ADC": _OF_GOOGLE,
    "GOOGLE_GENAI_USE_GCA": (),
    "GOOGLE_GENAI_USE_VERTEXAI": _OF_GOOGLE,
}
"""What sends an agent to a cloud, whatever else it has, and what spares it the cloud's own login in the home."""
_NAMES_A_FILE = frozenset({"ANTHROPIC_PROFILE", "AWS_PROFILE", "VERTEXAI_PROJECT"})
"""Credentials that are in the home."""
_NO_PROOF = ("_URL", "_API_BASE", "_HOST", "_HOME", "_PATH", "_SETTINGS_FILE", "_CONFIG", "_CONFIG_CONTENT", "_TYPE")
"""These say where a model is, or where settings are, and not who asks."""


def fresh_home_for(
    adapter: AgentAdapter,
    spec_home: Home,
    *,
    harness_env: Mapping[str, str],
    agent_env: Mapping[str, str],
    behind_gateway: bool,
) -> bool:
    """`auto`: a fresh one, unless the agent could then not prove who it is, and perhaps can in the person's own."""
    if spec_home != "auto":
        return spec_home == "fresh"
    if behind_gateway or not isinstance(adapter, StoresLogin):
        return True
    env = {**harness_env, **agent_env}
    named = {name.upper() for name in adapter.credentials_in(env)} if isinstance(adapter, UsesGateway) else set()
    if any(not any(map(env.get, enough)) for name, enough in _BY_A_CLOUD.items() if name in named):
        return False
    if any(name not in _NAMES_A_FILE and not name.endswith(_NO_PROOF) for name in named):
        return True
    return not (named & _NAMES_A_FILE or adapter.stored_login(env))
