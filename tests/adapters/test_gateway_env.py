"""Which variables are removed from an agent's environment behind a gateway, and which replace them."""

from __future__ import annotations

import pytest

from youbencha.adapters import get_adapter
from youbencha.adapters.cli_agent.environment import gateway_environment, is_model_credential, provider_of_model
from youbencha.gateway.access import GatewayAccess

ACCESS = GatewayAccess("http://127.0.0.1:4100", "yb-virtual-0123456789")
AGENTS = ["claude-code", "codex", "command", "copilot-cli", "gemini-cli", "opencode"]


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE",
        "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_UNIX_SOCKET", "ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_PROFILE",
        "ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_SOMETHING_OF_NEXT_YEAR", "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_REFRESH_TOKEN", "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR", "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_SKIP_VERTEX_AUTH", "OPENAI_API_KEY", "OPENAI_BASE_URL",
        "OPENAI_API_BASE", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN",
        "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL",
        "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_ACCESS_TOKEN",
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AZURE_API_KEY", "AZURE_OPENAI_ENDPOINT", "AZURE_CLIENT_SECRET",
        "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_API_KEY_COMMAND", "COPILOT_PROVIDER_HEADERS",
        "OPENROUTER_API_KEY", "GROQ_API_KEY", "LITELLM_PROXY_API_KEY", "openai_api_key",
    ],
)  # fmt: skip
def test_model_credentials(name: str) -> None:
    assert is_model_credential(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "HOME", "DATABASE_URL", "STRIPE_API_KEY", "NPM_TOKEN", "GITHUB_TOKEN", "KIT_API_KEY", "AWS_REGION",
        "GOOGLE_CLOUD_PROJECT", "ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_SMALL_FAST_MODEL",
        "ANTHROPIC_BETAS", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_EXTRA_BODY", "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_USE_POWERSHELL_TOOL", "CODEX_HOME", "COPILOT_MODEL", "COPILOT_PROVIDER_WIRE_API", "GEMINI_MODEL",
        "MY_OPENAI_API_KEY_NAME", "OPENCODE_CONFIG",
    ],
)  # fmt: skip
def test_other_variables_are_not_model_credentials(name: str) -> None:
    assert not is_model_credential(name)


def test_a_credential_of_one_agent_only() -> None:
    env = {"GITHUB_TOKEN": "for gh"}
    assert "GITHUB_TOKEN" in gateway_environment(env, ACCESS, {}, given=env)
    assert "GITHUB_TOKEN" not in gateway_environment(env, ACCESS, {}, given=env, own={"GITHUB_TOKEN"})


def test_credentials_are_replaced_by_the_gateways() -> None:
    env = {"PATH": "/bin", "OPENAI_API_KEY": "real", "OPENAI_BASE_URL": "http://real"}
    assert gateway_environment(env, ACCESS, {"OPENAI_API_KEY": ACCESS.key}, given=env) == {
        "PATH": "/bin",
        "OPENAI_API_KEY": ACCESS.key,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


def test_proxies_are_kept_but_bypassed_for_the_gateway() -> None:
    around = {"HTTP_PROXY": "http://u:p@proxy", "https_proxy": "http://proxy", "no_proxy": "corp, 127.0.0.1"}
    bypassed = {"NO_PROXY": "127.0.0.1,corp", "no_proxy": "127.0.0.1,corp"}
    assert gateway_environment(around, ACCESS, {}, given={}) == {"https_proxy": "http://proxy", **bypassed}
    assert gateway_environment(around, ACCESS, {}, given=around) == {**around, **bypassed}


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        (None, None), ("", None), ("claude-sonnet-4-5", "anthropic"), ("gpt-5", "openai"), ("o3", "openai"),
        ("gemini-2.5-pro", "gemini"), ("llama", None), ("anthropic/claude-x", "anthropic"), ("openai/any", "openai"),
        ("google/gemini-2.5-pro", "gemini"), ("openrouter/anthropic/claude-x", None), ("mine/gpt-5", None),
    ],
)  # fmt: skip
def test_provider_of_a_model(model: str | None, provider: str | None) -> None:
    assert provider_of_model(model) == provider


@pytest.mark.parametrize("agent", AGENTS)
def test_all_our_agents_can_use_a_gateway(agent: str) -> None:
    adapter = get_adapter(agent)
    pointing = adapter.gateway_env(ACCESS, "claude-sonnet-4-5", {})
    assert ACCESS.key in pointing.values()
    assert adapter.credentials_in({}) == []
    # What points at a gateway is what decides where the model is.
    assert set(adapter.credentials_in({**pointing, "OTHER": "x"})) >= {
        name for name, value in pointing.items() if value == ACCESS.key
    }
    assert adapter.credentials_in(dict.fromkeys(pointing, "")) == []


@pytest.mark.parametrize(
    ("agent", "model", "env", "provider"),
    [
        ("claude-code", "any", {}, "anthropic"),
        ("codex", "any", {}, "openai"),
        ("gemini-cli", None, {}, "gemini"),
        ("command", "claude-x", {}, None),
        ("opencode", "openai/gpt-5", {}, "openai"),
        ("opencode", "groq/llama", {}, None),
        ("opencode", None, {}, None),
        ("copilot-cli", "claude-sonnet-4.6", {}, None),  # GitHub's own, by its subscription
        ("copilot-cli", "claude-sonnet-4-5", {"COPILOT_PROVIDER_BASE_URL": "http://x"}, "anthropic"),
        ("copilot-cli", "gpt-5", {"COPILOT_PROVIDER_BASE_URL": "http://x"}, "openai"),
        ("copilot-cli", "mine", {"COPILOT_PROVIDER_TYPE": "anthropic"}, "anthropic"),
        ("copilot-cli", "claude-x", {"COPILOT_PROVIDER_TYPE": "azure"}, "openai"),
    ],
)
def test_provider_of_each_agent(agent: str, model: str | None, env: dict[str, str], provider: str | None) -> None:
    adapter = get_adapter(agent)
    assert adapter.gateway_provider(model, env) == provider


def test_copilot_provider_follows_the_model_name() -> None:
    adapter = get_adapter("copilot-cli")
    of_anthropic = adapter.gateway_env(ACCESS, "claude-sonnet-4-5", {})
    assert of_anthropic["COPILOT_PROVIDER_TYPE"] == "anthropic"
    assert of_anthropic["COPILOT_PROVIDER_BASE_URL"] == ACCESS.url
    of_others = adapter.gateway_env(ACCESS, None, {"COPILOT_MODEL": "gemini-2.5-pro"})
    assert of_others["COPILOT_PROVIDER_TYPE"] == "openai"
    assert of_others["COPILOT_PROVIDER_BASE_URL"] == f"{ACCESS.url}/v1"
