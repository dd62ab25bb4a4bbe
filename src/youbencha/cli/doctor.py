"""`yb doctor`: show what is installed, what is missing, and how to fix it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from youbencha.doctor import Diagnosis, Finding

_MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "failed": ("✗", "bold red")}
_TITLES = {"system": "System", "storage": "Storage", "loop": "Loop", "agents": "Agents"}
_NOT_READY = 2


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="For each check.")] = 30.0,
) -> int:
    """Check git, Docker, disk, settings and each agent with its version and login; suggest fixes.

    Exit code 0 if at least one agent can be run here; 2 if git, disk space, valid settings or every agent is missing.
    """
    import os

    from youbencha.cli.interrupts import run_async
    from youbencha.doctor import examine

    diagnosis = run_async(examine(Path.cwd(), Path.home(), os.environ, deadline_s=timeout))
    return show_diagnosis(diagnosis, f"{', '.join(diagnosis.usable_agents)} can be run here", as_json=as_json)


def show_diagnosis(diagnosis: Diagnosis, if_ready: str, *, as_json: bool) -> int:
    """Print the findings, and return the exit code."""
    if as_json:
        _print_json(diagnosis)
    else:
        _print(diagnosis, if_ready)
    return 0 if diagnosis.ready else _NOT_READY


def _print_json(diagnosis: Diagnosis) -> None:
    import json
    from dataclasses import asdict

    result = {
        "ready": diagnosis.ready,
        "usable_agents": list(diagnosis.usable_agents),
        "missing": list(diagnosis.missing),
        "findings": [asdict(finding) for finding in diagnosis.findings],
    }
    typer.echo(json.dumps(result, indent=2))


def _print(diagnosis: Diagnosis, if_ready: str) -> None:
    from itertools import groupby

    from rich.text import Text

    from youbencha.cli.screen import console_on, width_of

    # Lines, not a table: a long path must not be cut, and a pipe gets the same text as a terminal.
    console = console_on(sys.stdout)
    width = max(len(finding.name) for finding in diagnosis.findings)
    for group, findings in groupby(diagnosis.findings, key=lambda finding: finding.group):
        console.print(Text(_TITLES[group], style="bold"))
        for finding in findings:
            for line in _lines(finding, width, width_of(sys.stdout)):
                console.print(line)
        console.print()
    if diagnosis.ready:
        console.print(Text(f"Ready: {if_ready}.", style="green"))
    else:
        console.print(Text(f"Not ready. Missing: {', '.join(diagnosis.missing)}.", style="bold red"))


def _lines(finding: Finding, width: int, screen: int) -> list[Text]:
    from rich.text import Text

    from youbencha.cli.console import wrap

    mark, style = _MARKS[finding.state]
    before = width + 6
    detail = wrap(finding.detail, screen, indent=before)
    lines = [Text.assemble("  ", (mark, style), f" {finding.name:<{width}}  ", detail)]
    if finding.fix:
        fix = wrap(finding.fix, screen, indent=before + 2)
        lines.append(Text(f"{'':<{before}}→ {fix}", style="dim"))
    return lines
