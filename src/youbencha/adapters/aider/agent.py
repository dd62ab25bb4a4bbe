"""AiderAdapter: Aider gets its prompt in a file, prints plain text, and leaves its records in files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from packaging.version import Version
from pydantic import Field

from youbencha.adapters.aider.records import Files, read_session
from youbencha.adapters.base import FilePlaces, SupportedVersions
from youbencha.adapters.cli_agent import (
    AgentCli,
    Cause,
    CliAdapter,
    Invocation,
    SessionRecord,
    codes,
)
from youbencha.adapters.cli_agent.config import AgentConfig, NonEmptyArgument
from youbencha.adapters.cli_agent.environment import provider_of_model
from youbencha.adapters.cli_agent.session_files import keep_logs
from youbencha.gateway.access import GatewayAccess, Provider
from youbencha.process import Command, ProcessResult
from youbencha.sandbox.toolbox.catalogue import Venv

_COMMANDS = ("/", "!")
"""A message that begins with one of these is a command to Aider, such as `/run`."""

_UNATTENDED = (
    "--yes-always", "--no-pretty", "--no-fancy-input", "--no-gitignore", "--no-suggest-shell-commands",
    "--no-detect-urls", "--disable-playwright", "--no-check-update", "--no-show-release-notes",
    "--no-show-model-warnings", "--no-analytics",
)  # fmt: skip

_PRICES = Path("home", ".aider", "caches", "model_prices_and_context_window.json")
"""Aider's cached price list. If it exists, Aider downloads none, and uses the prices in LiteLLM."""


Words = Annotated[tuple[NonEmptyArgument, ...], Field(strict=False)]


class AiderConfig(AgentConfig):
    """Options of the Aider adapter. An option that is not set has Aider's own default."""

    own_flags = frozenset({
        "--", "-h", "--help", "--version", "--model", "--message", "--msg", "-m", "--message-file", "-f",
        "--edit-format", "--chat-mode", "--architect", "--weak-model", "--editor-model", "--file", "--read",
        "--map-tokens", "--lint-cmd", "--auto-lint", "--no-auto-lint", "--test-cmd", "--auto-test", "--no-auto-test",
        "--auto-commits", "--no-auto-commits", "--dirty-commits", "--no-dirty-commits", "--reasoning-effort",
        "--thinking-tokens",
        "--cache-prompts", "--no-cache-prompts", "--stream", "--no-stream", "--git", "--no-git", "--gitignore",
        "--no-gitignore", "--pretty", "--no-pretty", "--fancy-input", "--no-fancy-input", "--yes-always", "--env-file",
        "--analytics", "--no-analytics", "--analytics-log", "--chat-history-file", "--input-history-file",
        "--llm-history-file", "--check-update", "--no-check-update", "--upgrade", "--update", "--install-main-branch",
        "--gui", "--browser", "--exit", "--apply", "--list-models", "--models", "--commit", "--lint", "--test",
        "--show-repo-map", "--show-prompts", "--just-check-update", "--watch-files", "--copy-paste",
        # Every user can read a key on a command line: keys belong in `agent.env`.
        "--api-key", "--openai-api-key", "--anthropic-api-key",
    })  # fmt: skip

    edit_format: NonEmptyArgument | None = None
    """`whole`, `diff`, `diff-fenced`, `udiff`, `architect`, `ask`, …; by default what suits the model."""
    architect: bool = False
    """One model plans, and `editor_model` edits."""
    weak_model: NonEmptyArgument | None = None
    """For commit messages and summaries."""
    editor_model: NonEmptyArgument | None = None
    files: Words = ()
    """Files to edit that are in the chat from the start; relative to the repository. Aider adds mentioned files."""
    read_only: Words = ()
    """Files in the chat from the start that are only read, such as conventions."""
    map_tokens: Annotated[int, Field(ge=0)] | None = None
    """For the map of the repository; 0 for none."""
    auto_lint: bool = True
    """Aider lints the files that it edited, and fixes what is wrong."""
    lint_cmd: Words = ()
    """A linter instead of its own, as `language: command`."""
    test_cmd: NonEmptyArgument | None = None
    """Run in a shell after each edit; Aider fixes what fails."""
    auto_commits: bool = False
    reasoning_effort: NonEmptyArgument | None = None
    thinking_tokens: NonEmptyArgument | None = None
    """Such as 8k."""
    cache_prompts: bool = False
    stream: bool = False
    """Stream the answers. Aider then does not get their token counts."""


def aider_command(invocation: Invocation[AiderConfig]) -> Command:
    files = Files(invocation.scratch)
    _prepare(files, invocation.prompt)
    python_path = os.pathsep.join(
        filter(None, (invocation.inside(invocation.scratch), invocation.env.get("PYTHONPATH")))
    )
    return Command(
        argv=(*invocation.cli.argv, *_flags(invocation, files), *invocation.config.extra_args),
        cwd=invocation.workspace,
        env={**invocation.env, "PYTHONPATH": python_path},
    )


def _prepare(files: Files, prompt: str) -> None:
    text = f"\n{prompt}" if prompt.startswith(_COMMANDS) else prompt
    files.prompt.write_text(text, encoding="utf-8", newline="")
    files.empty.touch()
    prices = files.scratch / _PRICES
    prices.parent.mkdir(parents=True)
    prices.write_text('{"none": {}}', encoding="utf-8")
    shutil.copyfile(Path(__file__).with_name("guard.py"), files.scratch / "sitecustomize.py")


def _flags(invocation: Invocation[AiderConfig], files: Files) -> list[str]:
    config = invocation.config
    values: dict[str, object] = {
        "--message-file": invocation.inside(files.prompt),
        "--analytics-log": invocation.inside(files.analytics),
        "--chat-history-file": invocation.inside(files.chat),
        "--input-history-file": invocation.inside(files.scratch / "input-history"),
        "--llm-history-file": invocation.inside(files.conversation),
        # Each has a default in the repository.
        "--env-file": invocation.inside(files.empty),
        "--model-settings-file": invocation.inside(files.empty),
        "--model-metadata-file": invocation.inside(files.empty),
        "--model": config.model,
        "--weak-model": config.weak_model,
        "--editor-model": config.editor_model,
        "--edit-format": config.edit_format,
        "--map-tokens": config.map_tokens,
        "--reasoning-effort": config.reasoning_effort,
        "--thinking-tokens": config.thinking_tokens,
        "--test-cmd": config.test_cmd,
    }
    lists = {
        "--file": config.files,
        "--read": [*config.read_only, *_instructions(invocation)],
        "--lint-cmd": config.lint_cmd,
    }
    return [
        *_UNATTENDED,
        *(["--architect"] if config.architect else []),
        # If the workspace is not a repository, Aider would create one, or use one that contains the workspace.
        _switch("git", (invocation.workspace / ".git").exists()),
        _switch("auto-commits", config.auto_commits),
        _switch("dirty-commits", config.auto_commits),
        _switch("auto-lint", config.auto_lint),
        _switch("auto-test", config.test_cmd is not None),
        _switch("cache-prompts", config.cache_prompts),
        _switch("stream", config.stream),
        # Joined, so that a value that begins with a dash is not read as a flag.
        *(f"{flag}={value}" for flag, value in values.items() if value is not None),
        *(f"{flag}={value}" for flag, given in lists.items() for value in given),
    ]


def _instructions(invocation: Invocation[AiderConfig]) -> list[str]:
    files = invocation.context.files
    return [invocation.inside(files.instructions)] if files and files.instructions else []


def _switch(name: str, on: bool) -> str:
    return f"--{name}" if on else f"--no-{name}"


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
            message="Aider could not be prevented from reading its settings in the repository",
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
