"""Write a file, and say what came of it."""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Action = Literal["created", "skipped", "overwritten", "error"]


@dataclass(frozen=True, slots=True)
class FileResult:
    path: Path
    """Below the project's directory."""
    action: Action
    reason: str = ""


def write_file(root: Path, path: Path, text: str, *, force: bool) -> FileResult:
    """What is there already stays, unless `force` says otherwise. A file is never left half written."""
    target = root / path
    exists = os.path.lexists(target)
    if exists and not force:
        return FileResult(path, "skipped", "it is there already; --force overwrites it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(target, text)
    except OSError as error:
        return FileResult(path, "error", error.strerror or str(error))
    return FileResult(path, "overwritten" if exists else "created")


def _write_whole(target: Path, text: str) -> None:
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        beside.write_text(text, encoding="utf-8", newline="\n")
        beside.replace(target)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
