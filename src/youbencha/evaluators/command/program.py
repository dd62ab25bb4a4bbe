"""What exactly is run, and where."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.evaluators.command.config import CommandConfig
from youbencha.process import find_executable
from youbencha.sandbox.base import Sandbox


class NotThere(Exception):
    """Something that the command needs is not in the tree: the agent's doing, and a verdict."""


def working_directory(config: CommandConfig, tree: Path) -> Path:
    root = tree.resolve()
    directory = (root / (config.working_dir or ".")).resolve()
    if not directory.is_relative_to(root):
        raise NotThere(f"{config.working_dir} leads out of the tree")
    if not directory.is_dir():
        raise NotThere(f"there is no directory {config.working_dir} in the tree")
    return directory


def arguments(config: CommandConfig, directory: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """The program by its full path, and what it is given."""
    if config.shell:
        assert isinstance(config.command, str)
        return _shell(config.command, config.args, env)
    program, *rest = config.words()
    if Path(program).name == program:
        return str(_on_path(program, env)), *rest
    path = directory / program
    if not path.is_file():
        if Path(program).is_absolute():
            raise _not_found(program, "there is no such file")
        raise NotThere(f"there is no {program} in the tree")
    if sys.platform != "win32" and not os.access(path, os.X_OK):
        raise NotThere(f"{program} is not executable")
    return str(path), *rest


def arguments_inside(config: CommandConfig, directory: Path, sandbox: Sandbox) -> tuple[str, ...]:
    """As `arguments`, for a place that is not this system: what has no slash in it is looked for there."""
    if config.shell:
        assert isinstance(config.command, str)
        return "sh", "-c", config.command, "sh", *config.args
    program, *rest = config.words()
    if "/" not in program or Path(program).is_absolute():
        return program, *rest
    if not (directory / program).is_file():
        raise NotThere(f"there is no {program} in the tree")
    return sandbox.inside(directory / program), *rest


def _shell(line: str, args: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    if sys.platform == "win32":
        return str(_on_path("cmd", env)), "/d", "/s", "/c", line, *args
    return str(_on_path("sh", env)), "-c", line, "sh", *args


def _on_path(program: str, env: Mapping[str, str]) -> Path:
    found = find_executable(program, env)
    if found is None:
        raise _not_found(program, "it is not on PATH")
    return found


def _not_found(program: str, why: str) -> YouBenchaError:
    return YouBenchaError(
        "COMMAND_NOT_FOUND",
        f"Cannot run {program}: {why}.",
        hint="Install it, mend the name, or set PATH under `env`. A program of the tree is named with a slash: ./NAME.",
    )
