"""What all measurements share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    what: str
    measured: str
    yardstick: str
    goal: str
    met: bool


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def median_of(times: int, call: Callable[[], object]) -> float:
    """In seconds."""
    return statistics.median(timed(call) for _ in range(times))


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB"
