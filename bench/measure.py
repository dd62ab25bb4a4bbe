"""What all measurements share."""

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
    """What a figure needs is not installed or not running. The message says which figure, and what to do about it."""


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def median_of(times: int, call: Callable[[], object]) -> float:
    """In seconds."""
    return statistics.median(timed(call) for _ in range(times))


def env_as_installed() -> dict[str, str]:
    """An environment for `yb` as people have it: byte code was compiled when it was installed, and is kept.

    In a checkout it may be neither: files were changed, and a developer's environment may say PYTHONDONTWRITEBYTECODE.
    """
    compileall.compile_dir(Path(youbencha.__file__).parent, quiet=2)
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def installed_yb() -> str:
    yb = shutil.which("yb", path=str(Path(sys.executable).parent))
    if yb is None:
        raise ComponentMissing("`yb` is not installed beside this Python: use `make bench`, which installs it")
    return yb


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB"
