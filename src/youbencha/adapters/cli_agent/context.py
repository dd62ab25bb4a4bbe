"""Whether what the engine hands over can be used at all."""

from __future__ import annotations

from collections.abc import Iterator

from youbencha.adapters.base import AgentExecutionContext
from youbencha.adapters.cli_agent.kind import Kind
from youbencha.errors import Problem


def check_context(kind: Kind, context: AgentExecutionContext) -> None:
    """Raise one ConfigError with every problem."""
    if problems := [*_timeout(context.timeout), *_environment(context), *_workspace(context)]:
        raise kind.invalid_config(problems)


def _timeout(timeout: object) -> Iterator[Problem]:
    if isinstance(timeout, bool) or not isinstance(timeout, int):
        yield Problem("timeout", "must be a whole number of milliseconds", "0 means none")
    elif timeout < 0:
        yield Problem("timeout", "must be at least 0", "0 means none")


def _environment(context: AgentExecutionContext) -> Iterator[Problem]:
    for name, value in context.env.items():
        where = f"env.{name}"
        if not isinstance(name, str) or not name or set(name) & {"=", "\0"}:
            yield Problem(where, "is no name for an environment variable")
        elif not isinstance(value, str):
            yield Problem(where, "must be text", "put it in quotes")
        elif "\0" in value:
            yield Problem(where, "contains a NUL character, which no environment can hold")


def _workspace(context: AgentExecutionContext) -> Iterator[Problem]:
    if not context.workspace_dir.is_dir():
        yield Problem("workspace_dir", f"there is no directory {context.workspace_dir}")
