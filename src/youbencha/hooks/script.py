"""The script hook: run the user's program with a deadline, and without a shell unless `shell` is set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.hooks.context import HookContext, HookFailed, HookOutcome
from youbencha.process import Command, Limits, ProcessResult, find_executable, run
from youbencha.spec import ScriptConfig

_TAIL_CHARACTERS = 2000
_NAME_CHARACTERS = 80
NO_PROGRAM_HINT = "A path with a slash (./setup.sh) is relative to the test case; a bare name is searched on PATH."
SEVERAL_WORDS_HINT = "`command` is one program: put its arguments into `args`, or write `shell: true`."


async def run_script(config: ScriptConfig, context: HookContext, log_name: str) -> HookOutcome:
    """Run a script. Its output goes to `hooks/LOG_NAME` in the artifacts."""
    env = context.environment()
    cwd = _working_dir(config, context)
    argv = _shell_argv(config, context) if config.shell else _argv(config, context)
    log = f"hooks/{log_name}"
    log_file = context.artifacts_dir / log
    log_file.unlink(missing_ok=True)  # of an earlier attempt with the same artifacts
    redactor = context.redactor.with_env(env)
    limits = Limits(timeout_s=config.timeout_ms / 1000)
    result = await run(Command(argv=argv, cwd=cwd, env=env), limits=limits, redactor=redactor, log_file=log_file)
    name = redactor.text(_shortened(config.command))
    metadata = {"command": name, "log": log, **_metadata(result)}
    if result.exit.code == 0 and not result.timed_out:
        return HookOutcome(message=f"{name} succeeded{_leftovers(result)}", metadata=metadata)
    raise HookFailed(
        "HOOK_TIMEOUT" if result.timed_out else "HOOK_SCRIPT_FAILED",
        f"{name} {_reason(config, result)}{_leftovers(result)}",
        hint="Give it more time with `timeout_ms`." if result.timed_out else f"Its output is in {log}.",
        metadata=metadata,
    )


def _working_dir(config: ScriptConfig, context: HookContext) -> Path:
    if config.working_dir is None:
        return context.working_dir.absolute()
    cwd = context.path(context.exact(config.working_dir, "working_dir"), start=context.working_dir)
    if not cwd.is_dir():
        raise YouBenchaError("HOOK_CONFIG_INVALID", f"working_dir: there is no directory {cwd}")
    return cwd


def _argv(config: ScriptConfig, context: HookContext) -> tuple[str, ...]:
    program = context.exact(config.command, "command")
    arguments = tuple(context.lenient(argument) for argument in config.args)
    if is_path(program):
        path = context.path(program)
        if not path.is_file():
            raise _no_program(config, f"there is no file {path}")
        return (str(path), *arguments)
    found = find_executable(program, context.environment())
    if found is None:
        raise _no_program(config, f"{program} is not on PATH")
    return (str(found), *arguments)


def _no_program(config: ScriptConfig, reason: str) -> YouBenchaError:
    hint = SEVERAL_WORDS_HINT if len(config.command.split()) > 1 else NO_PROGRAM_HINT
    return YouBenchaError("HOOK_PROGRAM_NOT_FOUND", f"cannot run the script: {reason}", hint=hint)


def _shell_argv(config: ScriptConfig, context: HookContext, *, platform: str = sys.platform) -> tuple[str, ...]:
    """The arguments for a shell. Variables are not substituted in its line, where a quote in a path would be syntax:
    the shell finds them in its environment."""
    arguments = tuple(context.lenient(argument) for argument in config.args)
    if platform == "win32":
        shell = context.env.get("COMSPEC", r"C:\Windows\System32\cmd.exe")
        return (shell, "/d", "/c", config.command, *arguments)
    return ("/bin/sh", "-c", config.command, "sh", *arguments)


def _reason(config: ScriptConfig, result: ProcessResult) -> str:
    if result.timed_out:
        return f"took longer than {config.timeout_ms:,} ms and was ended"
    if result.exit.code is not None:
        return f"failed with exit code {result.exit.code}"
    return f"was ended by {result.exit.signal or 'an unknown signal'}"


def _leftovers(result: ProcessResult) -> str:
    if not result.exit.leftovers or result.timed_out:
        return ""
    return f"; still running, and ended with it: {', '.join(result.exit.leftovers)}"


def _metadata(result: ProcessResult) -> dict[str, Any]:
    return {
        "exit_code": result.exit.code,
        "signal": result.exit.signal,
        "timed_out": result.timed_out,
        "output_tail": result.output[-_TAIL_CHARACTERS:],
    }


def _shortened(command: str) -> str:
    """The first line, shortened: a line for a shell may be a whole program."""
    first, *more = command.splitlines()
    return first[:_NAME_CHARACTERS] + "…" if more or len(first) > _NAME_CHARACTERS else first


def is_path(program: str) -> bool:
    """Return whether a `command` is a path rather than a name on PATH."""
    return program.startswith("~") or Path(program).name != program
