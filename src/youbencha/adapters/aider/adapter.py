"""AiderAdapter: the contract of `adapters/base.py` for Aider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from youbencha.adapters.aider.command import Files, aider_command
from youbencha.adapters.aider.config import AiderConfig
from youbencha.adapters.aider.providers import CREDENTIALS, VARIABLES, api_of, missing_key, pointing_at, served_by
from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.cli_agent import Cause, CliAdapter, Kind, SessionFacts, Task, codes, words
from youbencha.gateway.access import GatewayAccess
from youbencha.log import YouBenchaLog
from youbencha.process import Command, ProcessResult

if TYPE_CHECKING:
    from youbencha.gateway.routes import Provider

AIDER = Kind(
    name="aider",
    title="Aider",
    prefix="AIDER",
    command="aider",
    logs="aider-logs",
    how_to_authenticate="Set the key of the model's provider (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, …) in "
    "agent.env or your environment.",
)


class AiderAdapter(CliAdapter[AiderConfig]):
    """Runs Aider with a message, and reads the files that it leaves: it writes plain text."""

    kind = AIDER
    config_model = AiderConfig
    variables = VARIABLES
    credentials = CREDENTIALS
    quiet: ClassVar[Mapping[str, str]] = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    has_agents = False
    causes = (
        Cause(
            code=AIDER.code(codes.MAX_TURNS),
            kind="max_reflections",
            subtypes=frozenset({"reflections"}),
            says="Aider gave up mending its own edits",
            hint="Its output tells what it could not mend: edits that did not fit, a linter's or a test's complaints.",
        ),
        Cause(
            code=AIDER.code(codes.API_ERROR),
            kind="token_limit",
            subtypes=frozenset({"token_limit"}),
            kinds=frozenset({"ContextWindowExceededError"}),
            says="The conversation or the answer does not fit into the model's limits",
            hint="Give the agent a smaller task, name fewer `files`, or use a model with a larger context.",
        ),
        Cause(
            code=AIDER.code(codes.REFUSED),
            kind="refusal",
            kinds=frozenset({"ContentPolicyViolationError"}),
            says="The model declined the request",
            hint="Reword the task, or run it on another model; this is the model's answer, not a fault of the run.",
        ),
        Cause(
            code=AIDER.code(codes.API_ERROR),
            kind="model_not_found",
            words=words(r"LLM Provider NOT provided"),
            says="Aider cannot tell whose the model is",
            hint="Write `model` as provider/model: anthropic/NAME, openai/NAME, gemini/NAME.",
        ),
        Cause(
            code=AIDER.code(codes.EXECUTION_ERROR),
            kind="not_guarded",
            subtypes=frozenset({"not_guarded"}),
            words=words(r"^youBencha cannot keep this Aider"),
            says="Aider could not be kept from settings that the repository may bring",
            hint="Use the version that is known to work: `yb agents install aider`.",
        ),
    )

    def command(self, task: Task[AiderConfig]) -> Command:
        return aider_command(task)

    def reader(self) -> None:
        return None

    def require_authentication(self, env: Mapping[str, str], config: AiderConfig | None) -> None:
        if missing := missing_key(config.model if config else None, env):
            raise AIDER.auth_failed(missing)

    def stored_login(self, env: Mapping[str, str]) -> bool:
        """It has none of its own; that it uses a cloud's, its variables tell."""
        return False

    def provider(self, task: Task[AiderConfig]) -> str | None:
        return served_by(task.config.model) or api_of(None, task.env)

    def completed(self, task: Task[AiderConfig], facts: SessionFacts, done: ProcessResult) -> SessionFacts:
        from youbencha.adapters.aider.own_logs import keep_logs
        from youbencha.adapters.aider.session import read_session

        files, redactor = Files(task.scratch), self.redactor(task)
        keep_logs(files, task.artifacts, redactor)
        return read_session(files, done, redactor)

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        from youbencha.adapters.aider.log import with_conversation

        return with_conversation(super().normalize_log(result, context), result.details)

    # -- behind a gateway --------------------------------------------------------------------------------------

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider | None:
        return api_of(model, env)

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        return pointing_at(access, api_of(model, env))
