"""Shared by all benchmarks."""

from __future__ import annotations

import compileall
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import youbencha


@dataclass(frozen=True)
class Figure:
    what: str
    measured: str
    yardstick: str
    goal: str
    met: bool | None
    """None where there is no goal."""


class ComponentMissing(Exception):
    """A benchmark needs something that is not installed or not running. The message says what to do about it."""


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def median_of(times: int, call: Callable[[], object]) -> float:
    """The median time of a call, in seconds."""
    return statistics.median(timed(call) for _ in range(times))


def env_as_installed() -> dict[str, str]:
    """An environment for `yb` as in an installation, which has compiled byte code.

    A checkout may have none: files were changed, and a developer's environment may set PYTHONDONTWRITEBYTECODE.
    """
    compileall.compile_dir(Path(youbencha.__file__).parent, quiet=2)
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def installed_yb() -> str:
    yb = shutil.which("yb", path=str(Path(sys.executable).parent))
    if yb is None:
        raise ComponentMissing("`yb` is not installed with this Python: use `make bench`, which installs it")
    return yb


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB"
