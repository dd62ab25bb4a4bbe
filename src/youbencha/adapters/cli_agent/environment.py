"""Build the environment of an agent: allowed variables, model credentials, gateway addresses, home."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from youbencha.adapters.base import BaseAdapter
from youbencha.gateway.access import PROVIDER_OF_PREFIX, GatewayAccess, Provider
from youbencha.process.environment import CERTIFICATES, PROXY, SYSTEM, has_password, select
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import TOOL_VARIABLES
from youbencha.spec.sandbox import Home

_PASSED_ON = SYSTEM | PROXY | CERTIFICATES | TOOL_VARIABLES | {"XDG_RUNTIME_DIR", "YOUBENCHA_TOOLBOX"}


def inherited(harness: Mapping[str, str], own: Collection[str] = ()) -> dict[str, str]:
    """Return the part of the harness's environment that this agent gets: the common variables and its own."""
    return select(harness, _PASSED_ON.union(own), locale=True)


def base_environment(sandbox: Sandbox, harness: Mapping[str, str], own: Collection[str] = ()) -> dict[str, str]:
    """Return the base of an agent's environment. In a container, it has nothing from the harness."""
    base = sandbox.environment(harness)
    return base if sandbox.is_boundary else inherited(base, own)


def gateway_secrets(access: GatewayAccess | None) -> dict[str, str]:
    """Return the secrets of a gateway that a redactor has to mask: its key, although it is valid for one trial only."""
    return {"GATEWAY_KEY": access.key} if access else {}


# Behind a gateway, credentials of all model providers are removed, for every agent: a key of another provider would let
# it bypass the gateway, too. Credentials for other purposes (a database, a deployment) stay. A loop in the user's own
# shell keeps those that the gateway cannot replace: the agent's commands may need them.

_PROVIDERS = frozenset({
    "AZURE", "AZURE_AI", "AZURE_OPENAI", "CLAUDE", "CODEX", "GEMINI", "GOOGLE", "GOOGLE_CLOUD", "GOOGLE_GEMINI",
    "GOOGLE_GENERATIVE_AI", "GOOGLE_VERTEX", "LITELLM", "LITELLM_PROXY", "OPENAI", "OPENCODE", "VERTEX", "VERTEXAI",
})  # fmt: skip

_PROVIDERS_WITHOUT_GATEWAY = frozenset({
    "AI21", "CEREBRAS", "COHERE", "DASHSCOPE", "DATABRICKS", "DEEPINFRA", "DEEPSEEK", "FIREWORKS", "FIREWORKS_AI",
    "GROQ", "HUGGINGFACE", "MISTRAL", "MOONSHOT", "NVIDIA_NIM", "OLLAMA", "OPENROUTER", "PERPLEXITY", "REPLICATE",
    "TOGETHER", "TOGETHERAI", "TOGETHER_AI", "XAI", "ZAI",
})  # fmt: skip
"""Providers whose keys the built-in gateway never holds."""

_CREDENTIAL_SUFFIXES = (
    "ACCESS_TOKEN", "API_BASE", "API_BASE_URL", "API_HOST", "API_KEY", "API_TOKEN", "API_URL", "AUTH_TOKEN",
    "BASE_URL", "BEARER_TOKEN", "CUSTOM_HEADERS", "ENDPOINT", "OAUTH_TOKEN",
)  # fmt: skip

_OTHER = "|".join((
    # All but those that choose a model: there are many, and each version adds more (2.1.325).
    "ANTHROPIC_(?!MODEL|DEFAULT_|SMALL_FAST_MODEL|CUSTOM_MODEL|BETAS|LOG).+",
    "CLAUDE_CODE_USE_(?:BEDROCK|VERTEX|FOUNDRY|MANTLE|GATEWAY|ANTHROPIC_.+)", "CLAUDE_CODE_SKIP_.+_AUTH",
    "CLAUDE_CODE_.*(?:TOKEN|FILE_DESCRIPTOR|API_BASE_URL|OAUTH_URL)", "CLAUDE_CODE_CLIENT_(?:CERT|KEY).*",
    "OPENAI_(?:ORG_ID|ORGANIZATION|PROJECT|PROJECT_ID)",
    "AWS_BEARER_TOKEN_BEDROCK", "AZURE_(?:AD_TOKEN|RESOURCE_NAME)", "GOOGLE_GENAI_USE_.+",
    "GEMINI_CLI_USE_COMPUTE_ADC", "GEMINI_CLI_CUSTOM_HEADERS",
    "COPILOT_PROVIDER_(?:BASE_URL|API_KEY.*|BEARER_TOKEN|HEADERS)",
))  # fmt: skip


_CLOUD_CREDENTIALS = "|".join((
    "AWS_(?:ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|SECURITY_TOKEN|PROFILE|ROLE_ARN)",
    "AWS_(?:WEB_IDENTITY_TOKEN_FILE|SHARED_CREDENTIALS_FILE|CONFIG_FILE|CONTAINER_.+)",
    "AZURE_(?:CLIENT_SECRET|CLIENT_CERTIFICATE_PATH)", "GOOGLE_APPLICATION_CREDENTIALS",
))  # fmt: skip
"""For models of a cloud, and for all else that it offers."""


def gateway_environment(
    env: Mapping[str, str],
    access: GatewayAccess,
    variables: Mapping[str, str],
    *,
    given: Mapping[str, str],
    own: Collection[str] = (),
    keep_others: bool = False,
) -> dict[str, str]:
    """Return `env` with `variables` in place of every credential and every address of a model.

    `given` is the part of `env` that comes from the test case; `own` are names, in capitals, that are credentials only
    for this agent; `keep_others` keeps those that the gateway never holds. The harness's proxies, which are for the
    agent's commands, are kept unless they contain a password.
    """
    kept = {
        name: value
        for name, value in env.items()
        if not is_model_credential(name, own, keep_others=keep_others)
        and (name in given or not has_password(name, value))
    }
    return {**kept, **variables, **_without_proxy(access, env)}


def is_model_credential(name: str, own: Collection[str] = (), *, keep_others: bool = False) -> bool:
    upper = name.upper()
    if re.fullmatch(_CLOUD_CREDENTIALS, upper):
        return not keep_others
    if upper in own or re.fullmatch(_OTHER, upper):
        return True
    providers = _PROVIDERS if keep_others else _PROVIDERS | _PROVIDERS_WITHOUT_GATEWAY
    return any(
        upper.removesuffix(f"_{suffix}") in providers for suffix in _CREDENTIAL_SUFFIXES if upper.endswith(f"_{suffix}")
    )


def _without_proxy(access: GatewayAccess, env: Mapping[str, str]) -> dict[str, str]:
    """Exclude the gateway from proxies, which cannot reach it."""
    others = (env.get("NO_PROXY") or env.get("no_proxy") or "").split(",")
    hosts = ",".join(dict.fromkeys([urlsplit(access.url).hostname or "", *(host.strip() for host in others if host)]))
    return {"NO_PROXY": hosts, "no_proxy": hosts}


_MODEL_PREFIXES: Mapping[str, Provider] = {
    "claude": "anthropic",
    "gpt-": "openai",
    "chatgpt-": "openai",
    "codex-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "gemini-": "gemini",
}


def provider_of_model(model: str | None) -> Provider | None:
    """Return the provider whose API serves a model; None if the name does not show it."""
    before, slash, name = (model or "").partition("/")
    if slash:
        return PROVIDER_OF_PREFIX.get(before) if "/" not in name else None
    return next((provider for start, provider in _MODEL_PREFIXES.items() if before.startswith(start)), None)


_AWS_VARS = ("AWS_ACCESS_KEY_ID", "AWS_BEARER_TOKEN_BEDROCK", "CLAUDE_CODE_SKIP_BEDROCK_AUTH")
_GOOGLE_VARS = ("GOOGLE_APPLICATION_CREDENTIALS", "CLAUDE_CODE_SKIP_VERTEX_AUTH", "GOOGLE_API_KEY")

_CLOUD_LOGIN_VARS = {
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": _AWS_VARS,
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": _GOOGLE_VARS,
    "CLAUDE_CODE_USE_BEDROCK": _AWS_VARS,
    "CLAUDE_CODE_USE_FOUNDRY": ("ANTHROPIC_FOUNDRY_API_KEY", "CLAUDE_CODE_SKIP_FOUNDRY_AUTH"),
    "CLAUDE_CODE_USE_MANTLE": _AWS_VARS,
    "CLAUDE_CODE_USE_VERTEX": _GOOGLE_VARS,
    "GEMINI_CLI_USE_COMPUTE_ADC": _GOOGLE_VARS,
    "GOOGLE_GENAI_USE_GCA": (),
    "GOOGLE_GENAI_USE_VERTEXAI": _GOOGLE_VARS,
}
"""Variables that make an agent use a cloud, each with variables that make the cloud's login in the home unnecessary."""

_FILE_CREDENTIALS = frozenset({"ANTHROPIC_PROFILE", "AWS_PROFILE", "VERTEXAI_PROJECT"})
"""Variables that name credentials stored in the home."""

_NOT_CREDENTIALS = (
    "_URL", "_API_BASE", "_HOST", "_HOME", "_PATH", "_SETTINGS_FILE", "_CONFIG", "_CONFIG_CONTENT", "_TYPE",
)  # fmt: skip
"""Suffixes of variables with the address of a model or of settings."""


def fresh_home_for(
    adapter: BaseAdapter,
    spec_home: Home,
    *,
    harness_env: Mapping[str, str],
    agent_env: Mapping[str, str],
    behind_gateway: bool,
) -> bool:
    """Return whether an agent that runs on this computer gets a fresh home, or the user's.

    `auto`: a fresh one, unless the agent may need a login that is stored in the user's."""
    if spec_home != "auto":
        return spec_home == "fresh"
    env = {**harness_env, **agent_env}
    stored_login = adapter.stored_login(env)
    if behind_gateway or stored_login is None:
        return True
    named = {name.upper() for name in adapter.credentials_in(env)}
    if any(not any(map(env.get, enough)) for name, enough in _CLOUD_LOGIN_VARS.items() if name in named):
        return False
    if any(name not in _FILE_CREDENTIALS and not name.endswith(_NOT_CREDENTIALS) for name in named):
        return True
    return not (named & _FILE_CREDENTIALS or stored_login)
