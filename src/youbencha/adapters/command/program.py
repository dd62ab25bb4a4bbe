"""Which program is meant, here or in a container."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from youbencha.adapters.base import AgentExecutionContext
from youbencha.adapters.cli_agent import Cli, Task
from youbencha.adapters.command.config import CommandConfig
from youbencha.adapters.command.kind import COMMAND
from youbencha.errors import YouBenchaError
from youbencha.process import find_executable

_NOT_FOUND = "NOT_FOUND"
_OF_ANY_SYSTEM = tuple(map(Path, ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib")))
"""Whoever names a program there, for a container, means the one that the image has."""


def find_program(config: CommandConfig, env: Mapping[str, str], context: AgentExecutionContext | None) -> Cli[str]:
    version = config.version or ""
    if context is not None and context.sandbox.kind != "local":
        return _in_container(config, context, version)
    path = _shell(env) if config.shell else _program(config.executable or config.words[0], env, context)
    return Cli(path, version)


def beside(task: Task[Any], rest: str) -> str:
    """`{config_dir}` and what follows it, as the program sees it.

    Never all of that directory: what a trial is judged by lies there, too.
    """
    base = task.config_dir or task.workspace
    if task.sandbox.kind == "local" or task.config_dir is None:
        return f"{task.seen(base)}{rest}"
    named = Path(f"{base}{rest}")
    if named == base or not named.resolve().is_relative_to(base.resolve()) or not named.exists():
        hint = "name a file below it, as in {config_dir}/agents/mend.py"
        raise COMMAND.one_problem("args", "{config_dir} itself is not to be seen in a container", hint)
    task.sandbox.share(named)
    return task.seen(named)


def _in_container(config: CommandConfig, context: AgentExecutionContext, version: str) -> Cli[str]:
    """What is a file of this computer is shared, that file alone; any other name is one of the image's."""
    name = "/bin/sh" if config.shell else config.executable or config.words[0]
    written = Path(name).expanduser()
    of_the_image = written.name == name or any(written.is_relative_to(place) for place in _OF_ANY_SYSTEM)
    if of_the_image or (written.is_absolute() and not written.is_file()):
        return Cli(written, version, (name,))
    path = written if written.is_absolute() else _relative(written, context)
    sandbox = context.sandbox
    if not path.is_relative_to(context.workspace_dir.absolute()):
        sandbox.share(path)
    return Cli(path, version, (sandbox.inside(path),), needs=(path,))


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
    return _relative(written, context)


def _relative(written: Path, context: AgentExecutionContext) -> Path:
    places = [place.absolute() for place in (context.config_dir, context.workspace_dir) if place is not None]
    for place in places:
        if (place / written).is_file():
            return place / written
    raise _missing(f"There is no file {written} in {' or '.join(map(str, places))}.")


def _missing(message: str) -> YouBenchaError:
    return COMMAND.error(_NOT_FOUND, message, "Correct agent.config.command, or install the program.")
