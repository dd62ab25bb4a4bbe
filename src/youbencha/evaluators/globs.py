"""Patterns for paths in a tree, the same in every evaluator.

A pattern must match the whole path: `*.py` is a file at the top, `**/*.py` one anywhere. `*`, `?` and `[a-z]` match
within one name, `**` any number of directories, `{a,b}` either. A pattern that ends in a plain name (`docs`,
`src/generated`) or in a slash also matches everything below it.

Agents choose paths, so matching takes linear time. The one regular expression that wcmatch makes of a pattern
backtracks: `**/a/**/a/**/*.py` holds the interpreter for minutes on a path of 4,000 characters.
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
_MAX_ALTERNATIVES = 256

Segment = re.Pattern[str] | None
"""Matches one name; None matches any number of names."""


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
    """Matches paths that `include` matches (all paths, if it is empty) and `exclude` does not."""

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
    segments = [None if name == "**" else re.compile(fnmatch.translate(name)) for name in names]
    return (*segments, None) if everything_below else tuple(segments)


def _match(names: Sequence[str], segments: Sequence[Segment]) -> bool:
    """Match name by name, following all possible positions in the pattern: no backtracking, however many `**`."""
    positions = _skip_stars({0}, segments)
    for name in names:
        reached = set()
        for position in positions:
            if position == len(segments):
                continue
            segment = segments[position]
            if segment is None:
                reached.add(position)
            elif segment.match(name):
                reached.add(position + 1)
        positions = _skip_stars(reached, segments)
    return len(segments) in positions


def _skip_stars(positions: set[int], segments: Sequence[Segment]) -> set[int]:
    """Add the positions after each `**`, which may match no directory."""
    for position in sorted(positions):
        while position < len(segments) and segments[position] is None:
            position += 1
            positions.add(position)
    return positions


def _without_choices(pattern: str) -> Iterator[str]:
    choice = _CHOICE.search(pattern)
    if choice is None:
        yield pattern
        return
    for option in choice[1].split(","):
        yield from _without_choices(pattern[: choice.start()] + option + pattern[choice.end() :])


def _valid_pattern(pattern: str) -> str:
    choices = 1
    for choice in _CHOICE.finditer(pattern):
        choices *= choice[1].count(",") + 1
    names = pattern.split("/")
    if not any(name not in ("", ".") for name in names):
        raise ValueError("must name a path in the tree")
    if ".." in names:
        raise ValueError("must not contain `..`: paths are relative to the tree")
    if any("**" in name and name != "**" for name in names):
        raise ValueError("`**` must stand alone between slashes, as in `src/**/*.py`")
    if choices > _MAX_ALTERNATIVES:
        raise ValueError(f"must not have more than {_MAX_ALTERNATIVES} alternatives")
    return pattern


GlobText = Annotated[str, AfterValidator(_valid_pattern)]
GlobList = Annotated[tuple[GlobText, ...], Field(strict=False)]
