"""`yb config`: show and change the settings."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from youbencha.cli.help import Commands
from youbencha.cli.interrupts import run_async
from youbencha.cli.options import confirm, settings_here
from youbencha.cli.terminal import console_on, terminal_width, wrap
from youbencha.doctor import Diagnosis, Finding, examine
from youbencha.errors import YouBenchaError
from youbencha.process import Redactor
from youbencha.sandbox.docker.ownership import reap_containers
from youbencha.spec.settings import (
    TEMPLATE,
    LoadedSettings,
    find_settings,
    json_template,
    leaves,
    read_settings,
    settings_file_in,
    write_settings,
)
from youbencha.spec.settings_edit import check_key, known_keys, set_value, unset_value
from youbencha.store.prune import old_runs, orphaned_directories, remove_orphaned, remove_run
from youbencha.text import one_line, plural, table

app = Commands(help="Show and change the settings: the project's `.youbencharc`, and your own in the home directory.")
NOT_SET = 1
_NEW_FILE = ".youbencharc"
Global = Annotated[bool, typer.Option("--global", help="Use the settings in your home directory, not the project's.")]


def _keys(incomplete: str) -> list[str]:
    """Complete a key for the shell."""
    return [key for key in known_keys() if key.startswith(incomplete)]


Key = Annotated[str, typer.Argument(metavar="KEY", help="A settings key, such as agent.model.", autocompletion=_keys)]


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One line of `yb config list`."""

    key: str
    value: Any
    origin: str
    """The file, or "default"."""


@app.command()
def init(
    everywhere: Global = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing settings file.")] = False,
) -> None:
    """Write a settings file that shows every setting with its default.

    Example: `yb config init --global`
    """
    directory = Path.home() if everywhere else Path.cwd()
    present = settings_file_in(directory)
    if present and not force:
        raise YouBenchaError(
            "SETTINGS_EXIST",
            f"{present} already exists",
            hint="Change it with `yb config set`, or replace it with `yb config init --force`.",
        )
    file = present or directory / _NEW_FILE
    write_settings(file, json_template() if file.suffix == ".json" else TEMPLATE)
    typer.echo(f"wrote {file}")


@app.command("list")
def list_settings(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the settings in effect here, and where each comes from. Variables with names of secrets are masked.

    Example: `yb config list`
    """
    loaded = settings_here()
    rows = list(_rows(loaded))
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    cells = ((row.key, one_line(_bare(row.value)), row.origin) for row in rows)
    typer.echo(table(("KEY", "VALUE", "FROM"), cells, width=terminal_width(sys.stdout), drop=["FROM"]))


@app.command()
def get(key: Key) -> None:
    """Print the effective value. Exit code 1: it is not set.

    Example: `yb config get agent.model`
    """
    check_key(key)
    value: Any = settings_here().settings.model_dump()
    for step in key.split("."):
        value = value.get(step)
    if value is None:
        raise typer.Exit(NOT_SET)
    typer.echo(_bare(value))


@app.command("set")
def set_setting(
    key: Key,
    value: Annotated[str, typer.Argument(help="The new value: true, false, a number or text.")],
    everywhere: Global = False,
    as_text: Annotated[
        bool, typer.Option("--string", help="Store the value as text even if it looks like a number.")
    ] = False,
) -> None:
    """Change a setting in its file; comments and everything else are kept.

    Example: `yb config set agent.model opus`
    """
    everywhere = everywhere or Path.cwd() == Path.home()
    file = _file(everywhere) or (Path.home() if everywhere else Path.cwd()) / _NEW_FILE
    users_file = settings_file_in(Path.home())
    user_values = None if everywhere else read_settings(users_file) if users_file else {}
    set_value(file, key, value, as_text=as_text, user_values=user_values)
    typer.echo(f"set {key} in {file}")


@app.command()
def unset(key: Key, everywhere: Global = False) -> None:
    """Remove a setting from its file, so that the next one applies. Exit code 1: it was not set there.

    Example: `yb config unset agent.model`
    """
    file = _file(everywhere)
    if file is not None and unset_value(file, key):
        typer.echo(f"removed {key} from {file}")
        return
    check_key(key)
    typer.echo(f"{key} is not set in {file}" if file else "there is no settings file", err=True)
    raise typer.Exit(NOT_SET)


def _file(everywhere: bool) -> Path | None:
    """The file to change. In the home directory, there is only the user's own."""
    files = find_settings(Path.cwd(), Path.home())
    return files.user if everywhere or Path.cwd() == Path.home() else files.project


def _rows(loaded: LoadedSettings) -> Iterator[SettingRow]:
    for key, value in leaves(loaded.settings.model_dump()):
        origin = loaded.origin.get(key)
        name = key.rpartition(".")[2]
        # A `key_env` is the name of a variable, not a key.
        hidden = Redactor.for_env({name: value}) if isinstance(value, str) and name != "key_env" else None
        shown = hidden.text(value) if hidden else value
        yield SettingRow(key, shown, str(origin) if origin else "default")


def _bare(value: Any) -> str:
    """Format a value as `yb config set` takes it; a group as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


_MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "failed": ("✗", "bold red")}
_TITLES = {"system": "System", "storage": "Storage", "loop": "Loop", "agents": "Agents"}
_NOT_READY = 2


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Time limit for each check.")] = 30.0,
) -> int:
    """Check git, Docker, disk, settings and each agent with its version and login; suggest fixes.

    Exit code 0 if at least one agent can be run here; 2 if git, disk space, valid settings or every agent is missing.
    """
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
    result = {
        "ready": diagnosis.ready,
        "usable_agents": list(diagnosis.usable_agents),
        "missing": list(diagnosis.missing),
        "findings": [asdict(finding) for finding in diagnosis.findings],
    }
    typer.echo(json.dumps(result, indent=2))


def _print(diagnosis: Diagnosis, if_ready: str) -> None:
    # Lines, not a table: a long path must not be cut, and a pipe gets the same text as a terminal.
    console = console_on(sys.stdout)
    width = max(len(finding.name) for finding in diagnosis.findings)
    for group, findings in groupby(diagnosis.findings, key=lambda finding: finding.group):
        console.print(Text(_TITLES[group], style="bold"))
        for finding in findings:
            for line in _lines(finding, width, terminal_width(sys.stdout)):
                console.print(line)
        console.print()
    if diagnosis.ready:
        console.print(Text(f"Ready: {if_ready}.", style="green"))
    else:
        console.print(Text(f"Not ready. Missing: {', '.join(diagnosis.missing)}.", style="bold red"))


def _lines(finding: Finding, width: int, screen: int) -> list[Text]:
    mark, style = _MARKS[finding.state]
    before = width + 6
    detail = wrap(finding.detail, screen, indent=before)
    lines = [Text.assemble("  ", (mark, style), f" {finding.name:<{width}}  ", detail)]
    if finding.fix:
        fix = wrap(finding.fix, screen, indent=before + 2)
        lines.append(Text(f"{'':<{before}}→ {fix}", style="dim"))
    return lines


_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def prune(
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Remove runs older than this: 30m, 12h, 7d, 2w.")
    ] = None,
    keep: Annotated[int | None, typer.Option(metavar="N", min=0, help="Keep the newest N runs.")] = None,
    sources_only: Annotated[
        bool, typer.Option("--sources-only", help="Remove only the agents' files; keep the results.")
    ] = False,
    workspace_dir: Annotated[Path | None, typer.Option(help="The workspace that contains the runs.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed without removing it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> int:
    """Remove old runs, and what crashed runs left elsewhere. Runs in progress are never touched.

    Without --older-than and --keep: everything older than 7 days.

    Example: `yb prune --keep 20`
    """
    _reap(dry_run=dry_run)
    root = workspace_dir or settings_here().workspace_dir
    cleared = _clear(root, dry_run=dry_run)
    age = _age(older_than) if older_than else (timedelta(days=7) if keep is None else None)
    runs = [run for run in old_runs(root, older_than=age, keep=keep) if not run.in_use]
    if not runs:
        typer.echo(f"nothing to remove in {root}")
        return 0 if cleared else 2
    for run in runs:
        state = "" if run.complete else "  (without results)"
        typer.echo(f"{run.created_at:%Y-%m-%d %H:%M}  {run.size_bytes / 1_000_000:9,.1f} MB  {run.path.name}{state}")
    total = f"{sum(run.size_bytes for run in runs) / 1_000_000:,.1f} MB"
    what = "the agents' files of " if sources_only else ""
    if dry_run:
        typer.echo(f"would remove {what}{plural(len(runs), 'run')}, {total}")
        return 0
    confirm(f"Remove {what}{plural(len(runs), 'run')} ({total})?", yes=yes)
    kept = 0
    for run in runs:
        try:
            remove_run(run, sources_only=sources_only)
        except (YouBenchaError, OSError) as error:
            kept += 1
            typer.echo(f"kept {run.path.name}: {error}", err=True)
    typer.echo(
        f"removed {what}{plural(len(runs) - kept, 'run')}"
        + (f", {total}" if not kept else f"; {kept} could not be removed")
    )
    return 0 if cleared and not kept else 2


def _reap(*, dry_run: bool) -> None:
    """Remove the containers of dead runs without asking: they contain nothing of value."""
    reaped = run_async(reap_containers(dry_run=dry_run))
    for name in reaped.names:
        typer.echo(f"{'would remove' if dry_run else 'removed'} the container {name} of a crashed run")


def _clear(root: Path, *, dry_run: bool) -> bool:
    """Remove the private directories of dead runs without asking: they contain nothing of value.

    Return whether none of them is left.
    """
    all_removed = True
    for run, directories in orphaned_directories(root).items():
        what = f"the files of the crashed run {run.name} in {directories[0].parent}"
        try:
            if dry_run:
                typer.echo(f"would remove {what}")
            elif remove_orphaned(run, directories):
                typer.echo(f"removed {what}")
        except YouBenchaError as error:
            all_removed = False
            typer.echo(f"kept {what}: {error}", err=True)
    return all_removed


def _age(written: str) -> timedelta:
    match = re.fullmatch(r"(\d{1,6})([mhdw])", written.strip())
    if not match:
        raise YouBenchaError("AGE_INVALID", f"--older-than {written} is not an age.", hint="Write 30m, 12h, 7d or 2w.")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
