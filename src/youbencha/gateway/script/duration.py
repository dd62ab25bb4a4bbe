"""Durations as people write them: `250ms`, `2s`, `1.5m`, or a number of seconds."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m)?\s*")


def parse_duration(value: Any) -> float:
    """Seconds."""
    if isinstance(value, str) and (found := _WRITTEN.fullmatch(value)):
        return float(found[1]) * _UNITS[found[2] or "s"]
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    raise ValueError("must be a duration such as 250ms, 2s or 1m, or a number of seconds")


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m)?\s*$"},
            ],
            "examples": ["250ms", "2s", 0.5],
        }
    ),
]
