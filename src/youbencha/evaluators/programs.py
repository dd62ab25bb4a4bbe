"""Environment and command lines of the programs that evaluators run: commands, and the steps of a validation."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.base import EvaluationContext
from youbencha.process import find_executable
from youbencha.process.environment import CERTIFICATES, PROXY, SYSTEM, TOOLS, has_password, select, withheld
from youbencha.sandbox.base import Sandbox

_INHERITED = SYSTEM | TOOLS | PROXY | CERTIFICATES | {"NUMBER_OF_PROCESSORS"}
"""The variables that the program inherits. It runs the agent's code, so none of them may be secret."""

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def command_environment(
    base: Mapping[str, str], configured: Mapping[str, str], harness: Mapping[str, str]
) -> dict[str, str]:
    """Return what may be inherited of `base`, without passwords of proxies, overridden by the configured variables.

    These may refer to variables of the harness, which must be set.
    """
    selected = select(base, _INHERITED, locale=True)
    inherited = {name: value for name, value in selected.items() if not has_password(name, value)}
    resolved = {name: _REFERENCE.sub(lambda match: harness[match[1]], value) for name, value in configured.items()}
    return inherited | resolved


def program_environment(context: EvaluationContext, sandbox: Sandbox, configured: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an evaluator's program: the variables that it may inherit, and the configured ones."""
    harness = context.harness_env
    if context.shell_env is not None and sandbox.kind == "local":
        return {**sandbox.environment(context.shell_env), **command_environment({}, configured, harness)}
    return command_environment(sandbox.environment(harness), configured, harness)


def log_withheld_variables(log: Path, env: Mapping[str, str], harness: Mapping[str, str], sandbox: Sandbox) -> None:
    """Append to the log of a failed program which of the user's variables it did not get: it may have needed one."""
    names = withheld(env, harness) if sandbox.kind == "local" else []
    if names:
        with suppress(OSError), log.open("a", encoding="utf-8") as file:
            file.write(f"\n[youbencha] not inherited from your environment: {', '.join(names)}\n")


def missing_references(env: Any, harness: Mapping[str, str]) -> Iterator[Problem]:
    """Find references in the configuration's `env`, which need not be valid, to variables that are not set."""
    for name, value in env.items() if isinstance(env, Mapping) else ():
        for reference in _REFERENCE.findall(value) if isinstance(value, str) else ():
            if reference not in harness:
                hint = "set it in the environment, or under `variables` in your settings"
                yield Problem(("env", name), f"refers to {reference}, which is not set", hint)


def shell_argv(line: str, args: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command line that runs a line in the host's shell."""
    if sys.platform == "win32":
        return str(find_program("cmd", env)), "/d", "/s", "/c", line, *args
    return str(find_program("sh", env)), "-c", line, "sh", *args


def find_program(program: str, env: Mapping[str, str]) -> Path:
    path = find_executable(program, env)
    if path is None:
        raise program_not_found(program, "it is not on PATH")
    return path


def program_not_found(program: str, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "COMMAND_NOT_FOUND",
        f"Cannot run {program}: {reason}.",
        hint="Install it, fix the name, or set PATH under `env`. For a program in the tree, write ./NAME.",
    )
