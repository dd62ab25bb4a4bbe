"""Where an execution's terminal output is kept."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

from youbencha.log import iso_time


def new_log_file(artifacts: Path, logs: str) -> Path:
    """`<logs>/terminal-output-<time>.log`, one that does not exist yet. Windows takes no colons in names."""
    stamp = iso_time(time.time()).replace(":", "-").replace(".", "-")
    directory = artifacts / logs
    names = (f"terminal-output-{stamp}{'' if number == 1 else f'-{number}'}.log" for number in count(1))
    return next(path for path in map(directory.joinpath, names) if not path.exists())
