"""Whether changes are where they should be. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from youbencha.evaluators.globs import Glob
from youbencha.evaluators.result import counted, printable

if TYPE_CHECKING:
    from youbencha.log import AssertionResult

_MOST_NAMED = 20


def required_results(patterns: Iterable[str], paths: Sequence[str]) -> Iterator[AssertionResult]:
    for pattern, found in _found(patterns, paths):
        message = "" if found else f"nothing that matches {pattern} was changed"
        yield _about_paths("required_paths", pattern, found, message)


def forbidden_results(patterns: Iterable[str], paths: Sequence[str]) -> Iterator[AssertionResult]:
    for pattern, found in _found(patterns, paths):
        others = f" and {counted(len(found) - 1, 'other')}" if len(found) > 1 else ""
        message = f"{found[0]}{others} must not be changed ({pattern})" if found else ""
        yield _about_paths("forbidden_paths", pattern, found, message)


def _found(patterns: Iterable[str], paths: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for pattern in patterns:
        glob = Glob(pattern)
        yield pattern, [printable(path) for path in paths if glob.matches(path)]


def _about_paths(name: str, pattern: str, found: Sequence[str], message: str) -> AssertionResult:
    from youbencha.log import AssertionResult

    return AssertionResult(
        name=name, passed=not message, expected=pattern, actual=list(found[:_MOST_NAMED]), message=message
    )
