"""Aider's own files, kept beside its terminal output. They repeat what was said, so secrets are masked first."""

from __future__ import annotations

from pathlib import Path

from youbencha.adapters.aider.command import Files
from youbencha.adapters.aider.records import read_text
from youbencha.process import Redactor

LOGS = "aider-logs"


def keep_logs(files: Files, artifacts: Path, redactor: Redactor) -> None:
    """From the scratch directory into the artifacts. A log that cannot be kept fails no run."""
    kept = artifacts / LOGS
    for path in (files.chat, files.conversation, files.analytics, files.calls):
        if content := read_text(path):
            try:
                kept.mkdir(parents=True, exist_ok=True)
                (kept / path.name).write_text(redactor.text(content), encoding="utf-8", newline="")
            except OSError:
                return
