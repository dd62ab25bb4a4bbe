"""What is wrong with a configuration whose parts are each right."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator

from youbencha.errors import Problem
from youbencha.evaluators.command.config import CommandConfig
from youbencha.evaluators.command.environment import missing_references
from youbencha.text import did_you_mean

_OWN = ("exit_code", "duration_ms", "timed_out", "signal", "output_tail", "output_truncated", "junit_error")
_OWN_NUMBERS = ("exit_code", "duration_ms")
_JUNIT = ("tests", "failures", "errors", "skipped", "pass_rate")
_SHELL_WORDS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "2>", "2>&1", "&>"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def contradictions(config: CommandConfig) -> Iterator[Problem]:
    yield from _about_command(config)
    yield from missing_references(os.environ, config.env)
    for name in config.metrics:
        if name in _OWN or (config.junit and name in _JUNIT):
            yield Problem(f"metrics.{name}", "has a meaning of its own", "choose another name")
    for name in config.assertions:
        yield from _about_assertion(config, name)


def _about_command(config: CommandConfig) -> Iterator[Problem]:
    if isinstance(config.command, tuple):
        if config.shell:
            yield Problem("command", "must be one line of text if `shell` is true")
        return
    if config.shell:
        return
    try:
        words = shlex.split(config.command)
    except ValueError as error:
        yield Problem("command", f"cannot be split into words: {str(error).lower()}")
        return
    operators = [word for word in words if word in _SHELL_WORDS or word.endswith(";")]
    if operators:
        hint = "add `shell: true`; or write a list of words if it is meant as it stands"
        yield Problem("command", f"{operators[0]!r} means something only to a shell", hint)
    elif not words or not words[0]:
        yield Problem("command", "must name a program")
    elif _ASSIGNMENT.match(words[0]):
        yield Problem("command", "must begin with a program", "variables go into `env`")


def _about_assertion(config: CommandConfig, name: str) -> Iterator[Problem]:
    where = f"assertions.{name}"
    end, _, metric = name.partition("_")
    known = list(_numbers(config))
    if end in ("min", "max") and metric in known:
        if end == "min" and config.assertions[name] > config.assertions.get(f"max_{metric}", float("inf")):
            yield Problem(where, f"must not be more than max_{metric}: nothing could pass")
    elif end in ("min", "max") and metric in _JUNIT:
        yield Problem(where, f"needs `junit`, which gives {metric}")
    else:
        choices = [f"{which}_{each}" for each in known for which in ("min", "max")]
        hint = did_you_mean(name, choices) or f"known: {', '.join(choices)}"
        yield Problem(where, "there is nothing to hold it against", hint)


def _numbers(config: CommandConfig) -> Iterator[str]:
    yield from _OWN_NUMBERS
    if config.junit:
        yield from _JUNIT
    yield from (name for name, metric in config.metrics.items() if metric.type != "string")
