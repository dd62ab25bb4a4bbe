"""Lay out the axis of a picture: from values to places on it, and round numbers to label it with."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_ROOM = 0.06
"""Left free at both ends, as a share of the values' range."""


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`. Places on it are percentages: a picture of any width uses the same ones."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float]) -> Axis:
        """Return an axis on which zero and all of these values are."""
        listed = [0.0, *values]
        room = (max(listed) - min(listed)) * _ROOM or 1.0
        return cls(min(listed) - room, max(listed) + room)

    def at(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low) * 100

    def ticks(self, unit: str = "{}", *, signed: bool = False, most: int = 7) -> tuple[Tick, ...]:
        """Return at most about so many round numbers. `unit` is what to write around them."""
        step = round_step(self.high - self.low, most)
        numbers = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        return tuple(Tick(self.at(number * step), _label(number * step, unit, signed)) for number in numbers)


def _label(value: float, unit: str, signed: bool) -> str:
    sign = "-" if value < 0 else "+" if value > 0 and signed else ""
    return sign + unit.format(f"{abs(value):,.10g}")


def round_step(length: float, most: int) -> float:
    """Return 1, 2 or 5 times a power of ten, so that a length has at most so many steps."""
    step: float = 10 ** math.floor(math.log10(length / most))
    return next(step * factor for factor in (1, 2, 5, 10) if length / (step * factor) <= most)
