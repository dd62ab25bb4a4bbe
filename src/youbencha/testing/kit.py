"""An agent behind a gateway, as the kit sees it: what its processes hold, and what its model is asked with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from youbencha.adapters import AgentExecutionContext, AgentExecutionResult
from youbencha.gateway.api import GatewayAccess

PROBE = "KIT_PROBE"

NOWHERE = "http://127.0.0.1:9"

_SECRET = "kit-real-secret"

_KEYS = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY",
    "OPENAI_ORGANIZATION", "GEMINI_API_KEY", "GOOGLE_API_KEY", "COPILOT_PROVIDER_API_KEY", "AZURE_OPENAI_API_KEY",
    "COPILOT_PROVIDER_BEARER_TOKEN", "OPENROUTER_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "ANTHROPIC_CUSTOM_HEADERS",
)  # fmt: skip

_ADDRESSES = (
    "ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE", "OPENAI_BASE_URL", "OPENAI_API_BASE", "GOOGLE_GEMINI_BASE_URL",
    "COPILOT_PROVIDER_BASE_URL",
)  # fmt: skip

REAL_CREDENTIALS: Mapping[str, str] = {
    **dict.fromkeys(_KEYS, f"authorization: {_SECRET}"),
    **dict.fromkeys(_ADDRESSES, f"{NOWHERE}/{_SECRET}"),
    "CLAUDE_CODE_USE_BEDROCK": "1",
    "GOOGLE_GENAI_USE_VERTEXAI": "true",
}
"""What a test case may give an agent. None of it is to arrive, and none of it to have any effect."""


class GatewayRun(NamedTuple):
    """A run behind a gateway, which was stopped when the agent had spoken."""

    access: GatewayAccess
    context: AgentExecutionContext
    result: AgentExecutionResult
    environments: list[Mapping[str, str]]
    """Of every process of the agent."""
    keys: list[str] | None

    def leaks(self, known: Collection[str]) -> list[str]:
        """Names of variables that hold what only the harness may know."""
        secrets = {_SECRET, *known}
        return sorted(
            {
                name
                for env in self.environments
                for name, value in env.items()
                if any(secret in value for secret in secrets)
            }
        )


def environments_with(probe: str) -> Iterator[Mapping[str, str]]:
    """Of our descendants, those that were given this probe."""
    import psutil

    for process in psutil.Process().children(recursive=True):
        try:
            env = process.environ()
        except psutil.Error:
            continue
        if env.get(PROBE) == probe:
            yield env
