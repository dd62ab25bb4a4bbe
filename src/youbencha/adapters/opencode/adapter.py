"""OpenCodeAdapter: the contract of `adapters/base.py` for opencode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from youbencha.adapters.cli_agent import Cause, CliAdapter, Kind, SessionFacts, Task, codes, words
from youbencha.adapters.cli_agent.model_names import provider_of
from youbencha.adapters.opencode.config import OpenCodeConfig
from youbencha.adapters.opencode.credentials import (
    CONFIGURED,
    CREDENTIALS,
    OWN_VARIABLES,
    has_credentials,
    stored_login,
)
from youbencha.adapters.opencode.events import OpenCodeReader
from youbencha.adapters.opencode.settings import pointing_at, with_settings
from youbencha.adapters.opencode.stderr import AGENT_NOT_FOUND, with_stderr
from youbencha.gateway.access import GatewayAccess
from youbencha.process import Command, ProcessResult

if TYPE_CHECKING:
    from youbencha.gateway.routes import Provider

OPENCODE = Kind(
    name="opencode",
    title="opencode",
    prefix="OPENCODE",
    command="opencode",
    logs="opencode-logs",
    how_to_authenticate="Set the provider's key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …) in agent.env or your "
    "environment, or run `opencode auth login`.",
)


class OpenCodeAdapter(CliAdapter[OpenCodeConfig]):
    """Runs `opencode run` and reads its JSON events."""

    kind = OPENCODE
    config_model = OpenCodeConfig
    variables = OWN_VARIABLES
    credentials = CREDENTIALS
    quiet: ClassVar[Mapping[str, str]] = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_SHARE": "1"}
    causes = (
        Cause(
            code=OPENCODE.code(codes.EXECUTION_ERROR),
            kind=AGENT_NOT_FOUND,
            subtypes=frozenset({AGENT_NOT_FOUND}),
            says="opencode does not know this agent, and went on with another",
            hint="Put NAME.md into .opencode/agent of the repository (or ~/.config/opencode/agent), or mend "
            "`agent_name`.",
        ),
        Cause(
            code=OPENCODE.code(codes.REFUSED),
            kind="refusal",
            subtypes=frozenset({"content-filter"}),
            says="The model declined the request",
            hint="Reword the task, or run it on another model; this is the model's answer, not a fault of the run.",
        ),
        Cause(
            code=OPENCODE.code(codes.API_ERROR),
            kind="max_output_tokens",
            subtypes=frozenset({"length"}),
            says="The model's answer did not fit into its limit of output tokens",
            hint="Give the agent a smaller task, or raise the model's limit in opencode's own configuration.",
        ),
        Cause(
            code=OPENCODE.code(codes.API_ERROR),
            kind="model_not_found",
            words=words(r"ModelNotFoundError"),
            says="opencode does not know the model, or has no credentials for its provider",
            hint="Write `model` as provider/model (`opencode models` lists them), and set the provider's key.",
        ),
    )

    def command(self, task: Task[OpenCodeConfig]) -> Command:
        config = task.config
        values = {"-m": config.full_model, "--agent": config.agent_name, "--variant": config.variant}
        chosen = [part for flag, value in values.items() if value is not None for part in (flag, value)]
        flags = [
            "--format", "json",
            # Else its events say "Unexpected server error" and nothing more.
            "--print-logs", "--log-level", "ERROR",
            # With a title given, no model is asked for one.
            "--title", "youBencha",
            *(["--auto"] if config.auto_approve else []),
        ]  # fmt: skip
        return Command(
            argv=(*task.cli.argv, "run", *flags, *chosen, *config.extra_args),
            cwd=task.workspace,
            env=with_settings(task),
            # Not as an argument: it puts quotation marks around one with spaces in it (1.18.33).
            stdin=task.prompt.encode(),
        )

    def reader(self) -> OpenCodeReader:
        return OpenCodeReader()

    def require_authentication(self, env: Mapping[str, str], config: OpenCodeConfig | None) -> None:
        free = config is not None and config.chosen_provider == "opencode"  # its own, which asks for no key
        if not free and not has_credentials(env):
            raise OPENCODE.auth_failed("there is no API key and no stored login.")

    def stored_login(self, env: Mapping[str, str]) -> bool:
        return stored_login(env)

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider | None:
        return provider_of(model)

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        return pointing_at(access, provider_of(model))

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        return [*super().credentials_in(env), *(name for name in env if name in CONFIGURED)]

    def model_for_gateway(self, config: OpenCodeConfig) -> str:
        return config.full_model or f"{config.provider}/"

    def provider(self, task: Task[OpenCodeConfig]) -> str | None:
        return task.config.chosen_provider if task.config.model else None

    def completed(self, task: Task[OpenCodeConfig], facts: SessionFacts, done: ProcessResult) -> SessionFacts:
        return with_stderr(facts, done.output)
