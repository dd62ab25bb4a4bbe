"""An agent behind a gateway: what is taken from its environment, and what stands there instead.

The names are those of models' providers, whichever agent it is: a key of another provider is a way around the gateway
too. What a person gives their agent for other purposes (a database, a deployment) is theirs, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from youbencha.gateway.access import GatewayAccess

_PROVIDERS = frozenset({
    "AI21", "AZURE", "AZURE_AI", "AZURE_OPENAI", "CEREBRAS", "CLAUDE", "CODEX", "COHERE", "DASHSCOPE", "DATABRICKS",
    "DEEPINFRA", "DEEPSEEK", "FIREWORKS", "FIREWORKS_AI", "GEMINI", "GOOGLE", "GOOGLE_CLOUD", "GOOGLE_GEMINI",
    "GOOGLE_GENERATIVE_AI", "GOOGLE_VERTEX", "GROQ", "HUGGINGFACE", "LITELLM", "LITELLM_PROXY", "MISTRAL", "MOONSHOT",
    "NVIDIA_NIM", "OLLAMA", "OPENAI", "OPENCODE", "OPENROUTER", "PERPLEXITY", "REPLICATE", "TOGETHER", "TOGETHERAI",
    "TOGETHER_AI", "VERTEX", "VERTEXAI", "XAI", "ZAI",
})  # fmt: skip
_WHAT = (
    "ACCESS_TOKEN", "API_BASE", "API_BASE_URL", "API_HOST", "API_KEY", "API_TOKEN", "API_URL", "AUTH_TOKEN",
    "BASE_URL", "BEARER_TOKEN", "CUSTOM_HEADERS", "ENDPOINT", "OAUTH_TOKEN",
)  # fmt: skip
_OTHERS = (
    # All but what chooses a model: there are many, and each version has more (2.1.325).
    "ANTHROPIC_(?!MODEL|DEFAULT_|SMALL_FAST_MODEL|CUSTOM_MODEL|BETAS|LOG).+",
    "CLAUDE_CODE_USE_(?:BEDROCK|VERTEX|FOUNDRY|MANTLE|GATEWAY|ANTHROPIC_.+)", "CLAUDE_CODE_SKIP_.+_AUTH",
    "CLAUDE_CODE_.*(?:TOKEN|FILE_DESCRIPTOR|API_BASE_URL|OAUTH_URL)", "CLAUDE_CODE_CLIENT_(?:CERT|KEY).*",
    "OPENAI_(?:ORG_ID|ORGANIZATION|PROJECT|PROJECT_ID)",
    "AWS_(?:ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|SECURITY_TOKEN|PROFILE|BEARER_TOKEN_BEDROCK|ROLE_ARN)",
    "AWS_(?:WEB_IDENTITY_TOKEN_FILE|SHARED_CREDENTIALS_FILE|CONFIG_FILE|CONTAINER_.+)",
    "AZURE_(?:CLIENT_SECRET|CLIENT_CERTIFICATE_PATH|AD_TOKEN|RESOURCE_NAME)",
    "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_GENAI_USE_.+", "GEMINI_CLI_USE_COMPUTE_ADC", "GEMINI_CLI_CUSTOM_HEADERS",
    "COPILOT_PROVIDER_(?:BASE_URL|API_KEY.*|BEARER_TOKEN|HEADERS)",
)  # fmt: skip
_OTHER = re.compile("|".join(_OTHERS))
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})


def behind_gateway(
    env: Mapping[str, str],
    access: GatewayAccess,
    pointing: Mapping[str, str],
    *,
    given: Mapping[str, str],
    own: Collection[str] = (),
) -> dict[str, str]:
    """`env` with `pointing` in the place of every credential and every address of a model.

    `given` is the part of `env` that the test case gives; `own` are names, in capitals, that for this agent alone are
    credentials. The harness's proxies go too: all that the agent needs is beside it, and they may hold a password.
    """
    kept = {
        name: value
        for name, value in env.items()
        if not is_of_a_model(name, own) and (name in given or name.upper() not in _PROXIES)
    }
    return {**kept, **pointing, **_without_proxy(access, given)}


def is_of_a_model(name: str, own: Collection[str] = ()) -> bool:
    upper = name.upper()
    return upper in own or _is_of_a_provider(upper) or _OTHER.fullmatch(upper) is not None


def _is_of_a_provider(name: str) -> bool:
    return any(name.removesuffix(f"_{what}") in _PROVIDERS for what in _WHAT if name.endswith(f"_{what}"))


def _without_proxy(access: GatewayAccess, given: Mapping[str, str]) -> dict[str, str]:
    """A proxy of the test case's own is for the agent's commands, and would not find the gateway."""
    others = (given.get("NO_PROXY") or given.get("no_proxy") or "").split(",")
    hosts = ",".join(dict.fromkeys([urlsplit(access.url).hostname or "", *(each.strip() for each in others if each)]))
    return {"NO_PROXY": hosts, "no_proxy": hosts}
