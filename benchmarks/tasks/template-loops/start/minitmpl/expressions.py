"""Values in templates: a path and filters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from minitmpl.errors import TemplateError

_PATH = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


class Missing:
    """A value that is not there. It is false, empty, and prints nothing."""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return ""


MISSING = Missing()
FILTERS: dict[str, Callable[[Any], Any]] = {
    "upper": lambda value: str(value).upper(),
    "lower": lambda value: str(value).lower(),
    "title": lambda value: str(value).title(),
    "length": lambda value: 0 if value is MISSING else len(value),
    "sorted": lambda value: [] if value is MISSING else sorted(value),
    "money": lambda value: f"{value:,.2f}",
    "join": lambda value: ", ".join(map(str, value)),
}


@dataclass(frozen=True)
class Expression:
    path: tuple[str, ...]
    filters: tuple[str, ...]
    line: int

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        value: Any = values
        for name in self.path:
            value = _lookup(value, name)
        for name in self.filters:
            try:
                value = FILTERS[name](value)
            except (TypeError, ValueError) as error:
                raise TemplateError(f"the filter {name} failed: {error}", self.line) from error
        return value


def parse_expression(source: str, line: int) -> Expression:
    path, *filters = (part.strip() for part in source.split("|"))
    if not _PATH.fullmatch(path):
        raise TemplateError(f"not a value: {source!r}", line)
    for name in filters:
        if name not in FILTERS:
            raise TemplateError(f"unknown filter: {name!r}", line)
    return Expression(tuple(path.split(".")), tuple(filters), line)


def _lookup(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name, MISSING)
    if name.startswith("_"):
        return MISSING
    return getattr(value, name, MISSING)
