"""CommandAdapter: the contract of `adapters/base.py` for any program.

It stands on the shortest path that there is from a test case to a result, so it imports little and asks nothing: no
toolbox, no `--version`, no events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.cli_agent import Cli, CliAdapter, SessionFacts, Task
from youbencha.adapters.command.config import CommandConfig
from youbencha.adapters.command.ending import with_ending
from youbencha.adapters.command.kind import COMMAND
from youbencha.adapters.command.metrics import with_metrics
from youbencha.adapters.command.program import find_program
from youbencha.adapters.command.words import command_for
from youbencha.gateway.access import GatewayAccess
from youbencha.log import YouBenchaLog
from youbencha.process import Command, ProcessResult

if TYPE_CHECKING:
    from youbencha.adapters.cli_agent import StreamReader
    from youbencha.gateway.routes import Provider


class CommandAdapter(CliAdapter[CommandConfig]):
    """Runs a program; its exit code decides, its output is its answer."""

    kind = COMMAND
    config_model = CommandConfig
    writes_events = False
    needs_model = False

    async def check_availability(self) -> bool:
        """Which program it will be, only a configuration tells."""
        return True

    def command(self, task: Task[CommandConfig]) -> Command:
        return command_for(task)

    def reader(self) -> StreamReader | None:
        return None

    def good_exit_codes(self, config: CommandConfig) -> frozenset[int]:
        return frozenset(config.success_exit_codes)

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider | None:
        """Only the program knows."""
        return None

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        from youbencha.adapters.command.gateway import usual_variables

        return usual_variables(access)

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        from youbencha.adapters.cli_agent.through_gateway import is_of_a_model

        return [name for name, value in env.items() if value and is_of_a_model(name)]

    def completed(self, task: Task[CommandConfig], facts: SessionFacts, done: ProcessResult) -> SessionFacts:
        return with_ending(task.config, with_metrics(task, facts, self.redactor(task)), done)

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        """With the calls of tools that it told of: how often each, and no more is known of them."""
        from youbencha.adapters.command.calls import calls_told

        log = super().normalize_log(result, context)
        return log.model_copy(update={"tool_calls": calls_told(result.details)})

    async def locate(
        self, config: CommandConfig, env: Mapping[str, str], context: AgentExecutionContext | None
    ) -> Cli[str]:
        return find_program(config, env, context)
