"""Substitute `${NAME}` in data. `$${NAME}` is the literal text `${NAME}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

REFERENCE = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")
Step = str | int
OnUndefined = Callable[[tuple[Step, ...], str], None]
"""A callback for the path and the name of each undefined variable."""


def substitute_tree(
    value: Any, variables: Mapping[str, Any], on_undefined: OnUndefined, *, path: tuple[Step, ...] = ()
) -> Any:
    """Replace every defined `${NAME}` in the texts of a tree; an undefined one stays unchanged.

    A text that is only a reference becomes the variable's value: a number stays a number.
    """
    if isinstance(value, str):
        return _substitute_text(value, variables, lambda name: on_undefined(path, name)) if "${" in value else value
    if isinstance(value, Mapping):
        return {key: substitute_tree(item, variables, on_undefined, path=(*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute_tree(item, variables, on_undefined, path=(*path, at)) for at, item in enumerate(value)]
    return value


def _substitute_text(text: str, variables: Mapping[str, Any], on_undefined: Callable[[str], None]) -> Any:
    whole = REFERENCE.fullmatch(text)
    if whole and not whole[1] and whole[2] in variables:
        return variables[whole[2]]

    def replace(match: re.Match[str]) -> str:
        escape, name = match.groups()
        if escape:
            return match.group()[1:]
        if name not in variables:
            on_undefined(name)
            return match.group()
        value = variables[name]
        return str(value).lower() if isinstance(value, bool) else str(value)

    return REFERENCE.sub(replace, text)


def list_names(value: Any) -> Iterator[str]:
    """Yield the name of every variable that a value refers to."""
    if isinstance(value, str):
        yield from (name for escape, name in REFERENCE.findall(value) if not escape)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from list_names(key)
            yield from list_names(item)
    elif isinstance(value, list):
        for item in value:
            yield from list_names(item)
