"""The file with the entries."""

from __future__ import annotations

import json
import os
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from timetracker.entries import Entry, Timesheet

TIME_FORMAT = "%Y-%m-%dT%H:%M"


class StoreError(Exception):
    """A store that cannot be read."""


def load(path: Path) -> Timesheet:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        running = data["running"]
        return Timesheet([_entry(each) for each in data["finished"]], _entry(running) if running else None)
    except FileNotFoundError:
        return Timesheet()
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{path} cannot be read: {error!r}") from error


def save(path: Path, sheet: Timesheet) -> None:
    """Replace the store at once: whoever reads it sees the old one or the new one."""
    data = {
        "finished": [_data(entry) for entry in sheet.finished],
        "running": _data(sheet.running) if sheet.running else None,
    }
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _data(entry: Entry) -> dict[str, Any]:
    end = entry.end.strftime(TIME_FORMAT) if entry.end else None
    return {"project": entry.project, "start": entry.start.strftime(TIME_FORMAT), "end": end, "note": entry.note}


def _entry(data: dict[str, Any]) -> Entry:
    end = datetime.strptime(data["end"], TIME_FORMAT) if data["end"] else None
    return Entry(str(data["project"]), datetime.strptime(data["start"], TIME_FORMAT), end, str(data["note"]))
