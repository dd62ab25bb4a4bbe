"""What may be said about a run besides its command: once, for all that hand it on to `process.run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from youbencha.process.lines import LineSink
from youbencha.process.model import Limits, Started
from youbencha.process.redact import Redactor
from youbencha.process.systems.base import Source

if TYPE_CHECKING:
    import asyncio


class RunOptions(TypedDict, total=False):
    """Each as `process.run` explains it."""

    limits: Limits | None
    redactor: Redactor | None
    log_file: Path | None
    on_line: LineSink | None
    on_start: Callable[[Started], None] | None
    stop: asyncio.Event | None
    also: Sequence[Source]
