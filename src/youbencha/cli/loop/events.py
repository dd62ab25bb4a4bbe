"""`ralph events`: show what was published in a loop."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from youbencha.errors import YouBenchaError


class EventsFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


def events(
    last: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the last N.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only these; `*` as in triggers.")] = None,
    form: Annotated[EventsFormat, typer.Option("--format", help="JSON has the whole payloads.")] = EventsFormat.TABLE,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Default: of the current loop.")] = None,
) -> None:
    """Show the events of a loop.

    Example: `ralph events --last 20`
    """
    import json

    from youbencha.cli.screen import width_of
    from youbencha.loop.hats import matches
    from youbencha.loop.topics import TopicLog, events_of_project, find_project
    from youbencha.text import one_line, plural, table

    project = find_project(os.environ, Path.cwd())
    log = TopicLog(Path.cwd() / file) if file else events_of_project(os.environ, project)
    try:
        found, malformed = log.read_all()
    except OSError as error:
        raise YouBenchaError("EVENTS_NOT_READABLE", f"{log.file} {error.strerror}.", hint="Check the file.") from error
    chosen = [event for event in found if topic is None or matches(topic, event.topic)][-(last or 0) :]
    if form is EventsFormat.JSON:
        records = [{"topic": each.topic, "payload": each.payload, "ts": each.at} for each in chosen]
        typer.echo(json.dumps(records, indent=2, ensure_ascii=False))
    elif chosen:
        room = max(20, width_of(sys.stdout) - 26 - max(len(each.topic) for each in chosen))
        rows = [(one_line(each.at[:19], 19), one_line(each.topic), one_line(each.payload, room)) for each in chosen]
        typer.echo(table(("TIME", "TOPIC", "PAYLOAD"), rows, width=10_000))
    else:
        typer.echo(f"no events in {log.file}")
    if malformed:
        typer.echo(f"{plural(len(malformed), 'line')} of {log.file} could not be read", err=True)
