"""The CLI's own log, kept beside its terminal output. It repeats what the model said, so secrets are masked first."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import Any

from youbencha.adapters.cli_agent import Task
from youbencha.process import OUTPUT_LIMIT_BYTES, Redactor

LOGS = "copilot-logs"


def keep_logs(task: Task[Any], redactor: Redactor) -> None:
    """From the scratch directory into the artifacts. A log that cannot be kept fails no run."""
    kept, logs = task.artifacts / LOGS, task.scratch / "logs"
    try:
        for path in [] if logs.is_symlink() else sorted(logs.glob("*.log")):
            if stat.S_ISREG(path.lstat().st_mode):  # a link would lead the reader to where the agent wants
                _keep(path, kept / path.name, redactor)
    except OSError:
        return


def _keep(path: Path, target: Path, redactor: Redactor) -> None:
    with path.open("rb") as file:
        data = file.read(OUTPUT_LIMIT_BYTES)
    stream = redactor.stream()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(stream.feed(data) + stream.finish())
    shutil.copystat(path, target)
