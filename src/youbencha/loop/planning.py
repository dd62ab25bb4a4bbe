"""`ralph plan`: a conversation with the agent in its own interactive session. No loop runs, and nothing is metered."""

from __future__ import annotations

import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.loop.backends import (
    AUTO,
    BACKEND_NOT_INSTALLED,
    BACKENDS,
    CUSTOM,
    installed_backends,
    is_path_with_spaces,
    known_backend,
)
from youbencha.process import find_executable
from youbencha.spec.loop import LoopSpec

_PROMPT = "{prompt}"
_DEFAULT_SPECS_DIR = ".ralph/specs"
_INTERACTIVE_ARGS: Mapping[str, tuple[str, ...]] = {
    name: kind.interactive_args for name, kind in BACKENDS.items() if kind.interactive_args
}


def planning_prompt(spec: LoopSpec, idea: str | None) -> str:
    """Return the first message of the session."""
    text = (files("youbencha") / "scaffold/loops/PLAN.md").read_text(encoding="utf-8")
    specs = (spec.core.specs_dir or _DEFAULT_SPECS_DIR).rstrip("/")
    return text.replace("@SPECS@", specs).replace("@IDEA@", (idea or "").strip() or "(I will tell you)")


def interactive_command(
    spec: LoopSpec, env: Mapping[str, str], prompt: str, *, backend: str | None = None, args: Sequence[str] = ()
) -> list[str]:
    """Return the command line of the session.

    Configured arguments are only used for a `custom` program; those of other backends are for unattended sessions.
    """
    cli = spec.cli
    name = backend or cli.backend
    if name == AUTO:
        disabled = {other for other, adapter in spec.adapters.items() if not adapter.enabled}
        unusable = disabled | (BACKENDS.keys() - _INTERACTIVE_ARGS.keys())
        name = next(iter(installed_backends(cli, env, unusable)), "claude")
    is_configured = cli.backend in (name, AUTO)
    if name == CUSTOM:
        if cli.command is None or not is_configured:
            raise YouBenchaError("BACKEND_INCOMPLETE", "The backend `custom` has no command.", hint="Set cli.command.")
        program = [cli.command] if is_path_with_spaces(cli.command) else shlex.split(cli.command)
        if any(_PROMPT in word for word in cli.args):
            return [*program, *(word.replace(_PROMPT, prompt) for word in cli.args), *args]
        flag = [cli.prompt_flag] if cli.prompt_flag else []
        return [*program, *cli.args, *args, *flag, prompt]
    known_backend(name)
    if name not in _INTERACTIVE_ARGS:
        hint = f"Choose another with `-b`: {', '.join(_INTERACTIVE_ARGS)}."
        message = f"{BACKENDS[name].title} cannot start an interactive session with a first message."
        raise YouBenchaError("PLAN_IMPOSSIBLE", message, hint=hint)
    model = ["--model", cli.model] if cli.model and is_configured else []
    words = [prompt if word == _PROMPT else word for word in _INTERACTIVE_ARGS[name]]
    return [*_program(name, cli.command if is_configured else None, env), *model, *args, *words]


def _program(name: str, command: str | None, env: Mapping[str, str]) -> list[str]:
    from youbencha.sandbox.toolbox.toolbox import Toolbox  # takes 30 ms to import
    from youbencha.user_dirs import toolbox_dir

    kind = BACKENDS[name]
    if command is not None and Path(command).name != command:
        return [str(Path(command).expanduser().absolute())]
    if found := find_executable(command or kind.program, env):
        return [str(found)]
    if installed := Toolbox(toolbox_dir(env)).find(kind.agent_type):
        return [*(installed.command or (str(installed.executable),))]
    message = f"The backend {name!r} is not installed: there is no {kind.program} on PATH or in the toolbox."
    raise YouBenchaError(BACKEND_NOT_INSTALLED, message, hint="`ralph doctor` shows what is installed.")


def run_in_terminal(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a program in the user's terminal until it ends, and return its exit code. Ctrl-C only reaches the program."""
    before = signal.signal(signal.SIGINT, lambda *_: None)  # unlike SIG_IGN, this is not inherited by the program
    try:
        code = subprocess.run(command, env=env, check=False).returncode
    except OSError as error:
        raise YouBenchaError(BACKEND_NOT_INSTALLED, f"{command[0]} cannot be started: {error.strerror}.") from None
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code
