"""Read the reward that a test command writes: a number, or a flat JSON object of numbers. It is not trusted."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NamedTuple

REWARD = "reward"


class Reward(NamedTuple):
    score: float
    """Between 0 and 1."""
    values: Mapping[str, float]
    """All numbers that were written."""


def parse_reward(text: bytes) -> Reward | None:
    """The reward in a file. None if it is empty, not finite, out of range, or if no key of it decides."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    values = data if isinstance(data, dict) else {REWARD: data}
    if not values or not all(_is_finite(value) for value in values.values()):
        return None
    score = values.get(REWARD, next(iter(values.values())) if len(values) == 1 else None)
    return Reward(float(score), values) if score is not None and 0 <= score <= 1 else None


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
