"""`${name}` in a script: what it stands for, and where the working directory is found in a request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_REFERENCE = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")

_WORKING_DIRECTORY = re.compile(
    r"^[ \t]*(?:- )?(?:primary |current )?working directory:[ \t]*(\S.*?)\s*?$", re.IGNORECASE | re.MULTILINE
)
"""1.0.x: `<env>\\nWorking directory: /x`; 2.1.x: ` - Primary working directory: /x`. A line of its own, because
the tools' descriptions speak of working directories too."""

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
        return _REFERENCE.sub(lambda found: _replacement(found, variables), value)
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


def names_in(value: Any) -> Iterator[str]:
    """Every variable that a value refers to."""
    if isinstance(value, str):
        yield from (name for escape, name in _REFERENCE.findall(value) if not escape)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from names_in(key)
            yield from names_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from names_in(item)


def working_directory(*texts: str) -> str | None:
    """Where the agent says that it works; the first text that says so wins."""
    for text in texts:
        if found := _WORKING_DIRECTORY.search(text):
            return found.group(1)
    return None
