"""The database hook: append a result to a file of JSON lines, or to a SQLite table."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.files import replace_atomically
from youbencha.hooks.context import HookContext, HookOutcome
from youbencha.locks import wait_for_lock
from youbencha.log.model import Usage
from youbencha.spec.testcase import DatabaseConfig
from youbencha.store.bundle import ResultsBundle
from youbencha.text import iso_time

MAX_WAIT_S = 30.0
_SUMMARY_FIELDS = ("evaluator", "status", "metrics", "message", "duration_ms", "timestamp")

COLUMNS: Mapping[str, str] = {
    "run_id": "TEXT PRIMARY KEY",
    "exported_at": "TEXT",
    "test_case": "TEXT",
    "agent": "TEXT",
    "model": "TEXT",
    "overall_status": "TEXT",
    "outcome": "TEXT",
    "valid": "INTEGER",
    "duration_ms": "INTEGER",
    "input_tokens": "INTEGER",
    "output_tokens": "INTEGER",
    "cost_usd": "REAL",
    "started_at": "TEXT",
    "commit": "TEXT",
    "bundle": "TEXT",
}
"""Names are always quoted: `commit` is an SQL keyword."""


async def export(config: DatabaseConfig, context: HookContext, bundle: ResultsBundle) -> HookOutcome:
    path = context.path(context.exact(config.output_path, "output_path"))
    await asyncio.to_thread(_write, config, path, bundle)
    exported = "the whole result" if config.include_full_bundle else "a summary"
    metadata = {"type": config.type, "output_path": str(path), "exported": exported}
    return HookOutcome(message=f"wrote {exported} to {path.name}", metadata=metadata)


def _write(config: DatabaseConfig, path: Path, bundle: ResultsBundle) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write = _to_json_file if config.type == "json-file" else _to_sqlite
        write(config, path, bundle, iso_time(time.time()))
    except OSError as error:
        raise YouBenchaError(
            "HOOK_DATABASE_FAILED",
            f"Cannot write to {path}: {error.strerror or error}",
            hint="Check the path, its permissions and free disk space.",
        ) from error


def _to_json_file(config: DatabaseConfig, path: Path, bundle: ResultsBundle, exported_at: str) -> None:
    whole = bundle.model_dump(mode="json")
    data = whole if config.include_full_bundle else without_details(whole)
    line = as_json_bytes({**data, "exported_at": exported_at})
    if config.append:
        append_line(path, line)
    else:
        replace_atomically(path.resolve(), line + b"\n")  # a link is followed


def _to_sqlite(config: DatabaseConfig, path: Path, bundle: ResultsBundle, exported_at: str) -> None:
    whole = as_json_bytes(bundle.model_dump(mode="json")).decode() if config.include_full_bundle else None
    row = {**flat_summary(bundle, exported_at), "bundle": whole}
    write_row(path, config.table, row, replace_all=not config.append)


def without_details(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result in the same form, but of each evaluator only what the original youBencha writes in this case."""
    evaluators = [{key: result[key] for key in _SUMMARY_FIELDS} for result in bundle["evaluators"]]
    return {**bundle, "evaluators": evaluators, "hooks": {}}


def as_json_bytes(data: Mapping[str, Any]) -> bytes:
    """Encode as one line of ASCII: file names may contain bytes that are not UTF-8, which must be escaped."""
    return json.dumps(data, separators=(",", ":")).encode("ascii")


def flat_summary(bundle: ResultsBundle, exported_at: str) -> dict[str, str | int | float | bool | None]:
    """Return one flat row. Unknown values are null."""
    agent, outcome = bundle.agent, bundle.outcome
    usage = (agent.usage if agent else None) or Usage()
    return {
        "run_id": bundle.identity.run_id,
        "exported_at": exported_at,
        "test_case": bundle.test_case.name,
        "agent": agent.type if agent else None,
        "model": agent.model if agent else None,
        "overall_status": bundle.summary.overall_status,
        "outcome": outcome.name if outcome else None,
        "valid": outcome.valid if outcome else None,
        "duration_ms": bundle.execution.duration_ms,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
        "started_at": bundle.execution.started_at,
        "commit": bundle.test_case.commit,
    }


def append_line(path: Path, line: bytes) -> None:
    """Append a complete line or nothing to a file that many runs may write to at the same time.

    If the last line has no line end (because of an editor or a crash), one is added first.
    """
    with open_locked(path) as fd:
        size = os.fstat(fd).st_size
        os.lseek(fd, max(0, size - 1), os.SEEK_SET)
        start = b"" if os.read(fd, 1) in (b"", b"\n") else b"\n"
        rest = memoryview(start + line + b"\n")
        try:
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError:  # such as a full disk: an incomplete line would make the file invalid
            with contextlib.suppress(OSError):
                os.ftruncate(fd, size)
            raise


@contextmanager
def open_locked(path: Path, *, max_wait_s: float = MAX_WAIT_S) -> Iterator[int]:
    """Open the file for appending, creating it if needed, and lock it against other processes.

    The lock is on the file itself, and the operating system releases it when the process ends.
    """
    deadline = time.monotonic() + max_wait_s
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
        try:
            if not wait_for_lock(fd, deadline - time.monotonic()):
                raise YouBenchaError(
                    "HOOK_DATABASE_FAILED",
                    f"Another program holds {path} locked.",
                    hint="See which one has it open (`lsof`), and stop it or wait for it.",
                )
            if _still_there(fd, path):
                yield fd
                return
        finally:
            os.close(fd)


def _still_there(fd: int, path: Path) -> bool:
    """Whether the path still names the locked file: it may have been replaced during the wait."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def write_row(path: Path, table: str, row: Mapping[str, Any], *, replace_all: bool = False) -> None:
    """Write a row in one transaction. The same run written twice is one row; writers wait for each other."""
    try:
        # Without a write-ahead log: one file that can be copied, also on a network drive. Each write is short.
        with closing(sqlite3.connect(path, timeout=MAX_WAIT_S, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")  # a lock that is requested later may be refused
            _prepare(connection, table)
            if replace_all:
                connection.execute(f'DELETE FROM "{table}"')  # noqa: S608 - the model allows only plain names
            names = ", ".join(f'"{name}"' for name in COLUMNS)
            placeholders = ", ".join("?" for _ in COLUMNS)
            insert = f'INSERT OR REPLACE INTO "{table}" ({names}) VALUES ({placeholders})'  # noqa: S608 - see above
            connection.execute(insert, [row[name] for name in COLUMNS])
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise YouBenchaError(
            "HOOK_DATABASE_FAILED",
            f"Cannot write to the table {table} in {path}: {error}",
            hint="Check that the file is a SQLite database, can be written, and is not locked by another program.",
        ) from error


def _prepare(connection: sqlite3.Connection, table: str) -> None:
    """Create the table, or add missing columns to an older one."""
    columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
    connection.execute(f'CREATE TABLE IF NOT EXISTS "{table}" ({columns})')
    present = {name for _, name, *_ in connection.execute(f'PRAGMA table_info("{table}")')}
    if "run_id" not in present:
        raise YouBenchaError(
            "HOOK_DATABASE_FAILED",
            f"The table {table} does not belong to youBencha: it has no column run_id",
            hint="Name another table with `table`.",
        )
    for name in (name for name in COLUMNS if name not in present):
        connection.execute(f'ALTER TABLE "{table}" ADD COLUMN "{name}" {COLUMNS[name]}')
