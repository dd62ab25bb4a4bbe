"""The ledger: one line of JSON for each request, appended when it has ended.

A line is one write, so a kill -9 loses no request that had ended. Those in progress are in a second file (`FILE.open`);
when the ledger is opened again, they are added as never finished.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from youbencha.errors import YouBenchaError
from youbencha.files import open_file
from youbencha.gateway.call import Call
from youbencha.locks import try_lock
from youbencha.text import iso_time

"""The ledger's path in the artifacts of a run."""
KILLED = "harness_killed"
_OLD_CALL_OVER_CAP = "call_too_dear"
"""The name of this outcome in ledgers of version 0.1."""
_MAX_NOTED_BYTES = 1024 * 1024
"""The size of `FILE.open` beyond which it is cleared as soon as no request is in progress."""


def ledger_entry(call: Call) -> dict[str, Any]:
    """Return a call as an entry of the ledger."""
    return {
        "at": iso_time(call.at),
        "id": call.id,
        "key": call.labels.key,
        "agent": call.labels.agent,
        "run": call.labels.run,
        "method": call.method,
        "path": call.path,
        "api": call.wire,
        "model": call.model,
        "requested_model": call.requested_model,
        "status": call.status,
        "input_tokens": call.tokens.input,
        "output_tokens": call.tokens.output,
        "cache_read_tokens": call.tokens.cache_read,
        "cache_creation_tokens": call.tokens.cache_creation,
        "cost_usd": None if call.cost_usd is None else float(call.cost_usd),
        "partial": call.partial,
        "stream": call.stream,
        "error": call.error,
        "upstream_status": call.upstream_status,
        "retry_after_s": call.retry_after_s,
        "duration_ms": round(call.duration_ms, 2),
        "first_byte_ms": None if call.first_byte_ms is None else round(call.first_byte_ms, 2),
        "replayed": call.replayed,
    }


class Ledger:
    """An append-only file. Without a file, nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lines: int | None = None
        self._open: int | None = None
        self._under_way: set[str] = set()
        self._noted_bytes = 0
        self._torn: set[int] = set()
        self.failure: str | None = None
        """Why lines are missing, if so: a full disk must not end a run that costs money."""
        if path is not None:
            self._begin(path)

    def _begin(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open = _appending(_open_file(path))
            if not try_lock(self._open):
                raise _in_use(path)
            left = _left_open(path)
            self._lines = _appending(path)
            self._end_torn_line(path)
            for entry in left:
                self._write(self._lines, entry)
            os.ftruncate(self._open, 0)
        except YouBenchaError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise YouBenchaError(
                "LEDGER_NOT_WRITABLE",
                f"The ledger cannot be written: {path}: {error.strerror or error}",
                hint="Choose a file in a directory that you may write to.",
            ) from error

    def begun(self, call: Call) -> None:
        """Note a call in progress, as far as it is known."""
        if self._open is not None:
            self._under_way.add(call.id)
            self._noted_bytes += self._write(self._open, ledger_entry(call))

    def ended(self, call: Call) -> None:
        if self._lines is not None:
            self._write(self._lines, ledger_entry(call))
        self._under_way.discard(call.id)
        if self._open is not None and not self._under_way and self._noted_bytes > _MAX_NOTED_BYTES:
            os.ftruncate(self._open, 0)
            self._noted_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files. No request may be in progress."""
        for descriptor in (self._lines, self._open):
            if descriptor is not None:
                os.close(descriptor)
        if self._lines is not None and self.path is not None:  # otherwise another gateway may be using it
            with contextlib.suppress(OSError):  # an agent may have replaced its directory
                _open_file(self.path).unlink()
        self._lines = self._open = None

    def _write(self, descriptor: int, entry: Mapping[str, Any]) -> int:
        """Return the bytes written. On a full disk, that may be a partial line: the next one then starts a new line."""
        line = (b"\n" if descriptor in self._torn else b"") + orjson.dumps(entry) + b"\n"
        try:
            written = os.write(descriptor, line)
        except OSError as error:
            self.failure = self.failure or f"{error.strerror or error}"
            return 0
        self._torn.discard(descriptor)
        if written < len(line):
            self._torn.add(descriptor)
            self.failure = self.failure or os.strerror(errno.ENOSPC)
        return written

    def _end_torn_line(self, path: Path) -> None:
        """End a partial line, left by a full disk or a power cut, so that the next one is not appended to it."""
        size = path.stat().st_size
        if size and self._lines is not None:
            with path.open("rb") as file:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    os.write(self._lines, b"\n")


def read_ledger(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the entry of every complete line; lines that are not a JSON object are skipped."""
    with open_file(path) as file:
        for line in file:
            try:
                entry = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(entry, dict):
                if entry.get("error") == _OLD_CALL_OVER_CAP:
                    entry["error"] = "call_over_cap"
                yield entry


def _left_open(path: Path) -> list[dict[str, Any]]:
    """Return the calls that a killed process had in progress."""
    noted = _open_file(path)
    if not noted.is_file():
        return []
    ended = {entry.get("id") for entry in read_ledger(path)} if path.is_file() else set()
    fate = {"partial": True, "error": KILLED, "duration_ms": None}
    return [{**entry, **fate} for entry in read_ledger(noted) if entry.get("id") not in ended]


def _open_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.open")


def _in_use(path: Path) -> YouBenchaError:
    return YouBenchaError(
        "LEDGER_IN_USE", f"The ledger is in use by another gateway: {path}", hint="Give each gateway a separate ledger."
    )


def _appending(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, flags, 0o600)
