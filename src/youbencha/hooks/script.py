"""The script hook: run the user's program, or the user's line for a shell, with a deadline.

The line is the user's own text: no value, and nothing that an agent wrote, is ever put into it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.hooks.context import HookContext, HookOutcome
from youbencha.process import Command, Limits, ProcessResult, find_executable, run
from youbencha.spec.testcase import ScriptConfig
from youbencha.text import shorten

_MAX_TAIL_CHARS = 2000
_MAX_NAME_CHARS = 80
_NOT_ONE_WORD = re.compile(r"[\s|&;<>()`]")
NO_PROGRAM_HINT = "A path with a slash (./setup.sh) is relative to the test case; a bare name is searched on PATH."


async def run_script(config: ScriptConfig, context: HookContext, log_name: str) -> HookOutcome:
    """Run a script. Its output goes to `hooks/LOG_NAME` in the artifacts."""
    env = context.environment()
    cwd = _working_dir(config, context)
    argv = _argv(config, context)
    log = f"hooks/{log_name}"
    log_file = context.artifacts_dir / log
    log_file.unlink(missing_ok=True)  # of an earlier attempt with the same artifacts
    redactor = context.redactor.with_env(env)
    limits = Limits(timeout_s=config.timeout_s)
    result = await run(Command(argv=argv, cwd=cwd, env=env), limits=limits, redactor=redactor, log_file=log_file)
    name = redactor.text(_shortened(config.command))
    metadata = {"command": name, "log": log, **_metadata(result)}
    if result.exit.code == 0 and not result.timed_out:
        return HookOutcome(message=f"{name} succeeded{_leftovers(result)}", metadata=metadata)
    return HookOutcome(
        message=f"{name} {_reason(config, result)}{_leftovers(result)}",
        metadata=metadata,
        error="HOOK_TIMEOUT" if result.timed_out else "HOOK_SCRIPT_FAILED",
        hint="Give it more time with `timeout_ms`." if result.timed_out else f"Its output is in {log}.",
    )


def _working_dir(config: ScriptConfig, context: HookContext) -> Path:
    if config.working_dir is None:
        return context.working_dir.absolute()
    cwd = context.path(context.exact(config.working_dir, "working_dir"), start=context.working_dir)
    if not cwd.is_dir():
        raise YouBenchaError("HOOK_CONFIG_INVALID", f"There is no directory {cwd}, which is `working_dir`.")
    return cwd


def _argv(config: ScriptConfig, context: HookContext) -> tuple[str, ...]:
    arguments = tuple(context.lenient(argument) for argument in config.args)
    may_be_line, starts = "shell" not in config.model_fields_set, (context.config_dir, context.working_dir, Path.cwd())
    if config.shell or (may_be_line and is_shell_line(config.command, starts)):
        return _shell_argv(config, context, arguments, may_be_line=may_be_line)
    program = context.exact(config.command, "command")
    if is_path(program):
        path = next(filter(Path.is_file, (context.path(program, start=start) for start in starts)), None)
        if path is None:
            raise _no_program(f"there is no file {context.path(program)}")
        return (str(path), *arguments)
    found = find_executable(program, context.environment())
    if found is None:
        raise _no_program(f"{program} is not on PATH")
    return (str(found), *arguments)


def _no_program(reason: str) -> YouBenchaError:
    return YouBenchaError("HOOK_PROGRAM_NOT_FOUND", f"Cannot run the script: {reason}", hint=NO_PROGRAM_HINT)


def is_shell_line(command: str, starts: Iterable[Path]) -> bool:
    """Whether a hook without `shell` is a line for a shell: `npm install`, but not a file with a space in its name."""
    return _NOT_ONE_WORD.search(command) is not None and not any(is_file(start, command) for start in starts)


def _shell_argv(
    config: ScriptConfig, context: HookContext, arguments: tuple[str, ...], *, may_be_line: bool
) -> tuple[str, ...]:
    """The arguments for a shell. Variables are not substituted in its line, where a quote in a path would be syntax:
    the shell finds them in its environment."""
    line = config.command
    if sys.platform == "win32":
        shell = context.env.get("COMSPEC", r"C:\Windows\System32\cmd.exe")
        return (shell, "/d", "/c", line, *arguments)
    if may_be_line and arguments:
        line += ' "$@"'
    return ("/bin/sh", "-c", line, "sh", *arguments)


def _reason(config: ScriptConfig, result: ProcessResult) -> str:
    if result.timed_out:
        return f"took longer than {config.timeout_ms:,} ms and was killed"
    if result.exit.code is not None:
        return f"failed with exit code {result.exit.code}"
    return f"was killed by {result.exit.signal or 'an unknown signal'}"


def _leftovers(result: ProcessResult) -> str:
    if not result.exit.leftovers or result.timed_out:
        return ""
    return f"; still running, and killed with it: {', '.join(result.exit.leftovers)}"


def _metadata(result: ProcessResult) -> dict[str, Any]:
    return {
        "exit_code": result.exit.code,
        "signal": result.exit.signal,
        "timed_out": result.timed_out,
        "output_tail": result.last_output[-_MAX_TAIL_CHARS:],
    }


def _shortened(command: str) -> str:
    """The first line, shortened: a line for a shell may be a whole program."""
    first, *more = command.splitlines()
    return shorten(f"{first} …" if more else first, _MAX_NAME_CHARS)


def is_file(start: Path, name: str) -> bool:
    """Whether there is a file of this name, relative to `start`."""
    try:
        return (start / Path(name.strip()).expanduser()).is_file()
    except (OSError, ValueError, RuntimeError):  # the name is too long, has a NUL, or `~` of an unknown user
        return False


def is_path(program: str) -> bool:
    """Return whether a `command` is a path rather than a name on PATH."""
    return program.startswith("~") or Path(program).name != program
