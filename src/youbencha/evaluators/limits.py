"""`min_NAME` and `max_NAME`, held against metrics. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from youbencha.log import AssertionResult


def limit_results(limits: Mapping[str, float], metrics: Mapping[str, Any]) -> Iterator[AssertionResult]:
    """What is not known has not reached a limit, nor stayed below it."""
    from youbencha.log import AssertionResult

    for name, limit in limits.items():
        end, _, metric = name.partition("_")
        actual = metrics.get(metric)
        passed = actual is not None and (actual >= limit if end == "min" else actual <= limit)
        message = "" if passed else f"{metric} {_wrong(end, actual, limit)}"
        yield AssertionResult(name=name, passed=passed, expected=limit, actual=actual, message=message)


def _wrong(end: str, actual: float | None, limit: float) -> str:
    if actual is None:
        return "is not known"
    return f"is {_number(actual)}, {'less' if end == 'min' else 'more'} than {_number(limit)}"


def _number(value: float) -> str:
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < 1e15)
    return f"{int(value):,}" if whole else f"{value:.4g}"
