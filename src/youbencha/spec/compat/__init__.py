"""Translations of the originals' spellings: pure functions of plain data, applied before validation.

The result is a file like any other. `moved` leads every position in an error back to what the user wrote.

Options of adapters and evaluators (`agent.config`, `evaluators[].config`) are passed on as they are written: hashes and
plugins see them so. Their own models know their older spellings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from youbencha.errors import KeyPath, Problem, dotted

ANY = "*"
"""Matches any key of a mapping, in a pattern of keys."""
Data = dict[str, Any]


@dataclass
class Translation:
    """A translated file."""

    data: Any
    notices: list[Problem] = field(default_factory=list)
    """Warnings, with paths in the translated data or as they are written; they get positions later."""
    refusals: list[Problem] = field(default_factory=list)
    """Errors."""
    moved: dict[KeyPath, KeyPath] = field(default_factory=dict)
    """Where the parts were written that were moved, by their new paths."""

    def move(self, origin: KeyPath, place: KeyPath, value: Any) -> None:
        """Put a value that was taken out to its place, unless the place has a value of its own."""
        if any(find(self.data, place)):
            if get(self.data, place) != value:
                self.refusals.append(Problem(origin, f"conflicts with `{dotted(place)}`", "remove one of the two"))
        elif put(self.data, place, value):
            self.moved[place] = origin


def find(data: Any, pattern: KeyPath) -> Iterator[KeyPath]:
    """Yield the paths of a pattern that exist."""
    if not pattern:
        yield ()
    elif isinstance(data, Mapping):
        first, *rest = pattern
        for key in list(data) if first == ANY else [first] if first in data else []:
            yield from ((key, *inside) for inside in find(data[key], tuple(rest)))


def get(data: Any, path: KeyPath) -> Any:
    """Return a part of the data, or None."""
    for step in path:
        data = data.get(step) if isinstance(data, Mapping) else None
    return data


def put(data: Data, path: KeyPath, value: Any) -> bool:
    """Set a value, in new mappings if needed. False: something else is in the way."""
    *groups, key = path
    here: Any = data
    for step in groups:
        if here.get(step) is None:
            here[step] = {}
        here = here[step]
        if not isinstance(here, dict):
            return False
    here[key] = value
    return True


def drop(data: Data, path: KeyPath) -> Any:
    """Remove a part of the data and return it."""
    return get(data, path[:-1]).pop(path[-1])
