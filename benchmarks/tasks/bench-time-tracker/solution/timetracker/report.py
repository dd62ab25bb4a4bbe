"""Totals, and how they are shown."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from timetracker.entries import Entry


@dataclass(frozen=True)
class Report:
    by: str
    rows: list[tuple[str, int]]

    @property
    def total(self) -> int:
        return sum(minutes for _, minutes in self.rows)


def duration(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}"


def summarise(entries: Iterable[Entry], by: str, since: date, until: date) -> Report:
    totals: Counter[str] = Counter()
    for entry in entries:
        for day, minutes in entry.by_day():
            if since <= day <= until:
                totals[entry.project if by == "project" else day.isoformat()] += minutes
    if by == "project":
        return Report(by, sorted(totals.items(), key=lambda row: (-row[1], row[0])))
    return Report(by, sorted(totals.items()))


def as_text(report: Report) -> str:
    rows = [*report.rows, ("total", report.total)]
    return "".join(f"{name} {duration(minutes)}\n" for name, minutes in rows)


def as_csv(report: Report) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([report.by, "minutes"])
    writer.writerows(report.rows)
    return text.getvalue()


def as_json(report: Report) -> str:
    rows = [{"name": name, "minutes": minutes} for name, minutes in report.rows]
    return json.dumps({"by": report.by, "rows": rows, "total_minutes": report.total}) + "\n"


FORMATS = {"text": as_text, "csv": as_csv, "json": as_json}
