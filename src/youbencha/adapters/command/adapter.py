"""CommandAdapter: the contract of `adapters/base.py` for any program.

It imports little, to start fast: no toolbox, no `--version`, no events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from youbencha.adapters.base import AgentExecutionContext
from youbencha.adapters.cli_agent import AgentCli, CliAdapter, Invocation, SessionRecord
from youbencha.adapters.command.metrics import with_metrics
from youbencha.adapters.command.program import COMMAND, CommandAgentConfig, command_for, find_program
from youbencha.events import SessionResult
from youbencha.gateway.api import GatewayAccess
from youbencha.process import Command, ProcessResult

if TYPE_CHECKING:
    from youbencha.adapters.cli_agent import StreamReader
    from youbencha.events import SessionResult
from youbencha.gateway.api import Provider

_GAVE_UP = 2
"""The exit code of an agent that gave up, by the contract of Thunderdome's adapters."""

_TAIL = 2_000


class CommandAdapter(CliAdapter[CommandAgentConfig]):
    """Runs a program; its exit code decides, its output is its answer."""

    kind = COMMAND
    config_model = CommandAgentConfig
    emits_json = False
    needs_model = False

    async def check_availability(self) -> bool:
        """Always True: only a configuration names the program."""
        return True

    def command(self, invocation: Invocation[CommandAgentConfig]) -> Command:
        return command_for(invocation)

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

    def complete(
        self, invocation: Invocation[CommandAgentConfig], session: SessionRecord, done: ProcessResult
    ) -> SessionRecord:
        return with_ending(invocation.config, with_metrics(invocation, session, self.redactor(invocation)), done)

    async def locate(
        self, config: CommandAgentConfig, env: Mapping[str, str], context: AgentExecutionContext | None
    ) -> AgentCli:
        return find_program(config, env, context)


def usual_variables(access: GatewayAccess) -> dict[str, str]:
    """The variables by which most programs find the gateway."""
    return {
        "PROXY_URL": access.url,  # for Thunderdome's adapters
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


def with_ending(config: CommandAgentConfig, session: SessionRecord, done: ProcessResult) -> SessionRecord:
    if done.exit.code != _GAVE_UP or _GAVE_UP in config.success_exit_codes:
        return session
    lines = [line.strip() for line in done.output[-_TAIL:].splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    gave_up = SessionResult(subtype="gave_up", is_error=True, text=last, turns=None, duration_ms=None)
    return session.with_facts(result=gave_up)
