"""Find out whether a command failed because a program or a module that it names is not installed.

That is no verdict on the agent. What a command prints, and its exit code, only raise the question, because an agent's
code can print anything and end in any way. The answer comes from the system.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Awaitable, Callable, Collection

from youbencha.evaluators.command_config import CommandEvaluatorConfig
from youbencha.process import ProcessResult

_FIND_PROGRAM = 'command -v "$1"'
_FIND_MODULE = '"$1" -c "import importlib.util as u, sys; sys.exit(u.find_spec(sys.argv[1]) is None)" "$2"'
_NOT_STARTED = (126, 127)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_MODULE = re.compile(r"(\S*python[\d.]*) +-m +(\w+)")
_PROGRAM = re.compile(r"(?:^|[;&|(\n]) *(?:\w+=\S* +)*([\w.+-]+)(?=[\s;&|)]|$)")
"""The first word of each command in a line, unless it is a path."""


async def missing_program(
    config: CommandEvaluatorConfig,
    result: ProcessResult,
    probe: Callable[..., Awaitable[int | None]],
    touched: Collection[str],
) -> str | None:
    """What is certainly not installed, of what the command names.

    `probe` runs a line of the shell with arguments where the command ran, and returns the exit code.
    """
    if sys.platform == "win32":
        return None
    line = _QUOTED.sub("''", str(config.command)) if config.shell else shlex.join(config.words())
    if result.exit.code == 1:
        for program, module in _MODULE.findall(line):
            is_named = re.search(rf"No module named '?{module}\b", result.output)
            if is_named and module not in touched and await probe(_FIND_MODULE, program, module) == 1:
                return f"{program} has no module {module}"
    if config.shell and result.exit.code in _NOT_STARTED:
        for program in _PROGRAM.findall(line):
            if program not in touched and await probe(_FIND_PROGRAM, program) not in (0, None):
                return f"{program} is not on PATH"
    return None
