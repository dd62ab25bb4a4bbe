"""Patterns for paths below a tree, the same in every evaluator.

A pattern is held against the whole path: `*.py` is a file at the top, `**/*.py` one anywhere. `*`, `?` and `[a-z]`
stay within one name, `**` stands for any number of directories, `{a,b}` for either. What ends in a plain name
(`docs`, `src/generated`) or in a slash means everything below it as well: who forbids `tests` does not mean a file
of that name.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field

_CHOICE = re.compile(r"\{([^{}]*)\}")
_WILD = re.compile(r"[*?\[]")
_MOST_ALTERNATIVES = 256

Segment = re.Pattern[str] | None
"""What one name must look like. None: any number of them."""


class Glob:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def matches(self, path: str) -> bool:
        names = path.split("/")
        return any(_match(names, segments) for segments in self._alternatives)

    @cached_property
    def _alternatives(self) -> tuple[tuple[Segment, ...], ...]:
        return tuple(_segments(plain) for plain in _without_choices(self._pattern))


class PathFilter(NamedTuple):
    """Which paths count: those that `include` names (all, if it names none), without those that `exclude` names."""

    include: Sequence[Glob] = ()
    exclude: Sequence[Glob] = ()

    @classmethod
    def of(cls, include: Iterable[str], exclude: Iterable[str]) -> PathFilter:
        return cls(tuple(map(Glob, include)), tuple(map(Glob, exclude)))

    def matches(self, path: str) -> bool:
        if self.include and not any(glob.matches(path) for glob in self.include):
            return False
        return not any(glob.matches(path) for glob in self.exclude)


def _segments(pattern: str) -> tuple[Segment, ...]:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    everything_below = pattern.endswith("/") or not _WILD.search(names[-1])
    found = [None if name == "**" else re.compile(fnmatch.translate(name)) for name in names]
    return (*found, None) if everything_below else tuple(found)


def _match(names: Sequence[str], segments: Sequence[Segment]) -> bool:
    """Name by name, with every place in the pattern where one could be: never a second try, however many `**`."""
    places = _and_beyond({0}, segments)
    for name in names:
        reached = set()
        for place in places:
            if place == len(segments):
                continue
            segment = segments[place]
            if segment is None:
                reached.add(place)
            elif segment.match(name):
                reached.add(place + 1)
        places = _and_beyond(reached, segments)
    return len(segments) in places


def _and_beyond(places: set[int], segments: Sequence[Segment]) -> set[int]:
    """`**` may also stand for nothing."""
    for place in sorted(places):
        while place < len(segments) and segments[place] is None:
            place += 1
            places.add(place)
    return places


def _without_choices(pattern: str) -> Iterator[str]:
    choice = _CHOICE.search(pattern)
    if choice is None:
        yield pattern
        return
    for option in choice[1].split(","):
        yield from _without_choices(pattern[: choice.start()] + option + pattern[choice.end() :])


def _checked(pattern: str) -> str:
    choices = 1
    for choice in _CHOICE.finditer(pattern):
        choices *= choice[1].count(",") + 1
    names = pattern.split("/")
    if not any(name not in ("", ".") for name in names):
        raise ValueError("must name something below the tree")
    if ".." in names:
        raise ValueError("must not hold `..`: paths are below the tree")
    if any("**" in name and name != "**" for name in names):
        raise ValueError("`**` must stand alone between slashes, as in `src/**/*.py`")
    if choices > _MOST_ALTERNATIVES:
        raise ValueError(f"must not stand for more than {_MOST_ALTERNATIVES} patterns")
    return pattern


GlobText = Annotated[str, AfterValidator(_checked)]
GlobList = Annotated[tuple[GlobText, ...], Field(strict=False)]
