"""`thunderdome list`: list the orchestrators, tasks, suites and runs of an arena."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from youbencha.cli import options
from youbencha.cli.screen import width_of
from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.spec.arena_loader import Arena

Row = dict[str, Any]


def list_all(
    config: options.ArenaFile = options.ARENA_FILE,
    results: options.ResultsDir = None,
    last: Annotated[
        int, typer.Option("--last", "-n", metavar="N", min=0, help="How many runs, the newest first.")
    ] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the orchestrators, the tasks and the runs.

    Example: `thunderdome list --json`
    """
    from youbencha.spec.arena_loader import load_arena_file

    with options.add_hint(config):
        arena = load_arena_file(config)
    directory = results or arena.results_dir
    found = {
        "orchestrators": _orchestrators(arena),
        "tasks": _tasks(arena),
        "suites": _suites(arena),
        "runs": list(_runs(directory, last)),
    }
    if as_json:
        import json

        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo("\n\n".join(_tables(found)))
    if not found["runs"]:
        typer.echo(f"\nno runs in {directory}")


def _orchestrators(arena: Arena) -> list[Row]:
    """The orchestrators, each followed by its variants."""
    baselines = arena.baselines()
    rows: list[Row] = []
    for entry in arena.entries:
        each = entry.spec
        row = {
            "name": each.name,
            "variant_of": entry.orchestrator.name if entry.variant else None,
            "changes": entry.variant.changed_keys if entry.variant else [],
            "adapter": each.adapter,
            "agent": None if each.adapter or each.does_nothing else each.agent or each.name,
            "version": each.version,
            "model": each.model,
            "image": each.image,
            "baseline": baselines.get(each.name),
        }
        rows.append(row)
    return rows


def _tasks(arena: Arena) -> list[Row]:
    from youbencha.workspace import public_url

    return [
        {
            "id": each.key,
            "aliases": list(each.aliases),
            "name": each.name,
            "category": each.category,
            "repo": public_url(each.repo),
            "tag": each.tag,
            "time_limit_minutes": each.time_limit_minutes,
        }
        for each in arena.spec.tasks
    ]


def _suites(arena: Arena) -> list[Row]:
    """The suites with their tasks; a task without a category is in none."""
    suites: dict[str, list[str]] = {}
    for task in arena.spec.tasks:
        if task.suite:
            suites.setdefault(task.suite, []).append(task.key)
    return [{"suite": name, "tasks": ids} for name, ids in suites.items()]


def _runs(results: Path, last: int) -> Iterator[Row]:
    """The newest runs. A run of the original Thunderdome does not say how many trials were planned."""
    from youbencha.store.arena_run import ArenaRun
    from youbencha.store.layout import META_FILE, TRIALS_DIR
    from youbencha.store.locate import arena_runs

    for path in arena_runs(results)[::-1][:last]:
        row: Row = {"run": path.name, "path": str(path), "began": None, "trials_finished": None, "trials_planned": None}
        row["trials_finished"] = sum(1 for _ in path.glob(f"{TRIALS_DIR}/*/*/trial-*/{META_FILE}"))
        with suppress(YouBenchaError):
            info = ArenaRun(path).info()
            row |= {"began": info.created_at, "trials_planned": info.total}
        yield row


def _tables(found: dict[str, list[Row]]) -> Iterator[str]:
    from youbencha.text import duration, table

    width = width_of(sys.stdout)
    yield _table_of_orchestrators(found["orchestrators"], width)
    tasks = [
        (
            f"{row['id']} ({', '.join(row['aliases'])})" if row["aliases"] else row["id"],
            *map(_shown, (row["category"], row["tag"])),
            duration(row["time_limit_minutes"] * 60_000),
            row["repo"],
        )
        for row in found["tasks"]
    ]
    columns = ("TASK", "CATEGORY", "TAG", "TIME LIMIT", "REPOSITORY")
    yield table(columns, tasks, width=width, right=("TIME LIMIT",), drop=("REPOSITORY", "TAG", "TIME LIMIT"))
    if found["suites"]:
        suites = [(row["suite"], str(len(row["tasks"])), f"--category '{row['suite']}/*'") for row in found["suites"]]
        yield table(("SUITE", "TASKS", "OPTION"), suites, width=width, right=("TASKS",), drop=("OPTION",))
    if found["runs"]:
        runs = [
            (row["run"], _minute(row["began"]), f"{row['trials_finished']:,}", _number(row["trials_planned"]))
            for row in found["runs"]
        ]
        columns_of_runs = ("RUN", "BEGAN", "FINISHED", "PLANNED")
        yield table(columns_of_runs, runs, width=width, right=("FINISHED", "PLANNED"), drop=("BEGAN",))


def _table_of_orchestrators(rows: list[Row], width: int) -> str:
    from youbencha.text import table

    columns = ["ORCHESTRATOR", "AGENT", "VERSION", "MODEL", "IMAGE", "CHANGES", "COMPARED WITH"]
    cells = [
        (
            row["name"],
            row["adapter"] or row["agent"] or "does nothing",
            *map(_shown, (row["version"], row["model"], row["image"], ", ".join(row["changes"]), row["baseline"])),
        )
        for row in rows
    ]
    return table(columns, cells, width=width, drop=("IMAGE", "VERSION", "MODEL", "CHANGES", "COMPARED WITH"))


def _minute(time: str | None) -> str:
    return _shown(time and time[:16].replace("T", " "))


def _shown(value: str | None) -> str:
    return value or "-"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
