"""What tells one agent from another in messages, error codes and files. Everything else here is the same for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from youbencha.adapters.cli_agent import codes
from youbencha.errors import ConfigError, Problem, YouBenchaError


class Kind(NamedTuple):
    name: str
    """As `agent.type` has it: `copilot-cli`."""
    title: str
    """As people call it: `Copilot CLI`."""
    prefix: str
    """Of its error codes: `COPILOT`."""
    command: str
    """What the program is called on PATH."""
    logs: str
    """Where in the artifacts its terminal output is kept."""
    provider: str = "unknown"
    """Who made its models, where that is always the same."""
    how_to_authenticate: str = "Log in as its documentation says, or set its API key in agent.env."

    def code(self, suffix: str) -> str:
        return f"{self.prefix}_{suffix}"

    def error(self, suffix: str, message: str, hint: str | None = None) -> YouBenchaError:
        return YouBenchaError(self.code(suffix), message, hint=hint)

    def auth_failed(self, reason: str) -> YouBenchaError:
        message = f"{self.title} has no valid authentication: {reason}"
        return self.error(codes.AUTH_FAILED, message, self.how_to_authenticate)

    def no_gateway(self) -> YouBenchaError:
        message = f"{self.title} cannot be told to reach its model through a gateway."
        return self.error(codes.NO_GATEWAY, message, "Write `gateway: none`, and give the agent its own key.")

    def invalid_config(self, problems: Sequence[Problem]) -> ConfigError:
        return ConfigError(self.code(codes.INVALID_CONFIG), f"The {self.title} configuration", problems)

    def one_problem(self, path: str, message: str, hint: str | None = None) -> ConfigError:
        return self.invalid_config([Problem(path, message, hint)])
