"""Summarise the runs of a workspace."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from youbencha.errors import YouBenchaError
from youbencha.locks import is_locked
from youbencha.report.loading import RunLocation, load_results, runs_below
from youbencha.text import UNKNOWN, count, duration, one_line, table, usd
from youbencha.workspace.run_dir import LOCK

if TYPE_CHECKING:
    from youbencha.log.model import Usage
    from youbencha.store.bundle import ResultsBundle


_N = TypeVar("_N", int, float)
_COLUMNS = ("BEGAN", "VERDICT", "OUTCOME", "TEST CASE", "AGENT", "MODEL", "TOKENS", "COST", "TIME", "RUN")
_TO_THE_RIGHT = ("TOKENS", "COST", "TIME")
_LEAST_NEEDED = ("MODEL", "BEGAN", "AGENT", "OUTCOME", "TOKENS", "TIME", "COST", "TEST CASE")
"""What a narrow terminal does without, in this order. The name of a run says when it began."""
_LONGEST_CELL = 40

_NO_FIGURE = 10**15
"""Larger numbers are not shown: a results file may contain anything."""


class RunSummary(NamedTuple):
    path: Path
    began: datetime
    state: str
    """Its verdict; without one, `running`, `interrupted`, `died` or `unreadable`."""
    bundle: ResultsBundle | None
    """Without a verdict, what was finished."""


def past_runs(roots: Iterable[Path], newest: int | None = None) -> list[RunSummary]:
    """Return the runs, the newest first, including those that died or cannot be read."""
    found = {run for root in roots for run in runs_below(root.absolute())}
    return [_read(run) for run in sorted(found, reverse=True)[:newest]]


def runs_table(runs: Sequence[RunSummary], width: int) -> str:
    """Format a table. The name of a run, which users copy, is last."""
    return table(_COLUMNS, map(_row, runs), width=width, right=_TO_THE_RIGHT, drop=_LEAST_NEEDED)


def as_data(run: RunSummary) -> dict[str, Any]:
    """Return a run as JSON data. What is not known is null."""
    bundle = run.bundle
    agent = bundle.agent if bundle else None
    usage = agent.usage if agent else None
    return {
        "run": run.path.name,
        "path": str(run.path),
        "began": run.began.isoformat(timespec="seconds"),
        "state": run.state,
        "outcome": bundle.outcome.name if bundle and bundle.outcome else None,
        "valid": bundle.outcome.valid if bundle and bundle.outcome else None,
        "test_case": bundle.test_case.name if bundle else None,
        "agent": agent.type if agent else None,
        "agent_version": agent.version if agent else None,
        "model": agent.model if agent else None,
        "total_tokens": _figure(usage.total_tokens) if usage else None,
        "cost_usd": _figure(usage.cost_usd) if usage else None,
        "partial": usage.partial if usage else None,
        "duration_ms": _figure(bundle.execution.duration_ms) if bundle and bundle.execution.complete else None,
    }


def _read(run: RunLocation) -> RunSummary:
    began = datetime.fromtimestamp(run.began).astimezone()
    try:
        bundle = load_results(run.results) if run.has_results() else None
    except YouBenchaError:
        return RunSummary(run.path, began, "unreadable", None)
    return RunSummary(run.path, began, _state(run.path, bundle), bundle)


def _state(path: Path, bundle: ResultsBundle | None) -> str:
    """The state of a run. Results are written from the start, so that a kill loses nothing, but have a verdict only at
    the end."""
    if bundle is not None and bundle.execution.interrupted:
        return "interrupted"
    if bundle is not None and bundle.execution.complete:
        return bundle.summary.overall_status
    if not os.access(path, os.R_OK | os.X_OK):
        return "unreadable"
    return "running" if is_locked(path / LOCK) else "died"


def _figure(number: _N | None) -> _N | None:
    return number if number is not None and abs(number) < _NO_FIGURE else None


def _row(run: RunSummary) -> tuple[str, ...]:
    data = as_data(run)
    usage = run.bundle.agent.usage if run.bundle and run.bundle.agent else None
    outcome = (data["outcome"] or "").replace("_", " ")
    words = (outcome, data["test_case"] or "", data["agent"] or "", data["model"] or "")
    figures = (count(data["total_tokens"]), usd(data["cost_usd"]), duration(data["duration_ms"]))
    return (
        f"{run.began:%Y-%m-%d %H:%M}",
        run.state,
        *(one_line(word, _LONGEST_CELL) or "-" for word in words),
        *(_at_least(usage, figure) for figure in figures[:2]),
        _known(figures[2]),
        one_line(run.path.name, 4096),
    )


def _at_least(usage: Usage | None, figure: str) -> str:
    known = _known(figure)
    return f"≥ {known}" if usage and usage.partial and known != "-" else known


def _known(figure: str) -> str:
    return "-" if figure == UNKNOWN else figure
