"""The codes by which programs tell this adapter's errors apart."""

from __future__ import annotations

from collections.abc import Sequence

from youbencha.errors import ConfigError, Problem, YouBenchaError

CLI_NOT_FOUND = "CLAUDE_CLI_NOT_FOUND"
AUTH_FAILED = "CLAUDE_AUTH_FAILED"
TIMEOUT = "CLAUDE_TIMEOUT"
RATE_LIMIT = "CLAUDE_RATE_LIMIT"
OUTPUT_TRUNCATED = "CLAUDE_OUTPUT_TRUNCATED"
INVALID_CONFIG = "CLAUDE_INVALID_CONFIG"
ROOT_REFUSED = "CLAUDE_ROOT_REFUSED"

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
