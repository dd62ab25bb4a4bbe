"""A row for each run in a table of SQLite, which `sqlite3 results.db` or a notebook can ask."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from sqlite3 import Connection

PATIENCE_S = 30.0

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
"""Names are always quoted: `commit` is a word of SQL."""


def write_row(path: Path, table: str, row: Mapping[str, Any], *, replace_all: bool = False) -> None:
    """One transaction. The same run written twice is one row; writers wait for each other."""
    import sqlite3

    try:
        # Without a write-ahead log: one file that can be copied, also on a network drive. Each write is short.
        with closing(sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")  # at once: a lock that is only asked for later may be refused
            _prepare(connection, table)
            if replace_all:
                connection.execute(f'DELETE FROM "{table}"')  # noqa: S608 - the model admits plain names only
            names = ", ".join(f'"{name}"' for name in COLUMNS)
            places = ", ".join("?" for _ in COLUMNS)
            insert = f'INSERT OR REPLACE INTO "{table}" ({names}) VALUES ({places})'  # noqa: S608 - see above
            connection.execute(insert, [row[name] for name in COLUMNS])
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise YouBenchaError(
            "HOOK_DATABASE_FAILED",
            f"cannot write to the table {table} in {path}: {error}",
            hint="Check that the file is a SQLite database, can be written, and is not kept locked by another program.",
        ) from error


def _prepare(connection: Connection, table: str) -> None:
    """Make the table, or give an older one the columns that it lacks."""
    columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
    connection.execute(f'CREATE TABLE IF NOT EXISTS "{table}" ({columns})')
    present = {name for _, name, *_ in connection.execute(f'PRAGMA table_info("{table}")')}
    if "run_id" not in present:
        raise YouBenchaError(
            "HOOK_DATABASE_FAILED",
            f"the table {table} is not one of youBencha's: it has no column run_id",
            hint="Name another one with `table`.",
        )
    for name in (name for name in COLUMNS if name not in present):
        connection.execute(f'ALTER TABLE "{table}" ADD COLUMN "{name}" {COLUMNS[name]}')
