"""Read coverage reports, which are not trusted: the agent's code may have written them."""

from __future__ import annotations

from typing import NamedTuple


class Coverage(NamedTuple):
    """Shares between 0 and 1."""

    lines: float
    branches: float | None
    """None if the report does not have them."""


def parse_coverage(report: bytes) -> Coverage | None:
    """The totals of a report: istanbul's summary, JSON of coverage.py, Cobertura XML, lcov, or a profile of Go.

    The format is recognised by the content. None if it is none of them, or no code is covered by it.
    """
    raise NotImplementedError


def coverage_score(coverage: Coverage | None) -> float | None:
    """The mean of lines and branches; lines alone if branches are unknown."""
    if coverage is None:
        return None
    return coverage.lines if coverage.branches is None else (coverage.lines + coverage.branches) / 2
