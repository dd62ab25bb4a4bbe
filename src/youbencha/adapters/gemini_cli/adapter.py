"""Gemini CLI: gets its prompt on stdin, writes JSON events, and ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from youbencha.adapters.cli_agent import Cause, CliAdapter, Kind, StreamReader, Task, codes, words
from youbencha.adapters.gemini_cli.config import GeminiCliConfig
from youbencha.adapters.gemini_cli.credentials import CREDENTIALS, authenticated, own_home, stored_login
from youbencha.adapters.gemini_cli.events import GeminiReader
from youbencha.gateway.access import GatewayAccess
from youbencha.process import Command

if TYPE_CHECKING:
    from youbencha.gateway.routes import Provider

KIND = Kind(
    name="gemini-cli",
    title="Gemini CLI",
    prefix="GEMINI",
    command="gemini",
    logs="gemini-cli-logs",
    provider="google",
    how_to_authenticate="Set GEMINI_API_KEY (in agent.env, or around us), or run `gemini` once and log in.",
)


class GeminiCliAdapter(CliAdapter[GeminiCliConfig]):
    kind = KIND
    config_model = GeminiCliConfig
    variables = CREDENTIALS | {"GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"}
    credentials = CREDENTIALS
    quiet = {  # noqa: RUF012  # ClassVar in the base
        # In a folder that nobody trusted it falls back to asking, silently, and then does without most tools. The flag
        # for it is younger than the variable, and unknown flags are errors.
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        # It starts itself once more for a larger heap, which costs two seconds and has no use in a short run.
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }
    has_agents = False
    causes = (
        Cause(
            code=KIND.code(codes.AUTH_FAILED),
            kind="authentication",
            words=words(
                r"api key not valid|UNAUTHENTICATED|invalid auth method|set an auth method"
                r"|must specify the GEMINI_API_KEY"
            ),
            says="Gemini CLI failed at authentication: no valid API key or login",
            hint=KIND.how_to_authenticate,
        ),
    )

    def command(self, task: Task[GeminiCliConfig]) -> Command:
        config = task.config
        argv = [*task.cli.argv, "--output-format", "stream-json", "--approval-mode", config.approval_mode]
        argv += ["--model", config.model] if config.model else []
        # No prompt here: it then takes stdin as it is, of any length, whatever it begins with.
        return Command(
            argv=(*argv, *config.extra_args),
            cwd=task.workspace,
            env={**task.env, **own_home(task)},
            stdin=task.prompt.encode(),
        )

    def reader(self) -> StreamReader:
        return GeminiReader()

    def require_authentication(self, env: Mapping[str, str], config: GeminiCliConfig | None) -> None:
        if not authenticated(env):
            raise KIND.auth_failed("there is no API key in the environment, and nobody has logged in.")

    def stored_login(self, env: Mapping[str, str]) -> bool:
        return stored_login(env)

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider:
        return "gemini"

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        return {"GOOGLE_GEMINI_BASE_URL": access.url, "GEMINI_API_KEY": access.key}
