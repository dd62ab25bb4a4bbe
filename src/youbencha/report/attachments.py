"""What lies beside results.json and is worth showing: the changes, and the agent's log.

A bundle may come from somebody else. Its paths lead nowhere but into its own directory, and no file is read whole
whatever its size.
"""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.report.formatting import size

if TYPE_CHECKING:
    from youbencha.log import ResultsBundle, YouBenchaLog

DIFF = "git-diff.patch"
LOG = "youbencha-log.json"
_LARGEST_DIFF = 4 * 1024 * 1024
_LARGEST_LOG = 64 * 1024 * 1024


@dataclass(frozen=True)
class Attachments:
    diff: str | None = None
    diff_file: str | None = None
    diff_left_out: int = 0
    """How many bytes of it were too many."""
    log: YouBenchaLog | None = None
    log_note: str | None = None
    """Why there is no log to show."""


def read_attachments(directory: Path, bundle: ResultsBundle) -> Attachments:
    """What is missing is missing: a report without it is still a report."""
    diff_file = _first(directory, bundle.artifacts.diff, DIFF)
    diff, left_out = (None, 0) if diff_file is None else _start_of(diff_file)
    agent_log = bundle.agent.youbencha_log_path if bundle.agent else None
    log_file = _first(directory, agent_log, bundle.artifacts.agent_log, LOG)
    log, note = (None, None) if log_file is None else _log(log_file)
    name = None if diff_file is None else diff_file.relative_to(directory.resolve()).as_posix()
    return Attachments(diff, name, left_out, log, note)


def _first(directory: Path, *names: str | None) -> Path | None:
    return next((file for name in names if name and (file := _inside(directory, name))), None)


def _inside(directory: Path, name: str) -> Path | None:
    """Links are followed first: one that leads out of the directory is none of ours."""
    try:
        path = (directory / name).resolve()
        regular = stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):  # not there, not readable, a NUL in its name
        return None
    return path if regular and path.is_relative_to(directory.resolve()) else None


def _start_of(file: Path) -> tuple[str | None, int]:
    try:
        with file.open("rb") as stream:
            content = stream.read(_LARGEST_DIFF)
            left_out = max(0, file.stat().st_size - len(content))
    except OSError:
        return None, 0
    if left_out:
        content = content[: content.rfind(b"\n") + 1] or content
    return content.decode("utf-8", "surrogateescape"), left_out


def _log(file: Path) -> tuple[YouBenchaLog | None, str | None]:
    from pydantic import ValidationError

    from youbencha.log import YouBenchaLog

    try:
        if (bytes_in_it := file.stat().st_size) > _LARGEST_LOG:
            return None, f"The agent's log is too large to be shown ({size(bytes_in_it)})."
        document = json.loads(file.read_bytes())
        if isinstance(document, dict) and "agent_info" not in document:
            from youbencha.report.older import modern_log

            document = modern_log(document)
        return YouBenchaLog.model_validate(document), None
    except (OSError, ValueError, RecursionError, ValidationError) as error:
        return None, f"The agent's log could not be read ({type(error).__name__})."
