"""CommandAdapter: the contract of `adapters/base.py` for any program.

It stands on the shortest path that there is from a test case to a result, so it imports little and asks nothing: no
toolbox, no `--version`, no events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.cli_agent import AgentCli, CliAdapter, SessionFacts, Task
from youbencha.adapters.command.metrics import with_metrics
from youbencha.adapters.command.program import COMMAND, CommandAgentConfig, command_for, find_program
from youbencha.gateway.api import GatewayAccess
from youbencha.log import YouBenchaLog
from youbencha.process import Command, ProcessResult

if TYPE_CHECKING:
    from youbencha.adapters.cli_agent import StreamReader
    from youbencha.gateway.api import Provider


class CommandAdapter(CliAdapter[CommandAgentConfig]):
    """Runs a program; its exit code decides, its output is its answer."""

    kind = COMMAND
    config_model = CommandAgentConfig
    emits_json = False
    needs_model = False

    async def check_availability(self) -> bool:
        """Which program it will be, only a configuration tells."""
        return True

    def command(self, task: Task[CommandAgentConfig]) -> Command:
        return command_for(task)

    def reader(self) -> StreamReader | None:
        return None

    def success_exit_codes(self, config: CommandAgentConfig) -> frozenset[int]:
        return frozenset(config.success_exit_codes)

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider | None:
        """Only the program knows."""
        return None

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:

        return usual_variables(access)

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        from youbencha.adapters.cli_agent.environment import is_model_credential

        return [name for name, value in env.items() if value and is_model_credential(name)]

    def completed(self, task: Task[CommandAgentConfig], facts: SessionFacts, done: ProcessResult) -> SessionFacts:
        return with_ending(task.config, with_metrics(task, facts, self.redactor(task)), done)

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        """With the calls of tools that it told of: how often each, and no more is known of them."""
        from youbencha.adapters.command.metrics import calls_told

        log = super().normalize_log(result, context)
        return log.model_copy(update={"tool_calls": calls_told(result.details)})

    async def locate(
        self, config: CommandAgentConfig, env: Mapping[str, str], context: AgentExecutionContext | None
    ) -> AgentCli[str]:
        return find_program(config, env, context)


# How a program that we do not know finds the gateway: by the variables that most look at.


def usual_variables(access: GatewayAccess) -> dict[str, str]:
    return {
        "PROXY_URL": access.url,  # Thunderdome's adapters know this one
        "ANTHROPIC_BASE_URL": access.url,
        "ANTHROPIC_API_BASE": access.url,
        "ANTHROPIC_API_KEY": access.key,
        # Anthropic's clients add the version themselves, OpenAI's do not.
        "OPENAI_BASE_URL": f"{access.url}/v1",
        "OPENAI_API_BASE": f"{access.url}/v1",
        "OPENAI_API_KEY": access.key,
        "GOOGLE_GEMINI_BASE_URL": access.url,
        "GEMINI_API_KEY": access.key,
    }


# What an exit code means beyond good and bad, by the contract of Thunderdome's adapters: 2 is for giving up.

_GAVE_UP = 2

_TAIL = 2_000


def with_ending(config: CommandAgentConfig, facts: SessionFacts, done: ProcessResult) -> SessionFacts:
    if done.exit.code != _GAVE_UP or _GAVE_UP in config.success_exit_codes:
        return facts
    lines = [line.strip() for line in done.output[-_TAIL:].splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return facts.model_copy(update={"result_is_error": True, "result_subtype": "gave_up", "failure_text": last})
