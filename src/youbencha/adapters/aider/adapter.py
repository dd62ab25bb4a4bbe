"""AiderAdapter: Aider gets its prompt in a file, prints plain text, and leaves its records in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from packaging.version import Version

from youbencha.adapters.aider.command import AiderConfig, Files, aider_command
from youbencha.adapters.aider.records import read_session
from youbencha.adapters.base import FilePlaces, SupportedVersions
from youbencha.adapters.cli_agent import (
    AgentCli,
    Cause,
    CliAdapter,
    Invocation,
    SessionRecord,
    codes,
)
from youbencha.adapters.cli_agent.agent_files import keep_logs
from youbencha.adapters.cli_agent.environment import provider_of_model
from youbencha.gateway.access import GatewayAccess, Provider
from youbencha.process import Command, ProcessResult
from youbencha.sandbox.toolbox.catalogue import Venv

_ALIASES = {
    "sonnet": "claude-*sonnet*", "haiku": "claude-*haiku*", "opus": "claude-*opus*",
    "4": "gpt-4*", "4o": "gpt-4o*", "4-turbo": "gpt-4-*", "35turbo": "gpt-3.5-turbo", "35-turbo": "gpt-3.5-turbo",
    "3": "gpt-3.5-turbo", "flash": "gemini/gemini-*flash*", "flash-lite": "gemini/gemini-*flash-lite*",
    "gemini": "gemini/gemini-*", "gemini-exp": "gemini/gemini-*", "deepseek": "deepseek/*", "r1": "deepseek/*",
    "grok3": "xai/grok-3*",
}  # fmt: skip
"""Aider's own short names (0.86.2), and patterns of the models that they stand for."""

_BASES: Mapping[Provider, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
    "openai": ("OPENAI_API_BASE", "OPENAI_BASE_URL"),
    "gemini": ("GEMINI_API_BASE",),
}

_PATHS: Mapping[Provider, str] = {"anthropic": "", "openai": "/v1", "gemini": "/v1beta"}

_MAIN_KEYS: Mapping[Provider, str] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
}

_KEYS = frozenset({
    *_MAIN_KEYS.values(), "GOOGLE_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "GROQ_API_KEY", "XAI_API_KEY",
    "MISTRAL_API_KEY", "COHERE_API_KEY", "FIREWORKS_AI_API_KEY", "TOGETHERAI_API_KEY", "CEREBRAS_API_KEY",
    "AZURE_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_APPLICATION_CREDENTIALS",
    "VERTEXAI_PROJECT", "OLLAMA_API_BASE", "LM_STUDIO_API_BASE", "GITHUB_COPILOT_TOKEN",
})  # fmt: skip
"""Each of these can be the only credential that a model needs."""

CREDENTIALS = _KEYS | {name for names in _BASES.values() for name in names} | {
    "AZURE_API_BASE", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "OPENROUTER_API_BASE", "DEEPSEEK_API_BASE",
    "AIDER_OPENAI_API_KEY", "AIDER_ANTHROPIC_API_KEY", "AIDER_API_KEY", "AIDER_OPENAI_API_BASE", "AIDER_SET_ENV",
    "AIDER_MODEL_SETTINGS_FILE",
}  # fmt: skip

_FORWARDED_VARS = ("AIDER_API_KEY", "AIDER_OPENAI_API_KEY", "AIDER_ANTHROPIC_API_KEY", "AIDER_SET_ENV")
"""Variables from which Aider sets others."""

VARIABLES = CREDENTIALS | {
    "AZURE_API_VERSION", "AWS_REGION", "AWS_REGION_NAME", "AWS_DEFAULT_REGION", "VERTEXAI_LOCATION",
    "OPENAI_ORGANIZATION",
}  # fmt: skip


class AiderAdapter(CliAdapter[AiderConfig]):
    """Runs Aider with a message, and reads the files that it leaves."""

    name = "aider"
    title = "Aider"
    prefix = "AIDER"
    program = "aider"
    summary = "Aider."
    recipes = (Venv("aider-chat", module="aider"),)
    redundant_flags = frozenset({"--yes", "--yes-always"})
    logs = "aider-logs"
    versions = SupportedVersions(oldest=Version("0.83.0"))  # 0.82.3 lacks --disable-playwright
    file_places = FilePlaces(instructions="CONVENTIONS.md")  # named on the command line
    how_to_authenticate = (
        "Set the key of the model's provider (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, …) in "
        "agent.env or your environment."
    )
    supports_gateway = True
    config_model = AiderConfig
    inherited_env = VARIABLES
    credentials = CREDENTIALS
    default_env: ClassVar[Mapping[str, str]] = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    model_aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {alias: (name,) for alias, name in _ALIASES.items()}
    supports_custom_agents = False
    causes = (
        Cause(
            code=codes.MAX_TURNS,
            kind="max_reflections",
            subtypes=frozenset({"reflections"}),
            message="Aider gave up fixing its own edits",
            hint="Its output has the reason: edits that did not apply, or complaints of a linter or a test.",
        ),
        Cause(
            code=codes.API_ERROR,
            kind="token_limit",
            subtypes=frozenset({"token_limit"}),
            kinds=frozenset({"ContextWindowExceededError"}),
            message="The conversation or the answer does not fit into the model's limits",
            hint="Give the agent a smaller task, name fewer `files`, or use a model with a larger context.",
        ),
        Cause(
            code=codes.REFUSED,
            kind="refusal",
            kinds=frozenset({"ContentPolicyViolationError"}),
            message="The model declined the request",
            hint="Reword the task, or run it on another model; this is the model's answer, not a fault of the run.",
        ),
        Cause(
            code=codes.API_ERROR,
            kind="model_not_found",
            pattern=r"LLM Provider NOT provided",
            message="Aider does not know the model's provider",
            hint="Write `model` as provider/model: anthropic/NAME, openai/NAME, gemini/NAME.",
        ),
        Cause(
            code=codes.EXECUTION_ERROR,
            kind="not_guarded",
            subtypes=frozenset({"not_guarded"}),
            pattern=r"^youBencha cannot keep this Aider",
            message="Aider could not be kept from reading the repository's settings for it",
            hint="Use the version that is known to work: `yb agents install aider`.",
        ),
    )

    def command(self, invocation: Invocation[AiderConfig]) -> Command:
        return aider_command(invocation)

    def reader(self) -> None:
        return None

    async def require_authentication(self, cli: AgentCli, env: Mapping[str, str], config: AiderConfig | None) -> None:
        if missing := missing_key(config.model if config else None, env):
            raise self.auth_failed(missing)

    def stored_login(self, env: Mapping[str, str]) -> bool:
        """Aider stores no login; the use of a cloud's login shows in its variables."""
        return False

    def provider(self, invocation: Invocation[AiderConfig]) -> str | None:
        return provider_name(invocation.config.model) or api_provider(None, invocation.env)

    def complete(
        self, invocation: Invocation[AiderConfig], session: SessionRecord, done: ProcessResult
    ) -> SessionRecord:
        files, redactor = Files(invocation.scratch), self.redactor(invocation)
        # These repeat the conversation, so secrets are masked.
        own_logs = (files.chat, files.conversation, files.analytics, files.calls)
        keep_logs(invocation.scratch, own_logs, invocation.context.artifacts_dir / AiderAdapter.logs, redactor)
        return read_session(files, done)

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider | None:
        return api_provider(model, env)

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        return gateway_variables(access, api_provider(model, env))


def api_provider(model: str | None, env: Mapping[str, str]) -> Provider | None:
    """Return the provider whose API is used. Without a model, Aider chooses by its keys: known only if it has one."""
    if model is not None:
        return provider_of_model(_ALIASES.get(model, model))
    providers = [provider for provider, name in _MAIN_KEYS.items() if env.get(name)]
    return providers[0] if len(providers) == 1 else None


def provider_name(model: str | None) -> str | None:
    """Return the provider's name for the log: LiteLLM's prefix, if it is not one of the three."""
    if model is None:
        return None
    name = _ALIASES.get(model, model)
    provider = provider_of_model(name)
    if provider is None:
        return name.partition("/")[0] if "/" in name else None
    return "google" if provider == "gemini" else provider


def gateway_variables(access: GatewayAccess, provider: Provider | None) -> dict[str, str]:
    """Return the variables for the gateway. An unknown provider is assumed to have OpenAI's API."""
    provider = provider or "openai"
    url = access.url + _PATHS[provider]
    return {**dict.fromkeys(_BASES[provider], url), _MAIN_KEYS[provider]: access.key}


def missing_key(model: str | None, env: Mapping[str, str]) -> str | None:
    """Return which key is missing, as far as the environment shows."""
    if not any(env.get(name) for name in CREDENTIALS):
        return "there is no API key of any provider."
    provider = None if model is None else api_provider(model, env)
    # Gemini has several kinds of credentials.
    if provider in ("anthropic", "openai") and not any(
        env.get(name) for name in (_MAIN_KEYS[provider], *_FORWARDED_VARS)
    ):
        return f"the model {model} needs {_MAIN_KEYS[provider]}."
    return None
