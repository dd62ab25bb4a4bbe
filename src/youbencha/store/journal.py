"""The journal of a run (`journal.jsonl`): one line of JSON for each step, only ever appended to."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from youbencha.files import open_to_append, read_nofollow
from youbencha.store.arena_run import not_writable
from youbencha.store.layout import JOURNAL_FILE
from youbencha.text import iso_time

RUN_STARTED = "run_started"
_MAX_BYTES = 1 << 30


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
        return parse_journal(read_nofollow(directory, JOURNAL_FILE, _MAX_BYTES))
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


class Journal:
    """Appends to a journal. A kill loses no line; after a power cut, `meta.json` is the truth."""

    def __init__(self, directory: Path) -> None:
        """Open the journal of a run. A line that a kill has cut off is removed."""
        self._path = directory / JOURNAL_FILE
        self._size = read_journal(directory).size
        self._fd = open_to_append(self._path)
        os.ftruncate(self._fd, self._size)

    def add(self, event: str, **values: object) -> None:
        """Append a line, or nothing. Raises `RESULTS_NOT_WRITABLE`."""
        line = json.dumps({"at": iso_time(time.time()), "event": event, **values}).encode() + b"\n"
        try:
            if os.write(self._fd, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            os.ftruncate(self._fd, self._size)
            raise not_writable(self._path, error) from error
        self._size += len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._fd)
