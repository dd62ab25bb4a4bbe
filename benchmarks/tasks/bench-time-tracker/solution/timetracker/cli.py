"""The commands."""

from __future__ import annotations

import argparse
import sys
from datetime import date, datetime
from pathlib import Path

from timetracker.entries import Refused, Timesheet, minutes_between
from timetracker.report import FORMATS, duration, summarise
from timetracker.store import TIME_FORMAT, StoreError, load, save


def main(argv: list[str] | None = None) -> int:
    try:
        options = _parser().parse_args(argv)
    except SystemExit as ended:
        return int(ended.code or 0)
    try:
        sheet = load(options.store)
        text = COMMANDS[options.command](sheet, options)
        if options.command in CHANGES:
            save(options.store, sheet)
    except (Refused, StoreError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1 if isinstance(error, Refused) else 2
    sys.stdout.write(text)
    return 0


def _start(sheet: Timesheet, options: argparse.Namespace) -> str:
    entry = sheet.start(options.project, options.now, options.note)
    return f"started {entry.project} at {entry.start.strftime(TIME_FORMAT)}\n"


def _stop(sheet: Timesheet, options: argparse.Namespace) -> str:
    entry = sheet.stop(options.now)
    return f"stopped {entry.project} after {duration(entry.minutes)}\n"


def _status(sheet: Timesheet, options: argparse.Namespace) -> str:
    entry = sheet.running
    if entry is None:
        return "nothing is running\n"
    elapsed = duration(max(0, minutes_between(entry.start, options.now)))
    return f"{entry.project} since {entry.start.strftime(TIME_FORMAT)} ({elapsed})\n"


def _cancel(sheet: Timesheet, options: argparse.Namespace) -> str:
    return f"cancelled {sheet.cancel().project}\n"


def _add(sheet: Timesheet, options: argparse.Namespace) -> str:
    entry = sheet.add(options.project, options.start, options.end, options.note)
    return f"added {entry.project} ({duration(entry.minutes)})\n"


def _list(sheet: Timesheet, options: argparse.Namespace) -> str:
    lines = []
    for entry in sheet.finished:
        wanted = options.project in (None, entry.project)
        if entry.end and wanted and options.since <= entry.start.date() <= options.until:
            times = f"{entry.start.strftime(TIME_FORMAT)} {entry.end.strftime(TIME_FORMAT)}"
            lines.append(f"{times} {duration(entry.minutes)} {entry.project} {entry.note}".rstrip() + "\n")
    return "".join(lines)


def _report(sheet: Timesheet, options: argparse.Namespace) -> str:
    return FORMATS[options.format](summarise(sheet.finished, options.by, options.since, options.until))


COMMANDS = {
    "start": _start,
    "stop": _stop,
    "status": _status,
    "cancel": _cancel,
    "add": _add,
    "list": _list,
    "report": _report,
}
CHANGES = {"start", "stop", "cancel", "add"}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="timetracker")
    parser.add_argument("--store", type=Path, default=Path("timetracker.json"))
    parser.add_argument("--now", type=_time, default=datetime.now().replace(second=0, microsecond=0))
    commands = parser.add_subparsers(dest="command", required=True)
    parts = {name: commands.add_parser(name) for name in COMMANDS}
    for name in ("start", "add"):
        parts[name].add_argument("project")
        parts[name].add_argument("--note", default="")
    parts["add"].add_argument("start", type=_time)
    parts["add"].add_argument("end", type=_time)
    for name in ("list", "report"):
        parts[name].add_argument("--since", type=_day, default=date.min)
        parts[name].add_argument("--until", type=_day, default=date.max)
    parts["list"].add_argument("--project")
    parts["report"].add_argument("--by", choices=("project", "day"), default="project")
    parts["report"].add_argument("--format", choices=tuple(FORMATS), default="text")
    return parser


def _time(text: str) -> datetime:
    return datetime.strptime(text, TIME_FORMAT)


def _day(text: str) -> date:
    return datetime.strptime(text, "%Y-%m-%d").date()
