"""`${name}` in a script: what it stands for, and where the working directory is found in a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from youbencha.spec.variables import REFERENCE, names_in

__all__ = ["AUTOMATIC", "UnknownVariableError", "names_in", "substitute", "working_directory"]

_WORKING_DIRECTORY = re.compile(
    r"^[ \t]*(?:[-*] )?(?:primary |current )?working directory:[ \t]*(\S.*?)\s*?$"
    r"|^[ \t]*<cwd>(\S.*?)</cwd>[ \t]*$"
    r"|^- \*\*Workspace Directories:\*\*\n[ \t]+- (\S.*?)[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""Claude Code 1.0.x: `<env>\\nWorking directory: /x`; 2.1.x: ` - Primary working directory: /x`; Copilot: `* Current
working directory: /x`; Codex: `<cwd>/x</cwd>`; Gemini: `- **Workspace Directories:**\\n  - /x`. Lines of their own,
because the tools' descriptions speak of working directories too."""

AUTOMATIC = frozenset({"cwd"})
"""Known from the request, if it says so."""


class UnknownVariableError(Exception):
    """A script names a variable that nobody gave."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def substitute(value: Any, variables: Mapping[str, str]) -> Any:
    """The same value with every `${name}` in its texts replaced; `$${name}` stays as `${name}`."""
    if isinstance(value, str):
        return REFERENCE.sub(lambda found: _replacement(found, variables), value)
    if isinstance(value, Mapping):
        return {substitute(key, variables): substitute(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, variables) for item in value]
    return value


def _replacement(found: re.Match[str], variables: Mapping[str, str]) -> str:
    escape, name = found.groups()
    if escape:
        return found.group()[1:]
    if name not in variables:
        raise UnknownVariableError(name)
    return variables[name]


def working_directory(*texts: str) -> str | None:
    """Where the agent says that it works; the first text that says so wins."""
    for text in texts:
        if found := _WORKING_DIRECTORY.search(text):
            return next(group for group in found.groups() if group)
    return None
