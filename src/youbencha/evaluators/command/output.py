"""Metrics out of what a program printed. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from youbencha.evaluators.command.config import MetricPattern

_SEARCHED = 1024 * 1024
"""Characters from the end. The program runs an agent's code, that may print anything for ever."""
_LONGEST_LINE = 4_096
_LARGEST_INT = 2**53
"""Beyond, not every reader of JSON keeps all digits."""
TAIL_CHARACTERS = 4_000


def metrics_in(output: str, patterns: Mapping[str, MetricPattern]) -> dict[str, Any]:
    """Each metric, None if there is no such line or its value is not of the type that was asked for."""
    if not patterns:
        return {}
    lines = [line[:_LONGEST_LINE] for line in output[-_SEARCHED:].splitlines()]
    return {name: _value(lines, metric) for name, metric in patterns.items()}


def tail(output: str) -> str:
    """The end, from the beginning of a line where there is one."""
    if len(output) <= TAIL_CHARACTERS:
        return output
    end = output[-TAIL_CHARACTERS:]
    return end.partition("\n")[2] or end


def _value(lines: list[str], metric: MetricPattern) -> Any:
    pattern = re.compile(metric.pattern)
    group = metric.group if metric.group is not None else min(1, pattern.groups)
    for line in reversed(lines):
        if match := pattern.search(line):
            text: str | None = match[group]
            return None if text is None else _converted(text, metric.type)
    return None


def _converted(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    plain = text.strip().replace(",", "")
    try:
        number = int(plain) if kind == "int" else float(plain)
    except ValueError:
        return None
    if isinstance(number, float):
        return number if math.isfinite(number) else None
    return number if abs(number) <= _LARGEST_INT else None
