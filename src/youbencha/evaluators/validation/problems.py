"""Say why a task cannot be validated, from what its commands printed. Pure functions."""

from __future__ import annotations

import re

from youbencha.evaluators.validation.config import ValidationConfig
from youbencha.evaluators.validation.steps import StepResult
from youbencha.text import one_line, visible

_NOT_FOUND = (126, 127)
"""A shell's exit codes for a program that cannot be run."""

_MAX_LINE_CHARS = 200
_MAX_COMMAND_CHARS = 80
_PYTHON_RUNNERS = "pytest|unittest|nose2?|tox|nox|coverage|behave|robot|stestr|twisted|ward"
_MISSING_RUNNERS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"py\w*[\d.]*: No module named ({_PYTHON_RUNNERS})\b",
        r"^npm (ERR!|error) Missing script: ",
        r"^npm (ERR!|error) could not determine executable to run",
        r"^error: no such command: ",  # cargo
    )
)
"""Lines about a test runner that is not there. The exit code is then any: 1 for Python and npm, 101 for cargo."""

_DECISIVE = (
    *_MISSING_RUNNERS,
    re.compile(r"(?i)no module named|command not found|: not found|no such file|permission denied|missing script"),
    re.compile(r"(?i)\b(error|fatal|cannot|failed)\b"),
)
"""What the line that explains a failure looks like, the clearest signs first."""


def why_not_runnable(config: ValidationConfig, install: StepResult | None, tests: StepResult, tree: str) -> str | None:
    """Why the tests of `tree` cannot be run, with the line of the log that explains it. None if they can."""
    if install is not None and not install.succeeded:
        return f"{quote_command(config.install_cmd)} fails for {tree}: {_explained(install)}"
    is_missing = tests.exit_code in _NOT_FOUND or _find(tests.printed, _MISSING_RUNNERS) is not None
    if is_missing and not tests.succeeded:
        return f"{quote_command(config.test_cmd)} cannot be run for {tree}: {_explained(tests)}"
    return None


def quote_command(command: str | None) -> str:
    """Quote a command for a message, shortened: it may be a whole script."""
    return f"`{one_line(command or '', _MAX_COMMAND_CHARS)}`"


def _explained(step: StepResult) -> str:
    line = decisive_line(step.printed)
    return f'{step.failure}, after "{line}"' if line else step.failure


def decisive_line(printed: str) -> str | None:
    """The line that explains best why a command failed; None if it printed nothing."""
    lines = _lines(printed)
    return _find(printed, _DECISIVE) or (one_line(lines[-1], _MAX_LINE_CHARS) if lines else None)


def _find(printed: str, patterns: tuple[re.Pattern[str], ...]) -> str | None:
    lines = _lines(printed)
    for pattern in patterns:
        for line in reversed(lines):
            if pattern.search(line):
                return one_line(line, _MAX_LINE_CHARS)
    return None


def _lines(printed: str) -> list[str]:
    return [line for text in printed.splitlines() if (line := visible(text).strip())]
