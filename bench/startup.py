"""The time of `yb --version`, compared with the bare interpreter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from bench.measure import Figure, env_as_installed, installed_yb, median_of, ms


def measure() -> Iterator[Figure]:
    yb = installed_yb()
    env = env_as_installed()
    bare = median_of(30, lambda: subprocess.run([sys.executable, "-c", "pass"], env=env, check=True))
    ours = median_of(30, lambda: subprocess.run([yb, "--version"], env=env, check=True, stdout=subprocess.DEVNULL))
    yield Figure("yb --version", ms(ours), f"python -c pass {ms(bare)}", "≤ 3×", ours <= 3 * bare)
