"""From configuration to command line. Never interprets a prompt: it is one argument, a file, or standard input."""

from __future__ import annotations

import os
import re
from pathlib import Path

from youbencha.adapters.cli_agent import Task, fits_argument
from youbencha.adapters.command.config import CommandConfig
from youbencha.adapters.command.kind import COMMAND
from youbencha.adapters.command.metrics import METRICS_VARIABLE, look_before, metrics_file
from youbencha.adapters.command.program import beside
from youbencha.errors import ConfigError
from youbencha.process import Command

_PLACEHOLDER = re.compile(r"\{(prompt|prompt_file|model|agent_name|workspace)\}|\{config_dir\}(\S*)")
_OF_THE_PROMPT = re.compile(r"\{prompt(_file)?\}")
PROMPT_VARIABLE = "YOUBENCHA_PROMPT"


def command_for(task: Task[CommandConfig]) -> Command:
    config, prompt_file = task.config, task.scratch / "prompt.md"
    if task.prompt:
        prompt_file.write_bytes(task.prompt.encode())
    look_before(task)
    return Command(
        argv=_shell_line(task) if config.shell else _argv(task, prompt_file),
        cwd=task.workspace,
        env={**_variables(task, prompt_file), **task.env},
        stdin=task.prompt.encode() if config.prompt_by == "stdin" and task.prompt else None,
    )


def _argv(task: Task[CommandConfig], prompt_file: Path) -> tuple[str, ...]:
    values = {
        "prompt": task.prompt,
        "prompt_file": task.seen(prompt_file) if task.prompt else "",
        "model": task.config.model or "",
        "agent_name": task.config.agent_name or "",
        "workspace": task.seen(task.workspace),
    }
    written = task.config.words[1:]
    # In one pass: what a prompt holds in braces is not looked at again.
    words = [
        _PLACEHOLDER.sub(lambda found: values[found[1]] if found[1] else beside(task, found[2]), word)
        for word in written
    ]
    if task.prompt and task.config.prompt_by == "argument" and not any(map(_OF_THE_PROMPT.search, written)):
        words.append(task.prompt)
    return (*task.cli.argv, *_fitting(words))


def _shell_line(task: Task[CommandConfig]) -> tuple[str, ...]:
    assert isinstance(task.config.command, str)  # the configuration sees to it
    rest = [*task.config.args, *task.config.extra_args]
    if task.prompt and task.config.prompt_by == "argument":
        rest.insert(0, task.prompt)
    if os.name == "nt":
        return (*task.cli.argv, "/d", "/s", "/c", task.config.command)
    return (*task.cli.argv, "-c", task.config.command, "sh", *_fitting(rest))


def _fitting(words: list[str]) -> list[str]:
    if not all(map(fits_argument, words)):
        raise _too_long("an argument cannot hold this prompt")
    return words


def _variables(task: Task[CommandConfig], prompt_file: Path) -> dict[str, str]:
    """What the program is told beside its arguments; the first two are those of Thunderdome's adapters."""
    told = {"TASK_DIR": task.seen(task.workspace), METRICS_VARIABLE: task.seen(metrics_file(task))}
    if task.prompt:
        told["TASK_DESCRIPTION"] = task.seen(prompt_file)
    if task.config.model:
        told["YOUBENCHA_MODEL"] = task.config.model
    if task.config.agent_name:
        told["YOUBENCHA_AGENT_NAME"] = task.config.agent_name
    if task.prompt and task.config.prompt_by == "environment":
        if not fits_argument(f"{PROMPT_VARIABLE}={task.prompt}"):
            raise _too_long("an environment variable cannot hold this prompt")
        told[PROMPT_VARIABLE] = task.prompt
    return told


def _too_long(message: str) -> ConfigError:
    return COMMAND.one_problem("prompt_by", message, "use stdin or file")
