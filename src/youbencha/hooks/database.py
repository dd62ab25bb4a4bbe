"""Results kept beyond their run: a line in a file, or a row in a table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.hooks.result import Done
from youbencha.hooks.scope import Scope
from youbencha.log import ResultsBundle, iso_time
from youbencha.spec import DatabaseConfig


async def export(config: DatabaseConfig, scope: Scope, bundle: ResultsBundle) -> Done:
    path = scope.path(scope.exact(config.output_path, "output_path"))
    await asyncio.to_thread(_guarded, _WRITERS[config.type], config, path, bundle)
    what = "the whole result" if config.include_full_bundle else "a summary"
    metadata = {"type": config.type, "output_path": str(path), "exported": what}
    return Done(message=f"wrote {what} to {path.name}", metadata=metadata)


Writer = Callable[[DatabaseConfig, Path, ResultsBundle, str], None]


def _guarded(write: Writer, config: DatabaseConfig, path: Path, bundle: ResultsBundle) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(config, path, bundle, iso_time(time.time()))
    except OSError as error:
        raise YouBenchaError(
            "HOOK_DATABASE_FAILED",
            f"cannot write to {path}: {error.strerror or error}",
            hint="Look at the path, its permissions and the room on the disk.",
        ) from error


def _to_json_file(config: DatabaseConfig, path: Path, bundle: ResultsBundle, exported_at: str) -> None:
    from youbencha.hooks.exported import as_json_bytes, as_plain_data, summary_of
    from youbencha.hooks.json_lines import append_line, replace_with_line

    whole = {**as_plain_data(bundle), "exported_at": exported_at}
    line = as_json_bytes(whole if config.include_full_bundle else summary_of(bundle, exported_at))
    (append_line if config.append else replace_with_line)(path, line)


def _to_sqlite(config: DatabaseConfig, path: Path, bundle: ResultsBundle, exported_at: str) -> None:
    from youbencha.hooks.exported import as_json_bytes, as_plain_data, summary_of
    from youbencha.hooks.sqlite_table import write_row

    whole = as_json_bytes(as_plain_data(bundle)).decode() if config.include_full_bundle else None
    row = {**summary_of(bundle, exported_at), "bundle": whole}
    write_row(path, config.table, row, replace_all=not config.append)


_WRITERS: dict[str, Writer] = {"json-file": _to_json_file, "sqlite": _to_sqlite}
