"""CommandAdapter: the contract of `adapters/base.py` for any program.

It stands on the shortest path that there is from a test case to a result, so it imports little and asks nothing: no
toolbox, no `--version`, no events.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.adapters.base import AgentExecutionContext
from youbencha.adapters.cli_agent import Cli, CliAdapter, Kind, SessionFacts, Task
from youbencha.adapters.command.config import CommandConfig
from youbencha.adapters.command.metrics import with_metrics
from youbencha.adapters.command.words import command_for
from youbencha.errors import YouBenchaError
from youbencha.gateway.access import GatewayAccess
from youbencha.process import Command, ProcessResult, find_executable

if TYPE_CHECKING:
    from youbencha.adapters.cli_agent import StreamReader
    from youbencha.gateway.routes import Provider

COMMAND = Kind(name="command", title="The command", prefix="COMMAND", command="", logs="command-logs")
_NOT_FOUND = "NOT_FOUND"


class CommandAdapter(CliAdapter[CommandConfig]):
    """Runs a program; its exit code decides, its output is its answer."""

    kind = COMMAND
    config_model = CommandConfig
    writes_events = False

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
        return with_metrics(task, facts)

    async def locate(
        self, config: CommandConfig, env: Mapping[str, str], context: AgentExecutionContext | None
    ) -> Cli[str]:
        path = _shell(env) if config.shell else _program(config.executable or config.words[0], env, context)
        return Cli(path, config.version or "")


def _shell(env: Mapping[str, str]) -> Path:
    if os.name != "nt":
        return Path("/bin/sh")
    return find_executable("cmd.exe", env) or Path("cmd.exe")


def _program(name: str, env: Mapping[str, str], context: AgentExecutionContext | None) -> Path:
    """By its name on PATH; a path beside the file that names it, or else in the workspace."""
    written = Path(name).expanduser()
    if written.name == name:
        found = find_executable(name, env)
        if found is None:
            raise _missing(f"There is no program {name!r} on PATH.")
        return found
    if written.is_absolute() or context is None:
        # What is relative may come with the repository, which is not here before the run.
        if written.is_absolute() and not written.is_file():
            raise _missing(f"There is no file {written}.")
        return written
    places = [place.absolute() for place in (context.config_dir, context.workspace_dir) if place is not None]
    for place in places:
        if (place / written).is_file():
            return place / written
    raise _missing(f"There is no file {name} in {' or '.join(map(str, places))}.")


def _missing(message: str) -> YouBenchaError:
    return COMMAND.error(_NOT_FOUND, message, "Correct agent.config.command, or install the program.")
