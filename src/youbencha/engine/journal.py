"""The journal of a run (`journal.jsonl`): one line of JSON for each step, only ever appended to."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from youbencha.errors import YouBenchaError
from youbencha.files import NO_FOLLOW, read_nofollow
from youbencha.store.arena_run import not_writable
from youbencha.store.layout import JOURNAL_FILE
from youbencha.text import iso_time

RUN_STARTED = "run_started"
_LARGEST = 1 << 30
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_FOLLOW | getattr(os, "O_BINARY", 0)


class JournalContents(NamedTuple):
    records: tuple[Mapping[str, Any], ...] = ()
    damaged: tuple[int, ...] = ()
    """Numbers of lines that cannot be read. Nothing depends on them: see `meta.json`."""
    size: int = 0
    """Bytes of all whole lines; what follows was cut off when the harness was killed."""

    @property
    def has_begun(self) -> bool:
        """Whether trials of the run were started before. The line about it may be one of the damaged."""
        return bool(self.damaged) or any(record.get("event") == RUN_STARTED for record in self.records)


def read_journal(directory: Path) -> JournalContents:
    """Read the journal of a run; it is empty if there is none."""
    try:
        return parse_journal(read_nofollow(directory, JOURNAL_FILE, _LARGEST))
    except FileNotFoundError:
        return JournalContents()


def parse_journal(data: bytes) -> JournalContents:
    size = data.rfind(b"\n") + 1
    records, damaged = [], []
    for number, line in enumerate(data[:size].split(b"\n")[:-1], 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            records.append(record)
        else:
            damaged.append(number)
    return JournalContents(tuple(records), tuple(damaged), size)


def journal_line(event: str, values: Mapping[str, object]) -> bytes:
    return json.dumps({"at": iso_time(time.time()), "event": event, **values}).encode() + b"\n"


class Journal:
    """Appends to a journal. Lines that come while others are written to the disk are written together."""

    def __init__(self, directory: Path, *, size: int = 0) -> None:
        """`size`: where the last whole line ends, as `read_journal` found it. The rest is cut off."""
        self._path = directory / JOURNAL_FILE
        self._size = size
        self._waiting: list[bytes] = []
        self._writing: asyncio.Task[None] | None = None
        self._failure: YouBenchaError | None = None
        self._fd = os.open(self._path, _APPEND, 0o644)
        os.ftruncate(self._fd, size)

    def add(self, event: str, **values: object) -> None:
        """Append a line, soon. Raises `RESULTS_NOT_WRITABLE` if an earlier one could not be written."""
        if self._failure is not None:
            raise self._failure
        self._waiting.append(journal_line(event, values))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())

    async def flush(self) -> None:
        """Wait until everything is on the disk."""
        if self._writing is not None:
            await asyncio.shield(self._writing)
        if self._failure is not None:
            raise self._failure

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._writing is not None:
                await asyncio.shield(self._writing)
        finally:
            os.close(self._fd)

    async def _write_all(self) -> None:
        while self._waiting:
            lines, self._waiting = b"".join(self._waiting), []
            try:
                await asyncio.to_thread(self._write, lines)
            except OSError as error:
                self._failure = not_writable(self._path, error)
                break
        self._writing = None

    def _write(self, lines: bytes) -> None:
        """Write all of it or, if the disk is full, nothing."""
        try:
            if os.write(self._fd, lines) < len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(lines)
