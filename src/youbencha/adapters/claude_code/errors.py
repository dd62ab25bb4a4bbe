"""What keeps Claude Code from being started, as exceptions."""

from __future__ import annotations

from collections.abc import Sequence

from youbencha.adapters.claude_code.codes import AUTH_FAILED, CLI_NOT_FOUND, INVALID_CONFIG
from youbencha.errors import ConfigError, Problem, YouBenchaError

HOW_TO_AUTHENTICATE = (
    "Set ANTHROPIC_API_KEY (in agent.env or your environment), or log in once: run `claude` and type /login "
    "(newer versions: `claude auth login`)."
)


def cli_not_found(message: str, hint: str) -> YouBenchaError:
    return YouBenchaError(CLI_NOT_FOUND, message, hint=hint)


def auth_failed(reason: str) -> YouBenchaError:
    return YouBenchaError(AUTH_FAILED, f"Claude Code has no valid authentication: {reason}", hint=HOW_TO_AUTHENTICATE)


def invalid_config(problems: Sequence[Problem]) -> ConfigError:
    return ConfigError(INVALID_CONFIG, "The Claude Code configuration", problems)


def one_problem(path: str, message: str, hint: str | None = None) -> ConfigError:
    return invalid_config([Problem(path, message, hint)])
