"""A time tracker in one file."""

import argparse
import json
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path

FORMAT = "%Y-%m-%dT%H:%M"


def main(argv=None):
    parser = argparse.ArgumentParser(prog="timetracker")
    parser.add_argument("--store", default="timetracker.json")
    parser.add_argument("--now", default=datetime.now().strftime(FORMAT))
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start")
    start.add_argument("project")
    start.add_argument("--note", default="")
    commands.add_parser("stop")
    commands.add_parser("status")
    commands.add_parser("cancel")
    add = commands.add_parser("add")
    add.add_argument("project")
    add.add_argument("start")
    add.add_argument("end")
    add.add_argument("--note", default="")
    listing = commands.add_parser("list")
    listing.add_argument("--project")
    report = commands.add_parser("report")
    report.add_argument("--by", default="project")
    for each in (listing, report):
        each.add_argument("--since", default="0000-01-01")
        each.add_argument("--until", default="9999-12-31")
    options = parser.parse_args(argv)

    path = Path(options.store)
    data = json.loads(path.read_text()) if path.exists() else {"entries": [], "running": None}
    running = data["running"]
    if options.command == "start":
        if running:
            return fail(f"{running['project']} is running")
        data["running"] = {"project": options.project, "start": options.now, "note": options.note}
        print(f"started {options.project} at {options.now}")
    elif options.command in ("stop", "cancel"):
        if not running:
            return fail("nothing is running")
        data["running"] = None
        if options.command == "cancel":
            print(f"cancelled {running['project']}")
        else:
            data["entries"].append({**running, "end": options.now})
            print(f"stopped {running['project']} after {duration(minutes(running['start'], options.now))}")
    elif options.command == "status":
        if not running:
            print("nothing is running")
        else:
            print(f"{running['project']} since {running['start']} ({duration(minutes(running['start'], options.now))})")
        return 0
    elif options.command == "add":
        data["entries"].append(
            {"project": options.project, "start": options.start, "end": options.end, "note": options.note}
        )
        print(f"added {options.project} ({duration(minutes(options.start, options.end))})")
    else:
        show(options, data["entries"])
        return 0
    path.write_text(json.dumps(data))
    return 0


def show(options, entries):
    entries = [entry for entry in entries if options.since <= entry["start"][:10] <= options.until]
    if options.command == "list":
        for entry in sorted(entries, key=lambda each: each["start"]):
            if options.project in (None, entry["project"]):
                length = duration(minutes(entry["start"], entry["end"]))
                print(f"{entry['start']} {entry['end']} {length} {entry['project']} {entry['note']}".rstrip())
        return
    totals = Counter()
    for entry in entries:
        totals[entry["project"] if options.by == "project" else entry["start"][:10]] += minutes(
            entry["start"], entry["end"]
        )
    for name, total in totals.most_common():
        print(name, duration(total))
    print("total", duration(sum(totals.values())))


def minutes(start, end):
    return int((datetime.strptime(end, FORMAT) - datetime.strptime(start, FORMAT)).total_seconds()) // 60


def duration(total):
    return f"{total // 60}:{total % 60:02}"


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    return 1
